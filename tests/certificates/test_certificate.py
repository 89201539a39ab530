"""Certificates as they are written, read and made: to the last bit, and with room for other machines."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.certificates import form as certificate_form
from gpsuite.certificates.certificate import Certificate, pack, read_certificate, write_certificate
from gpsuite.certificates.checker import attained, check_certificate, node_bounds
from gpsuite.certificates.envelope import checksum
from gpsuite.certificates.form import rebuild_boxes
from gpsuite.certificates.model import model_hash
from gpsuite.certificates.plain_bound import PlainBound
from gpsuite.methods.robustness import certification as certify_module
from gpsuite.methods.robustness.certification import WITNESS
from gpsuite.methods.robustness.point_search import build_bound, certify_class, probability_range
from gpsuite.methods.robustness.search.branch_and_bound import branch_and_bound
from gpsuite.methods.robustness.search.regions import l2_ball, linf_ball
from gpsuite.methods.robustness.search.tree import SearchTree
from gpsuite.models.classification.links import LINKS
from gpsuite.untrusted import UnusableFileError
from tests.arrays import Array
from tests.methods.robustness.certified_point import certified, certify_range, small_certificate
from tests.methods.robustness.made_up_posteriors import random_posterior
from tests.models.gpc_problems import fitted_posterior


def flat(value: Any) -> list[Any]:
    """Every float and array of a certificate, in order."""
    if dataclasses.is_dataclass(value):
        return [x for field in dataclasses.fields(value) for x in flat(getattr(value, field.name))]
    if isinstance(value, tuple):
        return [x for each in value for x in flat(each)]
    return [value]


def same(first: Certificate, second: Certificate) -> bool:
    pairs = zip(flat(first), flat(second), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


@pytest.mark.parametrize("norm", ["box", "l2"])
def test_what_is_written_is_read_to_the_last_bit(tmp_path: Path, norm: str) -> None:
    certificate = certified(norm=norm, radius=0.25)[3]
    npz, other = write_certificate(certificate, tmp_path / "point.3")
    assert (npz.name, other.name) == ("point.3.npz", "point.3.json")
    assert same(read_certificate(npz), certificate)
    assert same(read_certificate(other), certificate)
    assert json.loads(other.read_text())["claims"][0]["outer"] == certificate.claims[0].outer


def test_files_state_their_format() -> None:
    """Certificates are kept by their owners: this number is raised when the fields' meaning changes, never else."""
    assert pack(small_certificate())[0]["version"] == 4


def test_the_hash_is_of_the_floats_and_the_structure() -> None:
    model = small_certificate().model
    assert model_hash(model) == model_hash(dataclasses.replace(model, X=np.asfortranarray(model.X)))
    for change in (
        {"variance": np.nextafter(model.variance, 9)},
        {"kernel": "matern52"},
        {"likelihood": "logistic"},
        {"squeeze": 0.1},
        {"noise": 0.1},
        {"X": model.X.reshape(-1, 1)},
        {"alpha": -model.alpha},
    ):
        assert model_hash(dataclasses.replace(model, **change)) != model_hash(model)


def test_the_claims_enclose_what_the_search_enclosed_up_to_the_slack() -> None:
    _, _, found, certificate = certified()
    for claim, extremum in zip(certificate.claims, (found.minimum, found.maximum), strict=True):
        assert claim.sign * (claim.outer - extremum.outer) <= 0.01 + 1e-9
        assert claim.inner == pytest.approx(extremum.inner, abs=1e-10)
        assert claim.sign * (claim.outer - claim.inner) >= 0


def test_too_few_boxes_give_a_looser_claim_that_still_holds() -> None:
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    found = probability_range(posterior, region, 0.01, Budget(boxes=4000))
    loose = certify_range(posterior, region, (found.maximum,), slack=1e-6, most_boxes=1)
    tight = certify_range(posterior, region, (found.maximum,), slack=1e-3)
    assert loose.claims[0].outer > tight.claims[0].outer >= found.maximum.inner
    assert check_certificate(loose).confirmed and check_certificate(tight).confirmed


def test_a_search_without_budget_has_a_certificate_too() -> None:
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    bounding = build_bound("rkhs_taylor", posterior, region)
    nothing = branch_and_bound(bounding, region, 0.01, Budget(boxes=0))
    certificate = certify_range(posterior, region, (nothing,), slack=1.0)
    assert certificate.claims[0].inner is None
    assert check_certificate(certificate).confirmed


def test_a_decided_class_is_certified_on_the_right_side_of_one_half() -> None:
    posterior = fitted_posterior()[0]
    region = linf_ball(posterior.X[np.argmax(posterior.probability(posterior.X))], 0.4)
    verdict, found = certify_class(posterior, region, Budget(boxes=4000))
    [extremum] = found.values()
    assert verdict.status == "safe"
    certificate = certify_range(posterior, region, (extremum,), slack=0.9 * (extremum.outer - 0.5))
    assert certificate.claims[0].outer > 0.5
    assert check_certificate(certificate).confirmed


