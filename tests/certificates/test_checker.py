"""The checker confirms what is true, refutes what was tampered with, and shares no code with the search."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

import gpsuite
from gpsuite.certificates import checker
from gpsuite.certificates.certificate import Certificate
from gpsuite.certificates.checker import attained, check_certificate, require_extended_precision
from gpsuite.certificates.form import MalformedError, rebuild_boxes
from gpsuite.certificates.model import model_hash
from gpsuite.certificates.plain_bound import PlainBound
from gpsuite.certificates.plain_model import Known, ModelProducts, PlainLatent
from gpsuite.errors import UserError
from gpsuite.methods.robustness.search.regions import l1_ball, l2_ball
from tests.arrays import Array
from tests.methods.robustness.certified_point import certified, changed, small_certificate, with_claim, worst_leaf
from tests.methods.robustness.decimal_oracle import exact_score

CHECKERS = (
    "certificate",
    "checker",
    "envelope",
    "form",
    "model",
    "plain_bound",
    "plain_kernel",
    "plain_model",
    "plain_moments",
    "plain_scores",
    "plain_softmax",
    "plain_softmax_bound",
    "plain_margin",
)


def test_the_checker_imports_nothing_of_the_search() -> None:
    """What its modules import, and those in turn: only each other and leaves, no models and nothing of the family."""
    room, package = "gpsuite.certificates", Path(gpsuite.__file__).parent
    reached, open_ = {f"{room}.checker"}, [f"{room}.checker"]
    while open_:
        file = package.joinpath(*open_.pop().split(".")[1:]).with_suffix(".py")
        tree = ast.parse(file.read_text())
        assert not any(isinstance(node, ast.Import) and "gpsuite" in ast.dump(node) for node in ast.walk(tree))
        named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        new = {name for name in named if name.startswith("gpsuite")} - reached
        reached, open_ = reached | new, open_ + sorted(new)
    own = {name for name in reached if name.startswith("gpsuite.certificates")}
    assert own == {f"{room}.{name}" for name in CHECKERS}
    assert reached - own <= {
        "gpsuite.arrays", "gpsuite.atomic", "gpsuite.errors", "gpsuite.untrusted"
    }  # fmt: skip


def test_products_are_computed_once_for_certificates_of_the_same_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    first, made = small_certificate(), list[PlainLatent]()
    compute = ModelProducts._make

    def counted(products: ModelProducts, extended: bool) -> Known:
        made.append(products.model)
        return compute(products, extended)

    monkeypatch.setattr(ModelProducts, "_make", counted)
    monkeypatch.setattr(checker, "_KEPT", {})
    again = dataclasses.replace(first, model=dataclasses.replace(first.model, alpha=first.model.alpha.copy()))
    assert check_certificate(first).confirmed and check_certificate(again).confirmed
    assert len(made) == 1
    # a model of other floats has products of its own, and the old ones are not kept
    louder = dataclasses.replace(first.model, alpha=2 * first.model.alpha)
    other = dataclasses.replace(first, model=louder, model_hash=model_hash(louder))
    assert not check_certificate(other).confirmed and not check_certificate(other).confirmed
    assert [len(made), len(checker._KEPT)] == [2, 1] and np.array_equal(made[1].alpha, louder.alpha[0])
    # a hash that the floats do not have never reaches them
    assert not check_certificate(dataclasses.replace(other, model_hash=first.model_hash)).confirmed
    assert check_certificate(first).confirmed and len(made) == 3


@pytest.mark.parametrize("norm", ["box", "l2", "l1"])
@pytest.mark.parametrize(
    ("kernel", "link"),
    [
        ("squared_exponential", "probit"),
        ("squared_exponential", "logistic"),
        ("matern52", "probit"),
        ("matern32", "logistic"),
    ],
)
def test_a_true_certificate_is_confirmed(kernel: str, link: str, norm: str) -> None:
    radius = 0.1 if kernel == "matern32" else 0.25
    posterior, region, found, certificate = certified(kernel, link, norm, radius)
    report = check_certificate(certificate)
    assert report.problems == ()
    assert report.boxes > 0
    low, high = certificate.claims
    probability = posterior.probability(region.embed(region.project(np.random.default_rng(0).uniform(-2, 2, (500, 2)))))
    assert low.outer <= probability.min() and probability.max() <= high.outer
    assert low.outer >= found.minimum.outer - 0.0101 and high.outer <= found.maximum.outer + 0.0101


def beyond(c: Certificate, index: int, leaf: int) -> float:
    """Return a bound that the score at the middle of a leaf breaks."""
    claim = c.claims[index]
    lo, hi = rebuild_boxes(c.region, claim.parent, claim.dim, claim.cut)
    node = claim.leaf[leaf]
    middle = PlainBound(c.model.binary, c.region.centre, c.region.free).at(0.5 * (lo[node] + hi[node])[None])
    return float(middle[0][0] - 0.01 if claim.sign > 0 else middle[1][0] + 0.01)


def improve_a_leaf(c: Certificate) -> Certificate:
    at = worst_leaf(c.claims[1])
    return with_claim(c, 1, leaf_bound=changed(c.claims[1].leaf_bound, at, beyond(c, 1, at)))


def improve_any_leaf(c: Certificate) -> Certificate:
    best = int(np.argmin(c.claims[0].sign * c.claims[0].leaf_bound))
    return with_claim(c, 0, leaf_bound=changed(c.claims[0].leaf_bound, best, beyond(c, 0, best)))


def move_a_cut(c: Certificate) -> Certificate:
    """One part becomes nearly the whole box."""
    claim = c.claims[0]
    axis = claim.dim[1]
    end = c.region.upper[axis] if claim.cut[1] < c.region.centre[c.region.free[axis]] else c.region.lower[axis]
    return with_claim(c, 0, cut=changed(claim.cut, [1, 2], end + 1e-3 * (claim.cut[1] - end)))


def move_a_cut_of_one_sibling(c: Certificate) -> Certificate:
    return with_claim(c, 0, cut=changed(c.claims[0].cut, 1, c.claims[0].cut[1] - 1e-3))


def cut_outside(c: Certificate) -> Certificate:
    return with_claim(c, 0, cut=changed(c.claims[0].cut, [1, 2], 99.0))


def drop_a_leaf(c: Certificate) -> Certificate:
    names = ("leaf", "leaf_bound", "leaf_proved", "leaf_threshold")
    at = worst_leaf(c.claims[1])
    return with_claim(c, 1, **{name: np.delete(getattr(c.claims[1], name), at) for name in names})


def drop_two_nodes(c: Certificate) -> Certificate:
    return with_claim(c, 0, **{name: getattr(c.claims[0], name)[2:] for name in ("parent", "dim", "cut")})


def cite_a_stranger(c: Certificate) -> Certificate:
    claim = c.claims[0]
    easiest = claim.leaf_proved[int(np.argmin(claim.sign * claim.leaf_bound))]
    at = worst_leaf(claim)
    return with_claim(c, 0, leaf_proved=changed(claim.leaf_proved, at, easiest))


def alter_alpha(c: Certificate) -> Certificate:
    alpha = changed(c.model.alpha, (0, 3), c.model.alpha[0, 3] + 1e-9)
    return dataclasses.replace(c, model=dataclasses.replace(c.model, alpha=alpha))


def alter_alpha_and_hash(c: Certificate) -> Certificate:
    alpha = changed(c.model.alpha, (0, int(np.argmax(np.abs(c.model.alpha)))), 0.0)
    model = dataclasses.replace(c.model, alpha=alpha)
    return dataclasses.replace(c, model=model, model_hash=model_hash(model))


def shrink_the_lengthscales(c: Certificate) -> Certificate:
    model = dataclasses.replace(c.model, lengthscales=0.9 * c.model.lengthscales)
    return dataclasses.replace(c, model=model, model_hash=model_hash(model))


def move_the_witness_out(c: Certificate) -> Certificate:
    outside = np.nextafter(c.region.upper[0], np.inf)
    return with_claim(c, 0, witness=changed(c.claims[0].witness, 0, outside))  # type: ignore[arg-type]


def move_the_witness(c: Certificate) -> Certificate:
    return with_claim(c, 0, witness=0.5 * (c.region.lower + c.region.upper))


def claim_more_attained(c: Certificate) -> Certificate:
    return with_claim(c, 0, inner=c.claims[0].inner - 1e-4)


def claim_a_better_bound(c: Certificate) -> Certificate:
    return with_claim(c, 1, outer=c.claims[1].outer - 1e-6)


def claim_nan(c: Certificate) -> Certificate:
    return with_claim(c, 1, outer=np.nan)


def state_nan(c: Certificate) -> Certificate:
    return with_claim(c, 1, leaf_bound=changed(c.claims[1].leaf_bound, 0, np.nan))


def widen_the_region(c: Certificate) -> Certificate:
    return dataclasses.replace(c, region=dataclasses.replace(c.region, upper=c.region.upper + 0.05))


def state_no_threshold(c: Certificate) -> Certificate:
    return with_claim(c, 1, leaf_threshold=changed(c.claims[1].leaf_threshold, 0, np.nan))


MUTATIONS: list[tuple[Callable[[Certificate], Certificate], str]] = [
    (improve_a_leaf, "recomputed"),
    (improve_any_leaf, "recomputed"),
    (move_a_cut, "recomputed"),
    (cite_a_stranger, "does not contain"),
    (alter_alpha, "SHA-256"),
    (alter_alpha_and_hash, "recomputed"),
    (shrink_the_lengthscales, "recomputed"),
    (move_the_witness_out, "not in the region"),
    (move_the_witness, "attains"),
    (claim_more_attained, "attains"),
    (claim_a_better_bound, "leaves prove"),
    (widen_the_region, "recomputed"),
]


@pytest.mark.parametrize(("mutate", "words"), MUTATIONS, ids=[mutate.__name__ for mutate, _ in MUTATIONS])
def test_a_mutated_certificate_is_refuted(mutate: Callable[[Certificate], Certificate], words: str) -> None:
    original = small_certificate()
    assert len(original.claims[0].parent) > 3
    assert check_certificate(original).confirmed
    report = check_certificate(mutate(original))
    assert not report.confirmed
    assert words in report.problems[0]


MALFORMED: list[tuple[Callable[[Certificate], Certificate], str]] = [
    (move_a_cut_of_one_sibling, "siblings"),
    (cut_outside, "outside its box"),
    (drop_a_leaf, "leaves listed"),
    (drop_two_nodes, "leaves listed"),
    (claim_nan, "not a probability"),
    (state_nan, "states no bound"),
    (state_no_threshold, "no threshold"),
]


def test_the_problem_names_the_leaf() -> None:
    original = small_certificate()
    claim, at = original.claims[1], worst_leaf(original.claims[1])
    assert f"leaf {claim.leaf[at]}: stated" in check_certificate(improve_a_leaf(original)).problems[0]
    at = worst_leaf(original.claims[0])
    leaf = original.claims[0].leaf[at]
    assert f"minimum: leaf {leaf} cites node" in check_certificate(cite_a_stranger(original)).problems[0]


@pytest.mark.parametrize(("mutate", "words"), MALFORMED, ids=[mutate.__name__ for mutate, _ in MALFORMED])
def test_what_is_no_certificate_is_refused(mutate: Callable[[Certificate], Certificate], words: str) -> None:
    with pytest.raises(MalformedError, match=words):
        check_certificate(mutate(small_certificate()))


def test_a_platform_without_extended_precision_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    require_extended_precision()
    monkeypatch.setattr(checker, "UNIT", 2.0**-52)
    with pytest.raises(UserError, match="80 bits"):
        check_certificate(small_certificate())
    monkeypatch.undo()
    monkeypatch.setattr(checker, "Long", np.float64)  # long by name, short by arithmetic
    with pytest.raises(UserError, match="80 bits"):
        check_certificate(small_certificate())


def test_every_leaf_is_held_to_its_bound() -> None:
    original = small_certificate()
    for at in range(len(original.claims[1].leaf)):
        better = changed(original.claims[1].leaf_bound, at, beyond(original, 1, at))
        assert not check_certificate(with_claim(original, 1, leaf_bound=better)).confirmed


@pytest.mark.parametrize("build", [l1_ball, l2_ball])
def test_the_witness_must_lie_in_the_ball_exactly(build) -> None:
    certificate = certified(norm="l1" if build is l1_ball else "l2", radius=0.25)[3]
    assert check_certificate(certificate).confirmed
    corner = np.array([0.2, 0.1]) + 0.2
    report = check_certificate(with_claim(certificate, 0, witness=corner))
    assert "not in the region" in report.problems[0]


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_claim_is_held_to_the_outward_rounding(sign: int) -> None:
    original, index = small_certificate(), (sign + 1) // 2
    outer = original.claims[index].outer
    assert not check_certificate(with_claim(original, index, outer=outer * (1 - sign * 1e-12))).confirmed
    assert check_certificate(with_claim(original, index, outer=outer * (1 + sign * 1e-12))).confirmed


def test_the_report_counts_leaves_and_bounds() -> None:
    original = small_certificate()
    report = check_certificate(original)
    assert report.leaves == sum(len(claim.leaf) for claim in original.claims)
    assert report.boxes == sum(len(np.unique(claim.leaf_proved)) for claim in original.claims)


def test_what_is_attained_is_enclosed_by_both_roundings() -> None:
    class Wide:
        def at(self, points: Array) -> tuple[Array, Array]:
            assert points.shape == (1, 2)
            return np.array([0.1]), np.array([0.3])

        def claimed(self, score: float) -> tuple[float, float]:
            return score - 0.01, score + 0.02

    assert attained(Wide(), np.zeros(2)) == pytest.approx((0.09, 0.32))  # type: ignore[arg-type]


@pytest.mark.parametrize("sign", [-1, 1])
def test_what_a_witness_attains_is_rounded_inward(sign: int) -> None:
    """The claim holds for the exact value, and no claim beyond its rounding is accepted."""
    certificate = certified("matern52", "probit")[3]
    index = (sign + 1) // 2
    claim = certificate.claims[index]
    x = certificate.region.centre.copy()
    x[certificate.region.free] = claim.witness
    exact = float(ndtr(float(exact_score(certificate.model.binary, x))))
    assert 0 <= sign * (exact - claim.inner) <= 1e-9
    assert check_certificate(certificate).confirmed
    assert not check_certificate(with_claim(certificate, index, inner=exact + sign * 1e-11)).confirmed


def test_only_the_middle_of_a_citation_chain_may_be_cited() -> None:
    """A leaf may cite any node that contains it; one that is larger elsewhere may not."""
    original = small_certificate()
    claim = original.claims[1]
    root = with_claim(original, 1, leaf_proved=np.zeros_like(claim.leaf_proved))
    assert "recomputed" in check_certificate(root).problems[0]
    trivial = with_claim(root, 1, leaf_bound=np.full(len(claim.leaf), np.inf), outer=1.0)
    assert check_certificate(trivial).confirmed
