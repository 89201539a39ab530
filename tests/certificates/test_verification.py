"""The three levels of a check, and what is said of a certificate."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtri
from scipy.stats import norm

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import (
    Certificate,
    ClassQuantity,
    QuantileQuantity,
    pack,
    read_certificate,
    write_certificate,
)
from gpsuite.certificates.checker import check_certificate, estimated_minutes
from gpsuite.certificates.envelope import read_envelope, write_packed
from gpsuite.certificates.form import MOST_JITTER, MalformedError
from gpsuite.certificates.model import model_hash
from gpsuite.certificates.plain_kernel import gram
from gpsuite.certificates.stationarity import TOLERANCE, _log_likelihood_derivatives, stationarity_residuals
from gpsuite.certificates.verification import (
    CONFIRMED,
    OPEN,
    REFUTED,
    check_levels,
    dataset_fault,
    describe,
    verify_certificate,
)
from gpsuite.commands import verify
from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError
from gpsuite.methods.robustness.certification import stored_model
from gpsuite.methods.robustness.point_search import probability_range
from gpsuite.methods.robustness.regression import prediction_range
from gpsuite.models.classification.approximation import BinaryProblem
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.rounding import rounded
from gpsuite.untrusted import UnusableFileError
from tests.arrays import Array
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
)
from tests.methods.robustness.certified_point import (
    certified,
    certify_range,
    changed,
    its_dataset,
    origin_of,
    small_certificate,
    with_claim,
)
from tests.models.gpc_problems import two_classes

KERNELS = ("squared_exponential", "matern32", "matern52")


CASES = {
    "two classes": (small_certificate, its_dataset),
    "several": (class_certificate, class_dataset),
    "regression": (regression_certificate, regression_dataset),
}


def outcomes(certificate: Certificate, dataset: Dataset | None = None) -> tuple[str, ...]:
    return tuple(level.outcome for level in check_levels(certificate, dataset))


def remade(certificate: Certificate, **changes: Any) -> Certificate:
    """Return the certificate with a changed model and its hash recomputed."""
    model = dataclasses.replace(certificate.model, **changes)
    return dataclasses.replace(certificate, model=model, model_hash=model_hash(model))


def originating(certificate: Certificate, **changes: Any) -> Certificate:
    assert certificate.origin is not None
    return dataclasses.replace(certificate, origin=dataclasses.replace(certificate.origin, **changes))


def test_a_trivial_posterior_with_a_recomputed_hash_is_not_that_of_the_rows() -> None:
    """With alpha and F zero every probability is one half, which is easy to bound."""
    posterior, region, _, certificate = certified()
    nothing = dataclasses.replace(posterior, alpha=0 * posterior.alpha, root=0 * posterior.root)
    found = probability_range(nothing, region, 0.02, Budget(boxes=100))
    trivial = certify_range(nothing, region, (found.minimum, found.maximum), origin=certificate.origin)
    assert trivial.claims[1].outer < 0.51
    assert outcomes(trivial, its_dataset()) == (CONFIRMED, REFUTED, CONFIRMED)


def residuals(inference: str, kernel: str, link: str, variance: float = 2.5) -> tuple[Any, Any]:
    X, y = two_classes(3)
    fit = INFERENCES.get(inference)(
        BinaryProblem(X, y, ModelSpec(kernel, ard=True), LINKS.get(link)), Hyperparameters(variance, (0.8, 1.7)), None
    )
    origin = origin_of(y, inference, fit.state if inference == "ep" else None)
    return stored_model(fit.require_converged()), origin


@pytest.mark.parametrize("variance", [0.01, 2.5, 1e4])
@pytest.mark.parametrize("link", ["probit", "logistic"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_converged_posteriors_are_stationary(inference: str, kernel: str, link: str, variance: float) -> None:
    found = stationarity_residuals(*residuals(inference, kernel, link, variance))
    assert found.largest <= 1e-7
    assert (found.moments == 0.0) == (inference == "laplace")


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_the_same_posterior_from_other_rows_is_stationary(inference: str) -> None:
    """F' diag(c) F is what counts, not how it is split: rows twice as long of a quarter of the weight."""
    model, origin = residuals(inference, "squared_exponential", "probit")
    same = dataclasses.replace(model, root=2.0 * model.root, weights=0.25 * model.weights)
    assert stationarity_residuals(same, origin).largest <= 1e-7