@pytest.mark.parametrize("kernel", ["squared_exponential", "matern52"])
def test_sparse_posteriors_and_balls_are_certified(kernel: str) -> None:
    rng = np.random.default_rng(5)
    for link in ("probit", "logistic", "squeezed_probit"):
        posterior = random_posterior(rng, kernel, link, 10, 3, sparse=True)
        region = l2_ball(posterior.X[0], 0.05, free=[0, 2])
        found = probability_range(posterior, region, 0.05, Budget(boxes=500))
        certificate = certify_range(posterior, region, (found.minimum, found.maximum), slack=0.05, most_boxes=500)
        assert check_certificate(certificate).problems == ()


def test_a_link_without_a_plain_bound_is_refused() -> None:
    model = dataclasses.replace(LINKS.get("probit"), name="cauchit")  # type: ignore[type-var]
    posterior = dataclasses.replace(fitted_posterior()[0], link=model)
    with pytest.raises(ValueError, match="cauchit"):
        certify_range(posterior, linf_ball([0.0, 0.0], 0.1), ())


def words_changed(npz: Path, **changes: Any) -> None:
    other = npz.with_suffix(".json")
    other.write_text(json.dumps(json.loads(other.read_text()) | changes))


def arrays_changed(npz: Path, **changes: Array | None) -> None:
    arrays = {**dict(np.load(npz)), **changes}
    np.savez(npz, **{name: array for name, array in arrays.items() if array is not None})


def fit_checksum(npz: Path, **changes: Any) -> None:
    words_changed(npz, **changes)
    words_changed(npz, checksum=checksum(json.loads(npz.with_suffix(".json").read_text()), dict(np.load(npz))))


def an_array_for_npz(npz: Path) -> None:
    with npz.open("wb") as stream:
        np.save(stream, np.zeros(3))


