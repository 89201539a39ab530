"""The three levels of a check, and what is said of a certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import norm

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import Certificate
from gpsuite.certificates.form import MalformedError
from gpsuite.certificates.model import model_hash
from gpsuite.certificates.plain_kernel import gram
from gpsuite.certificates.stationarity import TOLERANCE, stationarity_residuals
from gpsuite.certificates.verification import CONFIRMED, OPEN, REFUTED, check_levels, dataset_fault, describe
from gpsuite.methods.robustness.certification import stored_model
from gpsuite.methods.robustness.verdict import probability_range
from gpsuite.models.classification.approximation import BinaryProblem
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.rounding import rounded
from tests.arrays import Array
from tests.methods.robustness.certified_point import (
    certified,
    certify_range,
    changed,
    its_dataset,
    origin_of,
    small_certificate,
)
from tests.models.gpc_problems import two_classes

KERNELS = ("squared_exponential", "matern32", "matern52")


def outcomes(certificate: Certificate, **dataset: Any) -> tuple[str, ...]:
    given = its_dataset(**dataset) if dataset else None
    return tuple(level.outcome for level in check_levels(certificate, given))


def remade(certificate: Certificate, **changes: Any) -> Certificate:
    """Return the certificate with a changed model and its hash recomputed."""
    model = dataclasses.replace(certificate.model, **changes)
    return dataclasses.replace(certificate, model=model, model_hash=model_hash(model))


def originating(certificate: Certificate, **changes: Any) -> Certificate:
    assert certificate.origin is not None
    return dataclasses.replace(certificate, origin=dataclasses.replace(certificate.origin, **changes))


def test_three_levels_are_confirmed_with_the_dataset_and_two_without() -> None:
    assert outcomes(small_certificate(), name="two classes") == (CONFIRMED, CONFIRMED, CONFIRMED)
    assert outcomes(small_certificate()) == (CONFIRMED, CONFIRMED, OPEN)
    unknown = dataclasses.replace(small_certificate(), origin=None)
    assert outcomes(unknown, name="two classes") == (CONFIRMED, OPEN, OPEN)


def test_a_trivial_posterior_with_a_recomputed_hash_is_not_that_of_the_rows() -> None:
    """With alpha and F zero every probability is one half, which is easy to bound."""
    posterior, region, _, certificate = certified()
    nothing = dataclasses.replace(posterior, alpha=0 * posterior.alpha, root=0 * posterior.root)
    found = probability_range(nothing, region, 0.02, Budget(boxes=100))
    trivial = certify_range(nothing, region, (found.minimum, found.maximum), origin=certificate.origin)
    assert trivial.claims[1].outer < 0.51
    assert outcomes(trivial, name="two classes") == (CONFIRMED, REFUTED, CONFIRMED)


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
    from gpsuite.certificates.plain_kernel import gram
    from gpsuite.certificates.stationarity import _log_likelihood_derivatives

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


def test_a_squeezed_link_has_no_inference() -> None:
    certificate = remade(small_certificate(), squeeze=1e-3)
    with pytest.raises(MalformedError, match="squeezed"):
        check_levels(certificate, None)