MOVES: list[tuple[str, Callable[[Any, Any], tuple[Any, Any]]]] = [
    ("alpha", lambda m, o: (dataclasses.replace(m, alpha=changed(m.alpha, (0, 4), m.alpha[0, 4] + 1e-4)), o)),
    ("root", lambda m, o: (dataclasses.replace(m, root=m.root * (1 + 1e-4)), o)),
    ("weights", lambda m, o: (dataclasses.replace(m, weights=changed(m.weights, 2, -1.001)), o)),
    ("variance", lambda m, o: (dataclasses.replace(m, variance=m.variance * 1.001), o)),
    ("lengthscales", lambda m, o: (dataclasses.replace(m, lengthscales=m.lengthscales * 1.001), o)),
    ("kernel", lambda m, o: (dataclasses.replace(m, kernel="matern52"), o)),
    ("X", lambda m, o: (dataclasses.replace(m, X=changed(m.X, (7, 1), m.X[7, 1] + 1e-2)), o)),
    ("label", lambda m, o: (m, dataclasses.replace(o, targets=changed(o.targets, 5, 1 - o.targets[5])))),
    ("link", lambda m, o: (dataclasses.replace(m, likelihood="logistic" if m.likelihood == "probit" else "probit"), o)),
]


@pytest.mark.parametrize(("what", "move"), MOVES, ids=[what for what, _ in MOVES])
@pytest.mark.parametrize("link", ["probit", "logistic"])
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_a_moved_posterior_is_not_stationary(inference: str, link: str, what: str, move: Any) -> None:
    model, origin = residuals(inference, "squared_exponential", link)
    found = stationarity_residuals(*move(model, origin))
    assert found.largest > TOLERANCE and found.largest > found.rounding


@pytest.mark.parametrize("link", ["probit", "logistic"])
@pytest.mark.parametrize("size", [1e20, 1e90])
@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_what_overflows_is_no_residual_of_zero(inference: str, size: float, link: str) -> None:
    model, origin = residuals(inference, "squared_exponential", link)
    for parts in (("alpha",), ("root",), ("variance",), ("alpha", "variance")):
        huge = dataclasses.replace(model, **{part: getattr(model, part) * size for part in parts})
        assert not stationarity_residuals(huge, origin).largest <= TOLERANCE
    if inference == "ep":
        for sites in (origin.sites * size, -origin.sites, origin.sites * 0):
            assert not stationarity_residuals(model, dataclasses.replace(origin, sites=sites)).largest <= TOLERANCE


def test_a_residual_within_rounding_is_neither_confirmed_nor_refuted() -> None:
    model, origin = residuals("laplace", "squared_exponential", "probit")
    certificate = dataclasses.replace(small_certificate(), model=model, origin=origin)
    vast = remade(certificate, variance=1e40, alpha=model.alpha * 1e-3)
    level = check_levels(vast, None)[1]
    assert level.outcome == OPEN and "too ill-conditioned" in level.reason


def test_rounding_counts_every_term_of_the_means_equation() -> None:
    """Far from the optimum alpha and the likelihood's slope are both large and of opposite signs."""
    model, origin = residuals("laplace", "squared_exponential", "probit")
    moved = dataclasses.replace(model, alpha=-5.0 * (2 * origin.targets - 1)[None])
    K = model.variance * gram(model.X, model.lengthscales, model.kernel)
    reached = (2 * origin.targets - 1) * (K @ moved.alpha[0])
    slope = np.exp(norm.logpdf(reached) - log_ndtr(reached))
    size = np.abs(moved.alpha[0]) + slope + slope * (slope + reached) * (K @ np.abs(moved.alpha[0]))
    stated = 64 * len(size) * 2.0**-53 * np.sqrt(size @ K @ size)
    assert stationarity_residuals(moved, origin).rounding == pytest.approx(stated, rel=1e-6)


