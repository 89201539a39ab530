"""Certificates of several classes and of regressions: three levels, true claims, refusals, words, the command."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from gpsuite.certificates.certificate import (
    Certificate,
    ClassQuantity,
    QuantileQuantity,
    pack,
    read_certificate,
    write_certificate,
)
from gpsuite.certificates.checker import check_certificate
from gpsuite.certificates.envelope import write_packed
from gpsuite.certificates.form import MOST_JITTER, MalformedError
from gpsuite.certificates.model import model_hash
from gpsuite.certificates.verification import CONFIRMED, OPEN, REFUTED, check_levels, describe
from gpsuite.commands import verify
from gpsuite.data.dataset import Dataset
from gpsuite.untrusted import UnusableFileError
from tests.certificates.joint_problems import (
    LEVELS,
    NOISE,
    certify_quantiles,
    class_certificate,
    class_dataset,
    class_origin,
    exact_posterior,
    regression_certificate,
    regression_dataset,
    regression_origin,
    regression_region,
    with_stated,
)

CASES = {"classes": (class_certificate, class_dataset), "regression": (regression_certificate, regression_dataset)}


def outcomes(certificate: Certificate, dataset: Dataset | None) -> list[str]:
    return [level.outcome for level in check_levels(certificate, dataset)]


def remade(certificate: Certificate, **changes: Any) -> Certificate:
    """Return the certificate of a changed model, its hash made to fit."""
    model = dataclasses.replace(certificate.model, **changes)
    return dataclasses.replace(certificate, model=model, model_hash=model_hash(model))


@pytest.mark.parametrize("case", CASES)
def test_all_three_levels_are_confirmed_also_after_the_file(case: str, tmp_path: Path) -> None:
    make, dataset = CASES[case]
    assert outcomes(make(), dataset()) == [CONFIRMED] * 3
    assert outcomes(make(), None) == [CONFIRMED, CONFIRMED, OPEN]
    again = read_certificate(write_certificate(make(), tmp_path / "c")[1])
    assert outcomes(again, dataset()) == [CONFIRMED] * 3
    assert pack(again)[0] == pack(make())[0]
    bare = dataclasses.replace(make(), origin=None)
    assert outcomes(bare, dataset()) == [CONFIRMED, OPEN, OPEN]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("kernel", ["matern32", "matern52"])
def test_balls_and_other_kernels_are_confirmed(kernel: str, norm: str) -> None:
    assert outcomes(class_certificate(3, kernel, norm), None)[:2] == [CONFIRMED, CONFIRMED]


@pytest.mark.parametrize("C", [2, 5])
def test_two_classes_and_more_than_are_kept(C: int) -> None:
    certificate = class_certificate(C, radius=0.02)
    assert outcomes(certificate, class_dataset(C)) == [CONFIRMED] * 3
    for stated in certificate.claims:
        claim = stated
        assert claim.inner is not None
        assert claim.sign * (claim.outer - claim.inner) >= 0  # what is proved encloses what is attained
        assert abs(claim.outer - claim.inner) < 0.5
    said = dict(describe(certificate, proved=True))
    assert "; at least " in said["maximum"] and "; at most " in said["minimum"]


@pytest.mark.parametrize("kernel", ["matern32", "squared_exponential"])
def test_claims_of_a_regression_are_those_of_the_search_and_hold(kernel: str) -> None:
    certificate, latent, region = regression_certificate(kernel), exact_posterior(kernel), regression_region()
    rng = np.random.default_rng(0)
    corners = np.array(np.meshgrid(*zip(region.lower, region.upper, strict=True))).reshape(2, -1).T
    points = region.embed(np.vstack([rng.uniform(region.lower, region.upper, (2000, 2)), corners]))
    mean, variance = latent.latent(points)
    assert outcomes(certificate, regression_dataset()) == [CONFIRMED] * 3
    assert [stated.quantity.level for stated in certificate.claims] == [x for x in LEVELS for _ in (0, 1)]
    for stated in certificate.claims:
        assert isinstance(stated.quantity, QuantileQuantity)
        level, claim = stated.quantity.level, stated
        values = mean + (0.0 if level == 0.5 else ndtri(level)) * np.sqrt(variance + NOISE)
        extreme = claim.sign * np.max(claim.sign * values)
        assert 0 <= claim.sign * (claim.outer - extreme) <= 0.05
        assert claim.inner is not None and claim.sign * (claim.inner - claim.outer) <= 0


@pytest.mark.parametrize("case", CASES)
def test_stronger_claims_are_refuted(case: str) -> None:
    certificate = CASES[case][0]()
    for index, stated in enumerate(certificate.claims):
        sign, claim = stated.sign, stated
        assert claim.inner is not None
        beyond = claim.inner - sign * 1e-6
        for change in (
            {"outer": claim.outer - sign * 1e-6},
            {"inner": claim.inner + sign * 1e-4},
            {"leaf_bound": np.full(len(claim.leaf), beyond), "outer": beyond},
        ):
            report = check_certificate(with_stated(certificate, index, **change))
            assert len(report.problems) == 1 and not report.confirmed
    witness = certificate.claims[0].witness
    assert witness is not None
    assert not check_certificate(with_stated(certificate, 0, witness=witness + 1.0)).confirmed


@pytest.mark.parametrize("case", CASES)
def test_another_posterior_is_refuted_at_the_second_level(case: str) -> None:
    certificate = CASES[case][0]()
    model = certificate.model
    changes: list[dict[str, Any]] = [{"alpha": model.alpha * (1 + 1e-4)}, {"root": model.root * (1 - 1e-4)}]
    for change in changes:
        assert outcomes(remade(certificate, **change), None)[1] == REFUTED
        tampered = dataclasses.replace(certificate, model=dataclasses.replace(model, **change))
        assert "SHA-256 differs" in check_certificate(tampered).problems[0]
    origin = certificate.origin
    assert origin is not None
    moved = dataclasses.replace(origin, targets=np.roll(origin.targets, 1))
    assert outcomes(dataclasses.replace(certificate, origin=moved), None)[1] == REFUTED


@pytest.mark.parametrize("case", CASES)
def test_another_dataset_is_refuted_at_the_third_level(case: str) -> None:
    make, dataset = CASES[case]
    data = dataset()
    X, y = data.X.copy(), data.y.copy()
    X[3, 0] += 1e-12
    y[[0, 1]] = y[[1, 0]]
    for change in ({"X": X}, {"y": y}, {"content_hash": "0" * 64}, {"input_names": ("a", "b")}):
        assert outcomes(make(), dataset(**change)) == [CONFIRMED, CONFIRMED, REFUTED]
    other = regression_dataset() if case == "classes" else class_dataset()
    assert outcomes(make(), other)[2] == REFUTED


def test_the_target_has_its_own_name() -> None:
    assert outcomes(regression_certificate(), regression_dataset(target_names=("weight",)))[2] == REFUTED


def test_a_sparse_regression_is_the_optimum_of_its_bound() -> None:
    from gpsuite.budget import Budget
    from gpsuite.methods.robustness.regression import prediction_range
    from gpsuite.models.config import Hyperparameters, ModelSpec
    from gpsuite.models.regression.gpflow_models import build_sgpr, regression_posterior

    origin = regression_origin()
    X = regression_dataset().X[:-1]
    model = build_sgpr(X, origin.targets, X[:6], ModelSpec(ard=True), Hyperparameters(1.5, (0.9, 1.4), NOISE))
    found, region = regression_posterior(model), regression_region(0.1)
    ranges = prediction_range(found.latent, found.noise_variance, region, (0.5,), 0.02, Budget(boxes=200))
    origin = dataclasses.replace(origin, inference="sparse", X=np.asarray(X), jitter=found.jitter)
    certificate = certify_quantiles(found.latent, found.noise_variance, region, ranges, slack=0.01, origin=origin)
    assert outcomes(certificate, regression_dataset()) == [CONFIRMED] * 3
    most = MOST_JITTER * certificate.model.variance
    for jitter in (0.0, most):
        check_certificate(changed_origin(lambda: certificate, jitter=jitter))
    for jitter in (-5e-324, most * (1 + 2**-52), np.nan):
        with pytest.raises(MalformedError, match="jitter"):
            check_certificate(changed_origin(lambda jitter=jitter: certificate, jitter=jitter))
    moved = remade(certificate, alpha=certificate.model.alpha * (1 + 1e-3))
    assert outcomes(moved, None)[1] == REFUTED


def changed_origin(make: Any, **changes: Any) -> Certificate:
    certificate: Certificate = make()
    assert certificate.origin is not None
    return dataclasses.replace(certificate, origin=dataclasses.replace(certificate.origin, **changes))


def with_quantity(certificate: Certificate, quantity: Any) -> Certificate:
    return dataclasses.replace(certificate, claims=(dataclasses.replace(certificate.claims[0], quantity=quantity),))


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        (lambda: remade(class_certificate(), noise=0.1), "noise"),
        (lambda: remade(regression_certificate(), noise=0.0), "noise"),
        (lambda: remade(class_certificate(), kernel="matern12"), "unknown kernel"),
        (lambda: remade(class_certificate(), alpha=class_certificate().model.alpha[:1]), "2 to 100"),
        (lambda: remade(regression_certificate(), variance=0.0), "positive"),
        (lambda: remade(class_certificate(), root=class_certificate().model.root[:, :2]), "fit together"),
        (lambda: remade(class_certificate(), alpha=np.inf * class_certificate().model.alpha), "finite"),
        (lambda: with_quantity(class_certificate(), ClassQuantity(3)), "does not have"),
        (lambda: with_quantity(class_certificate(), ClassQuantity(1, 1)), "itself"),
        (lambda: with_quantity(class_certificate(), QuantileQuantity(0.5)), "quantile"),
        (lambda: with_quantity(regression_certificate(), QuantileQuantity(1.0)), "level"),
        (lambda: with_quantity(regression_certificate(), ClassQuantity(0)), "does not have"),
        (lambda: with_stated(class_certificate(), 0, outer=1.5), "not a probability"),
        (lambda: changed_origin(class_certificate, inference="exact"), "inference"),
        (lambda: changed_origin(class_certificate, outputs=("a", "b")), "do not fit"),
        (lambda: changed_origin(class_certificate, targets=class_origin().targets + 0.5), "numbers of the"),
        (lambda: changed_origin(class_certificate, target_scale=2.0), "no scale"),
        (lambda: changed_origin(class_certificate, jitter=1e-6), "jitter"),
        (lambda: changed_origin(regression_certificate, jitter=5e-324), "jitter"),
        (lambda: changed_origin(regression_certificate, target_scale=0.0), "scales"),
        (lambda: changed_origin(regression_certificate, rows=regression_origin().rows - 1), "at least 0"),
    ],
)
def test_what_is_no_certificate_is_refused(certificate: Any, said: str) -> None:
    with pytest.raises(MalformedError, match=said):
        check_certificate(certificate())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["claims"].clear(), "claims nothing"),
        (lambda d: d["claims"][0].update(nodes=10**9), "incomplete"),
        (lambda d: d["claims"].pop(), "no claim states"),
        (lambda d: d["claims"][0].update(nodes=True), "not whole"),
        (lambda d: d["claims"][0].update(leaves=-1), "fewer than no"),
        (lambda d: d["model"].update(likelihood="poisson"), "not the kind's"),
        (lambda d: d.update(version=7), "certificate of version 7, this gpsuite reads 4"),
        (lambda d: d.update(version=3), "certificate of version 3, this gpsuite reads 4; run the experiment"),
        (lambda d: d.update(version=True), "unknown version"),
        (lambda d: d.update(kind="pac_bayes"), "not a certificate of classes"),
        (lambda d: d.update(kind="regression"), "not the kind's"),
        (lambda d: d["claims"][0].pop("side"), "incomplete"),
    ],
)
def test_a_file_that_holds_something_else_is_unusable(change: Any, said: str, tmp_path: Path) -> None:
    description, arrays = pack(class_certificate())
    change(description)
    path = write_packed(description, arrays, tmp_path / "c")[1]
    with pytest.raises(UnusableFileError, match=said):
        read_certificate(path)


def test_words_name_classes_and_units() -> None:
    said = [text for name, text in describe(class_certificate(), True) if name in ("minimum", "maximum")]
    assert said[0].startswith("no probability of red in the region is below 0.")
    assert "no margin of red over green in the region, probability less probability, is below 0." in said[2]
    margin = float(re.findall(r"is below ([\d.]+)", said[2])[0])  # a claim is of (1 + margin) / 2
    assert margin == pytest.approx(2.0 * class_certificate().claims[2].outer - 1.0, rel=1e-6)
    said = [text for name, text in describe(regression_certificate(), False) if name == "maximum"]
    claim = regression_certificate().claims[1]
    assert f"above {claim.outer * 2.5 + 3.0:.10g}" in said[0] and said[0].startswith("claimed, not proved: no mean")
    assert "5 % quantile" in said[1] and said[1].endswith("(the target's units)")


@pytest.mark.parametrize("case", CASES)
def test_the_command_checks_them(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_certificate(CASES[case][0](), tmp_path / "c")[0]
    assert verify.main([str(path)]) == 0
    assert "(a) the bound holds for the stored posterior\tconfirmed" in capsys.readouterr().out
    wrong = CASES[case][0]()
    write_certificate(with_stated(wrong, 0, outer=wrong.claims[0].outer + 0.01), path)
    assert verify.main([str(path)]) == 1
    path.write_bytes(b"nothing")
    with pytest.raises(UnusableFileError):
        verify.main([str(path)])


def test_targets_are_compared_to_the_last_bit() -> None:
    y = regression_dataset().y.copy()
    y[3] *= 1.0 + 1e-14
    found = outcomes(regression_certificate(), regression_dataset(y=y))
    assert found == [CONFIRMED, CONFIRMED, REFUTED]