CLAIM = pack(small_certificate())[0]["claims"][0]
DAMAGES: dict[str, Callable[[Path], Any]] = {
    "a moved number": lambda npz: arrays_changed(npz, tree_leaf_bound=np.load(npz)["tree_leaf_bound"] + 1.0),
    "a changed word": lambda npz: words_changed(npz, kind="regression"),
    "no npz": lambda npz: npz.unlink(),
    "no json": lambda npz: npz.with_suffix(".json").unlink(),
    "half an npz": lambda npz: npz.write_bytes(npz.read_bytes()[:2000]),
    "text for npz": lambda npz: npz.write_text("no arrays"),
    "an array for npz": an_array_for_npz,
    "not json": lambda npz: npz.with_suffix(".json").write_text("{"),
    "other json": lambda npz: npz.with_suffix(".json").write_text('{"format": "shopping list"}'),
    "json list": lambda npz: npz.with_suffix(".json").write_text("[]"),
    "newer": lambda npz: fit_checksum(npz, version=99),
    "no claims": lambda npz: fit_checksum(npz, claims=[]),
    "claims of a wrong kind": lambda npz: fit_checksum(npz, claims=[{**CLAIM, "outer": [1]}]),
    "a missing array": lambda npz: arrays_changed(npz, tree_cut=None),
    "an array of a wrong kind": lambda npz: arrays_changed(npz, tree_cut=np.array(["a"])),
    "objects": lambda npz: arrays_changed(npz, tree_cut=np.array([{}], dtype=object)),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_an_unusable_file_is_a_clear_error(tmp_path: Path, how: str) -> None:
    npz, _ = write_certificate(small_certificate(), tmp_path / "c")
    DAMAGES[how](npz)
    with pytest.raises(UnusableFileError, match=str(tmp_path)) as caught:
        read_certificate(npz)
    assert len(str(caught.value).splitlines()) == 1


def test_seconds_end_a_certificate_which_then_claims_less(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    found = probability_range(posterior, region, 1e-4, Budget(boxes=4000))
    extrema = (found.minimum, found.maximum)
    whole = certify_range(posterior, region, extrema, slack=1e-8)
    trivial = certify_range(posterior, region, extrema, budget=Budget(seconds=0.0))
    assert [(claim.outer, claim.inner) for claim in trivial.claims] == [(0.0, None), (1.0, None)]
    clock = itertools.count()
    monkeypatch.setattr(certify_module.time, "monotonic", lambda: next(clock) * 0.1)  # type: ignore[attr-defined]
    limited = certify_range(posterior, region, extrema, slack=1e-8, budget=Budget(seconds=1.5, started=0.0))
    for part, claim, extremum in zip(limited.claims, whole.claims, extrema, strict=True):
        assert len(part.leaf) < len(claim.leaf)
        assert claim.sign * (part.outer - claim.outer) > 0 and claim.sign * (part.outer - extremum.inner) > 0
    assert all(check_certificate(each).confirmed for each in (whole, trivial, limited))
    assert [each.search["out_of_time"] for each in (whole, trivial, limited)] == [False, True, True]


def test_the_second_claim_gets_half_of_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    found = probability_range(posterior, region, 0.05, Budget(boxes=400))
    shares: list[float] = []
    build = certify_module._Builder.__init__

    def noted(self: Any, *given: Any) -> None:
        shares.append(given[-1])
        build(self, *given)

    monkeypatch.setattr(certify_module._Builder, "__init__", noted)
    certify_range(posterior, region, (found.maximum, found.minimum), budget=Budget(seconds=1000.0))
    assert 450 < shares[0] <= 500 and 900 < shares[1] <= 1000


def test_a_set_up_that_would_not_fit_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    found = probability_range(posterior, region, 0.05, Budget(boxes=400))
    monkeypatch.setattr(certify_module, "SET_UP", (1.0, 0.0))  # 30^3 seconds
    monkeypatch.setattr(certify_module, "PlainBounds", None)
    certificate = certify_range(posterior, region, (found.minimum,), budget=Budget(seconds=20_000.0))
    assert certificate.claims[0].outer == 0.0


def test_the_set_up_is_estimated_from_rows_and_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certify_module, "SET_UP", (2.0, 3.0))
    assert certify_module._set_up_seconds(small_certificate().model) == 2 * 30**3 + 3 * 30**2 * 2


def test_boxes_that_the_search_found_too_loose_are_not_bounded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    found = probability_range(posterior, region, 0.002, Budget(boxes=4000), "paper")
    bounded: list[int] = []

    def counted(plain: Any, where: Any, sign: int, lo: Array, *others: Array) -> Any:
        bounded.append(len(lo))
        return node_bounds(plain, where, sign, lo, *others)

    monkeypatch.setattr(certify_module, "node_bounds", counted)
    claim = certify_range(posterior, region, (found.maximum,), slack=1e-5).claims[0]
    assert sum(bounded) < 0.8 * len(claim.parent)


def test_leaves_state_bounds_a_little_looser_than_computed() -> None:
    """Other machines' last bits must not refute a certificate: 1e-9 of the bound, whatever its size."""
    certificate = small_certificate()
    plain = PlainBound(certificate.model.binary, certificate.region.centre, certificate.region.free)
    for claim in certificate.claims:
        lo, hi = rebuild_boxes(certificate.region, claim.parent, claim.dim, claim.cut)
        ends = lo[claim.leaf_proved], hi[claim.leaf_proved]
        own = node_bounds(plain, certificate.region, claim.sign, *ends, claim.leaf_threshold, claim.leaf_threshold)[0]
        np.testing.assert_allclose(claim.sign * (claim.leaf_bound - own), 1e-9 * np.abs(own), rtol=1e-4)


def test_fewer_leaves_where_the_claim_may_be_loose() -> None:
    """The search's tree is left where the plain bound meets the claim: a claim of slack 1 needs the root alone."""
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    found = probability_range(posterior, region, 0.002, Budget(boxes=4000))
    leaves = [
        [len(claim.leaf) for claim in certify_range(posterior, region, (found.minimum, found.maximum), slack).claims]
        for slack in (0.001, 0.1, 1.0)
    ]
    assert leaves[0] > leaves[1] > leaves[2] == [1, 1]


def test_boxes_are_cut_where_the_search_cut_and_then_in_the_middle() -> None:
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    found = probability_range(posterior, region, 0.002, Budget(boxes=4000)).maximum
    parent, dim, cut = (np.array([-1, 0, 0, 2, 2]), np.array([-1, 1, 1, 0, 0]), np.array([0, 0.123, 0.123, 0.3, 0.3]))
    loose = np.full(5, np.inf)
    tree = SearchTree(parent, dim, cut, loose, np.arange(5), np.zeros(5, dtype=bool))
    claim = certify_range(posterior, region, (dataclasses.replace(found, tree=tree),), 1e-4, most_boxes=41).claims[0]
    for part, searched in ((claim.parent, parent), (claim.dim, dim), (claim.cut, cut)):
        assert part[:3].tolist() == searched[:3].tolist()
    rest = zip(claim.dim[3:].tolist(), claim.cut[3:].tolist(), strict=True)
    below = {(axis, round(at, 9)) for axis, at in rest}
    assert (0, 0.3) in below  # the search's second cut
    assert (0, 0.2) in below  # the other half's middle, in the input of the shorter lengthscale
    assert len(np.unique(claim.leaf_proved)) <= 41


def test_no_certificate_is_too_large_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, region = fitted_posterior()[0], linf_ball([0.2, 0.1], 0.6)
    found = probability_range(posterior, region, 0.002, Budget(boxes=4000))
    monkeypatch.setattr(certificate_form, "MOST_NODES", 9)
    certificate = certify_range(posterior, region, (found.maximum,), 1e-5)
    assert len(certificate.claims[0].parent) <= 9
    assert check_certificate(certificate).confirmed


def test_a_witness_is_claimed_inward_for_other_machines() -> None:
    certificate = certified()[3]
    plain = PlainBound(certificate.model.binary, certificate.region.centre, certificate.region.free)
    for claim in certificate.claims:
        assert claim.witness is not None
        low, high = attained(plain, claim.witness)
        room = claim.sign * ((low if claim.sign > 0 else high) - claim.inner)
        assert room >= 0.9 * WITNESS * claim.inner