@pytest.mark.parametrize("which", [0, 1])
def test_moved_sites_are_not_stationary(which: int) -> None:
    """Sites that agree with alpha and R but not with the likelihood: those of Laplace's method."""
    model, origin = residuals("laplace", "squared_exponential", "probit")
    f = model.variance * gram(model.X, model.lengthscales, model.kernel) @ model.alpha[0]
    precision = _log_likelihood_derivatives("probit", (2 * origin.targets - 1), f)[1]
    sites = np.stack([precision, model.alpha[0] + precision * f])
    found = stationarity_residuals(model, dataclasses.replace(origin, inference="ep", sites=sites))
    assert max(found.mean, found.covariance) < 1e-9 and found.moments > 1e-3
    moved = changed(sites, (which, 3), sites[which, 3] + 0.01)
    found = stationarity_residuals(model, dataclasses.replace(origin, inference="ep", sites=moved))
    assert found.mean > 1e-4


def test_a_site_that_leaves_no_cavity_is_no_fixed_point() -> None:
    model, origin = residuals("ep", "squared_exponential", "probit")
    sites = changed(origin.sites, (0, 3), 1e6)
    assert stationarity_residuals(model, dataclasses.replace(origin, sites=sites)).moments == np.inf


def test_the_mean_residual_bounds_the_distance_to_the_exact_mean() -> None:
    """|mu - mu'| <= sqrt(s) residual at every input, Laplace's method stopped early."""
    X = two_classes(3)[0]
    model, origin = residuals("laplace", "squared_exponential", "probit")
    early = dataclasses.replace(model, alpha=0.9 * model.alpha)
    found = stationarity_residuals(early, origin).mean
    grid = np.random.default_rng(0).uniform(-3, 3, (400, 2)) / model.lengthscales
    squared = np.sum((grid[:, None] - X / model.lengthscales) ** 2, axis=2)
    moved = model.variance * np.exp(-squared / 2) @ (model.alpha - early.alpha)[0]
    assert 0.1 * found < np.abs(moved).max() / np.sqrt(model.variance) <= found


def swapped(first: int, second: int) -> Array:
    rows = np.arange(30)
    rows[[first, second]] = second, first
    return rows


FAULTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("content", {"content_hash": 64 * "8"}, {}),
    ("regression", {"task": "regression", "label_names": None}, {}),
    ("labels", {"y": np.zeros((31, 1))}, {}),
    ("labels", {}, {"outputs": ("yes", "no")}),
    ("training inputs", {"X": its_dataset().X + changed(np.zeros((31, 2)), (4, 1), 1e-12)}, {}),
    ("training inputs", {}, {"offset": np.array([1e-9, 0.0])}),
    ("training inputs", {}, {"scale": np.array([1.0, 1.01])}),
    ("training inputs", {}, {"rows": swapped(*np.flatnonzero(two_classes(0)[1] > 0)[:2])}),
    ("twice", {}, {"rows": np.zeros(30, dtype=int)}),
    ("twice", {}, {"row": 3}),
    ("centre", {"X": its_dataset().X + changed(np.zeros((31, 2)), (30, 0), 1e-12)}, {}),
    ("does not have", {}, {"row": 31}),
    ("does not have", {}, {"rows": np.arange(2, 32)}),
    ("does not have", {"X": its_dataset().X[:, :1], "input_names": ("width",)}, {}),
    ("names", {}, {"inputs": ("height", "width")}),
]


@pytest.mark.parametrize(("words", "dataset", "origin"), FAULTS)
def test_rows_that_are_not_the_datasets_are_refuted(
    words: str, dataset: dict[str, Any], origin: dict[str, Any]
) -> None:
    certificate = originating(small_certificate(), **origin)
    if words == "labels" and origin:  # the classes swapped: the same labels read the other way round
        assert "labels" in dataset_fault(certificate, certificate.origin, its_dataset())  # type: ignore[arg-type]
    assert certificate.origin is not None
    assert words in dataset_fault(certificate, certificate.origin, its_dataset(**dataset))
    assert check_levels(certificate, its_dataset(**dataset))[2].outcome == REFUTED


def test_the_rows_behind_inducing_inputs_are_compared_too() -> None:
    certificate = originating(small_certificate(), X=its_dataset().X[:30])
    origin = certificate.origin
    assert origin is not None
    assert not dataset_fault(certificate, origin, its_dataset())
    moved = dataclasses.replace(origin, X=changed(origin.X, (4, 1), origin.X[4, 1] + 1e-12))
    assert "training inputs" in dataset_fault(certificate, moved, its_dataset())


def test_the_description_names_everything() -> None:
    said = dict(describe(small_certificate(), proved=True))
    claims = small_certificate().claims
    assert said["dataset"].startswith(f"two classes, content {64 * '7'}")
    assert said["point"].startswith("row 30 ")
    assert said["classes"] == "no, yes"
    model = small_certificate().model
    for word in (
        "Laplace",
        "squared_exponential",
        "variance 2.5",
        "0.8 to 1.7",
        "probit",
        "30 rows",
        model_hash(model),
    ):
        assert word in said["model"]
    assert said["free"] == "width from -0.3 to 0.7; height from -0.4 to 0.6"
    assert said["region"].startswith("box of these ends")
    for claim, side, words in zip(
        claims, ("minimum", "maximum"), (("below", "at most"), ("above", "at least")), strict=True
    ):
        assert claim.inner is not None
        outer, inner = rounded(claim.outer, 10, claim.sign), rounded(claim.inner, 10, -claim.sign)
        assert f"{words[0]} {outer}; {words[1]} {inner} is attained" in said[side]
        assert claim.sign * float(outer) >= claim.sign * claim.outer  # what is said is proved
        assert claim.sign * float(inner) <= claim.sign * claim.inner  # and attained


def test_the_description_is_in_the_datasets_units_and_safe_to_print() -> None:
    certificate = originating(
        small_certificate(),
        offset=np.array([100.0, 0.0]),
        scale=np.array([10.0, 1.0]),
        inputs=("a\x1b[2J", "b" * 1000),
        dataset="line\nbreak",
    )
    said = dict(describe(certificate, proved=True))
    assert said["free"].startswith(r"a\x1b[2J from 97 to 107; bbb")
    assert len(said["free"]) < 200
    assert said["dataset"].startswith(r"line\nbreak, ")
    forged = dataclasses.replace(small_certificate(), model_hash="\x1b[2J\ud800")
    assert dict(describe(forged, proved=False))["model"].endswith(r"SHA-256 \x1b[2J\ud800")
    ball = certified(norm="l2", radius=0.25)[3]
    assert dict(describe(ball, proved=True))["region"].startswith("L2 ball of radius 0.25")


@pytest.mark.parametrize(("inputs", "end"), [(12, "; l from 0 to 1"), (13, "; and 1 more"), (20, "; and 8 more")])
def test_many_free_inputs_are_not_all_listed(inputs: int, end: str) -> None:
    origin = originating(small_certificate(), inputs=tuple("abcdefghijklmnopqrst"[:inputs])).origin
    wide = dataclasses.replace(
        small_certificate(),
        origin=dataclasses.replace(origin, offset=np.zeros(20), scale=np.ones(20)),  # type: ignore[type-var]
        region=dataclasses.replace(
            small_certificate().region, free=np.arange(inputs), lower=np.zeros(inputs), upper=np.ones(inputs)
        ),
    )
    shown = dict(describe(wide, proved=True))["free"]
    assert shown.endswith(end) and shown.count(" from ") == 12


def test_inputs_that_do_not_move_are_told_with_their_values() -> None:
    whole = small_certificate()
    region = dataclasses.replace(
        whole.region, free=np.array([1]), lower=whole.region.lower[1:], upper=whole.region.upper[1:]
    )
    certificate = dataclasses.replace(
        originating(whole, offset=np.array([100.0, 0.0]), scale=np.array([10.0, 1.0]), inputs=("height",)),
        region=region,
    )
    value = 100.0 + 10.0 * region.centre[0]
    assert dict(describe(certificate, proved=True))["fixed"] == f"input 0 at {value:.6g}"
    assert dict(describe(certificate, True, ["width", "height"]))["fixed"] == f"width at {value:.6g}"
    assert "fixed" not in dict(describe(whole, proved=True))


def test_a_squeezed_link_has_no_inference() -> None:
    certificate = remade(small_certificate(), squeeze=1e-3)
    with pytest.raises(MalformedError, match="squeezed"):
        check_levels(certificate, None)


@pytest.mark.parametrize("case", CASES)
def test_all_three_levels_are_confirmed_also_after_the_file(case: str, tmp_path: Path) -> None:
    make, dataset = CASES[case]
    assert outcomes(make(), dataset()) == (CONFIRMED,) * 3
    assert outcomes(make(), None) == (CONFIRMED, CONFIRMED, OPEN)
    again = read_certificate(write_certificate(make(), tmp_path / "c")[1])
    assert outcomes(again, dataset()) == (CONFIRMED,) * 3
    assert pack(again)[0] == pack(make())[0]
    bare = dataclasses.replace(make(), origin=None)
    assert outcomes(bare, dataset()) == (CONFIRMED, OPEN, OPEN)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("kernel", ["matern32", "matern52"])
def test_balls_and_other_kernels_are_confirmed(kernel: str, norm: str) -> None:
    assert outcomes(class_certificate(3, kernel, norm), None)[:2] == (CONFIRMED, CONFIRMED)


@pytest.mark.parametrize("C", [2, 5])
def test_two_classes_and_more_than_are_kept(C: int) -> None:
    certificate = class_certificate(C, radius=0.02)
    assert outcomes(certificate, class_dataset(C)) == (CONFIRMED,) * 3
    for claim in certificate.claims:
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
    assert outcomes(certificate, regression_dataset()) == (CONFIRMED,) * 3
    assert [claim.quantity.level for claim in certificate.claims] == [x for x in LEVELS for _ in (0, 1)]
    for claim in certificate.claims:
        assert isinstance(claim.quantity, QuantileQuantity)
        level = claim.quantity.level
        values = mean + (0.0 if level == 0.5 else ndtri(level)) * np.sqrt(variance + NOISE)
        extreme = claim.sign * np.max(claim.sign * values)
        assert 0 <= claim.sign * (claim.outer - extreme) <= 0.05
        assert claim.inner is not None and claim.sign * (claim.inner - claim.outer) <= 0


@pytest.mark.parametrize("case", CASES)
def test_stronger_claims_are_refuted(case: str) -> None:
    certificate = CASES[case][0]()
    for index, claim in enumerate(certificate.claims):
        sign = claim.sign
        assert claim.inner is not None
        beyond = claim.inner - sign * 1e-6
        for change in (
            {"outer": claim.outer - sign * 1e-6},
            {"inner": claim.inner + sign * 1e-4},
            {"leaf_bound": np.full(len(claim.leaf), beyond), "outer": beyond},
        ):
            report = check_certificate(with_claim(certificate, index, **change))
            assert len(report.problems) == 1 and not report.confirmed
    witness = certificate.claims[0].witness
    assert witness is not None
    assert not check_certificate(with_claim(certificate, 0, witness=witness + 1.0)).confirmed


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
    X, y, nearly = data.X.copy(), data.y.copy(), data.y.copy()
    X[3, 0] += 1e-12
    other = int(np.flatnonzero(y[:, 0] != y[0, 0])[0])
    y[[0, other]] = y[[other, 0]]
    nearly[3] *= 1.0 + 1e-14  # compared to the last bit
    own = ({"y": nearly}, {"target_names": ("weight",)}) if case == "regression" else ()
    for change in ({"X": X}, {"y": y}, {"content_hash": "0" * 64}, {"input_names": ("a", "b")}, *own):
        assert outcomes(make(), dataset(**change)) == (CONFIRMED, CONFIRMED, REFUTED)
    assert outcomes(make(), class_dataset() if case == "regression" else regression_dataset())[2] == REFUTED


def test_a_sparse_regression_is_the_optimum_of_its_bound() -> None:
    from gpsuite.models.regression.gpflow_models import build_sgpr, regression_posterior  # TensorFlow

    origin = regression_origin()
    X = regression_dataset().X[:-1]
    model = build_sgpr(X, origin.targets, X[:6], ModelSpec(ard=True), Hyperparameters(1.5, (0.9, 1.4), NOISE))
    found, region = regression_posterior(model), regression_region(0.1)
    ranges = prediction_range(found.latent, found.noise_variance, region, (0.5,), 0.02, Budget(boxes=200))
    origin = dataclasses.replace(origin, inference="sparse", X=np.asarray(X), jitter=found.jitter)
    certificate = certify_quantiles(found.latent, found.noise_variance, region, ranges, slack=0.01, origin=origin)
    assert outcomes(certificate, regression_dataset()) == (CONFIRMED,) * 3
    most = MOST_JITTER * certificate.model.variance
    for jitter in (0.0, most):
        check_certificate(originating(certificate, jitter=jitter))
    for jitter in (-5e-324, most * (1 + 2**-52), np.nan):
        with pytest.raises(MalformedError, match="jitter"):
            check_certificate(originating(certificate, jitter=jitter))
    moved = remade(certificate, alpha=certificate.model.alpha * (1 + 1e-3))
    assert outcomes(moved, None)[1] == REFUTED


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
        (lambda: with_claim(class_certificate(), 0, outer=1.5), "not a probability"),
        (lambda: originating(class_certificate(), inference="exact"), "inference"),
        (lambda: originating(class_certificate(), outputs=("a", "b")), "do not fit"),
        (lambda: originating(class_certificate(), targets=class_origin().targets + 0.5), "numbers of the"),
        (lambda: originating(class_certificate(), target_scale=2.0), "no scale"),
        (lambda: originating(class_certificate(), jitter=1e-6), "jitter"),
        (lambda: originating(regression_certificate(), jitter=5e-324), "jitter"),
        (lambda: originating(regression_certificate(), target_scale=0.0), "scales"),
        (lambda: originating(regression_certificate(), rows=regression_origin().rows - 1), "at least 0"),
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
        (lambda d: d["claims"][0].update(leaves=-1), "negative number of"),
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
    write_certificate(with_claim(wrong, 0, outer=wrong.claims[0].outer + 0.01), path)
    assert verify.main([str(path)]) == 1
    path.write_bytes(b"nothing")
    with pytest.raises(UnusableFileError):
        verify.main([str(path)])


def test_a_check_that_takes_long_is_refused_with_the_word_that_allows_it(tmp_path: Path) -> None:
    certificate = small_certificate()
    write_certificate(certificate, tmp_path / "point")
    path = tmp_path / "point.npz"
    needed = estimated_minutes(certificate)
    with pytest.raises(UnusableFileError, match="add minutes="):
        verify_certificate(path, read_envelope(path), None, 0.99 * needed)
    assert verify_certificate(path, read_envelope(path), None, 1.01 * needed)[0] == 0
    for word in ("minutes=", "minutes=many", "minutes=0", "minutes=nan"):
        with pytest.raises(UserError, match="must be a number above 0"):
            verify.main([str(path), word])
