"""Ties: a class or a verdict that rounding leaves open is unknown, and one half itself is the negative class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.robustness.class_probability import latent_ranges, score_of
from gpsuite.methods.robustness.level_bound.level_bound import level_bound
from gpsuite.methods.robustness.point_search import (
    PointSearch,
    build_bound,
    certify_class,
    point_probability,
    probability_range,
)
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import box, l2_ball, linf_ball
from gpsuite.methods.robustness.search.tree import SearchTree
from gpsuite.methods.robustness.verdict import (
    POSITIVE_CLASS,
    ClassRange,
    PointProbability,
    Verdict,
    binary_comparison,
    judge,
)
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec
from tests.methods.robustness.exact_posterior import ExactPosterior
from tests.methods.robustness.made_up_posteriors import KERNELS, LINK_NAMES, random_posterior
from tests.models.gpc_problems import fitted_posterior


def one_class(link: str, label: float) -> GPCPosterior:
    X = np.random.default_rng(0).standard_normal((15, 2))
    h = Hyperparameters(1.0, (1.0, 1.0))
    infer = INFERENCES.get("laplace")
    return infer(BinaryProblem(X, np.full(15, label), ModelSpec(ard=True), LINKS.get(link)), h, None).posterior


@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_balls_far_from_data_of_one_class_are_never_unsafe(link: str) -> None:
    rng = np.random.default_rng(1)
    for label in (-1.0, 1.0):
        posterior = one_class(link, label)
        for _ in range(5):
            direction = rng.standard_normal(2)
            centre = rng.uniform(7.0, 60.0) * direction / np.linalg.norm(direction)
            found = probability_range(posterior, l2_ball(centre, 1.0), 1e-3, Budget(boxes=40))
            verdict, _ = certify_class(posterior, l2_ball(centre, 1.0), Budget(boxes=40))
            # A mean that is nowhere positive proves the negative class, however close to one half.
            allowed = {"safe"} if label < 0 else {"safe", "unknown"}
            assert {found.verdict.status, verdict.status} <= allowed
            assert found.verdict.status == "safe" or "tie within rounding" in found.verdict.reason


@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_single_points_on_a_crossing_are_never_unsafe(inference: str, link: str) -> None:
    rng = np.random.default_rng(2)
    posterior = fitted_posterior(inference, link=LINKS.get(link))[0]
    exact, found, tied = ExactPosterior(posterior), 0, 0
    while found < 4:
        low, high = rng.uniform(-2.0, 2.0, (2, 2))
        classes = posterior.latent(np.array([low, high]))[0] > 0
        if classes[0] == classes[1]:
            continue
        for _ in range(70):
            middle = 0.5 * (low + high)
            same = (posterior.latent(middle[None])[0][0] > 0) == classes[0]
            low, high = (middle, high) if same else (low, middle)
        found += 1
        for point in (low, high):
            result = probability_range(posterior, box(point, 0.0), 1e-3, Budget(boxes=10))
            verdict, _ = certify_class(posterior, box(point, 0.0), Budget(boxes=10))
            assert {result.verdict.status, verdict.status} <= {"safe", "unknown"}
            _, low, high = result.centre.probability(POSITIVE_CLASS)
            assert low <= 0.5 <= high or result.verdict.status == "safe"
            tied += "tie within rounding" in result.verdict.reason
            if result.verdict.status == "safe":
                assert (exact.moments(point)[0] > 0) == (low > 0.5)
    assert tied > 0


@pytest.mark.parametrize("link", LINK_NAMES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_mean_of_exactly_zero_is_provably_the_negative_class(kernel: str, link: str) -> None:
    posterior = random_posterior(np.random.default_rng(3), kernel, link, 6, 2)
    silent = replace(posterior, alpha=np.zeros(6))
    region = linf_ball(silent.X[0], 0.3)
    found = probability_range(silent, region, 1e-3, Budget(boxes=20))
    _, low, high = found.centre.probability(POSITIVE_CLASS)
    assert (low <= 0.5, high) == (True, 0.5)
    assert found.maximum.outer == 0.5
    assert found.verdict.status == "safe"
    # The smallest weight of the other sign leaves the class open where its size is lost.
    doubt = replace(
        posterior, alpha=np.r_[-1.0, 1.0, np.zeros(4)], X=np.vstack([posterior.X[:1]] * 2 + [posterior.X[2:]])
    )
    found = probability_range(doubt, region, 1e-3, Budget(boxes=20))
    assert found.verdict.status == "unknown"
    assert "tie within rounding" in found.verdict.reason


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_of_one_sign_decide_the_sign_of_the_mean_everywhere(kernel: str) -> None:
    posterior = random_posterior(np.random.default_rng(4), kernel, "probit", 8, 2)
    far = np.array([[1e3, -1e3]])
    for sign in (1.0, -1.0):
        signed = replace(posterior, alpha=sign * np.abs(posterior.alpha))
        bound = level_bound(signed, posterior.X[0], np.arange(2))
        ranges, boxes = latent_ranges(bound.form, far), bound.bounds(far - 1.0, far + 1.0)
        for low, high in ((ranges.mean_low, ranges.mean_high), (boxes.mean_low, boxes.mean_high)):
            assert (low if sign > 0 else high)[0] == 0.0
            assert (high if sign > 0 else -low)[0] > 0.0


def test_one_half_is_decided_like_the_float_below_it() -> None:
    below, above = np.nextafter(0.5, 0), np.nextafter(0.5, 1)
    assert [binary_comparison(-1).crossed(p) for p in (below, 0.5, above)] == [True, True, False]
    assert [binary_comparison(1).crossed(p) for p in (below, 0.5, above)] == [False, False, True]
    assert not PointProbability(0.5, 0.4, 0.5).undecided
    assert PointProbability(0.5, 0.5, above).undecided
    assert PointProbability(0.5, 0.4, above).undecided
    assert not PointProbability(0.7, above, 0.8).undecided
    assert [PointProbability(p, p, p).comparison.sign for p in (below, 0.5, above)] == [1, 1, -1]


def extremum(sign: int, inner: float, outer: float, rounding: float = 0.0) -> Extremum:
    none = np.zeros(0, dtype=int)
    tree = SearchTree(none, none, np.zeros(0), np.zeros(0), none, none.astype(bool))
    witness = np.array([0.2])
    return Extremum(sign, inner, outer, witness, "closed", "why", 1, 0.0, np.zeros((0, 4)), tree, rounding)


@pytest.mark.parametrize(
    ("centre", "sign", "inner", "outer", "rounding", "status", "reason"),
    [
        ((0.8, 0.9), -1, 0.7, np.nextafter(0.5, 1), 0.0, "safe", "0.5"),
        ((0.8, 0.9), -1, 0.7, 0.5, 0.0, "unknown", "attained 0.7, proved 0.5: why"),
        ((0.8, 0.9), -1, 0.5, 0.3, 0.0, "unsafe", "0.5"),
        ((0.8, 0.9), -1, np.nextafter(0.5, 1), 0.3, 1e-9, "unknown", "tie within rounding"),
        ((0.8, 0.9), -1, 0.6, 0.3, 1e-9, "unknown", "attained 0.6"),
        ((0.1, 0.5), 1, 0.4, 0.5, 0.0, "safe", "0.5"),
        ((0.1, 0.5), 1, 0.4, np.nextafter(0.5, 1), 0.0, "unknown", "attained 0.4"),
        ((0.1, 0.5), 1, 0.5, 0.7, 0.0, "unknown", "attained 0.5"),
        ((0.1, 0.5), 1, 0.5, 0.7, 1e-9, "unknown", "tie within rounding"),
        ((0.1, 0.5), 1, np.nextafter(0.5, 1), 0.7, 0.0, "unsafe", "0.5"),
        ((0.4, 0.6), 1, 0.9, 0.99, 0.0, "unknown", "one half lies in"),
        ((0.4, 0.6), 1, 0.1, 0.2, 0.0, "unknown", "one half lies in"),
    ],
)
def test_a_verdict_is_judged_by_intervals(
    centre: tuple[float, float], sign: int, inner: float, outer: float, rounding: float, status: str, reason: str
) -> None:
    point = PointProbability(0.5 * sum(centre), *centre)
    verdict = judge(point, (extremum(sign, inner, outer, rounding),), box([0.0, 0.1], [0.5, 0.0]))
    assert verdict.status == status
    assert reason in verdict.reason
    if status == "unsafe":
        np.testing.assert_array_equal(verdict.counterexample, [0.2, 0.1])  # type: ignore[arg-type]
    else:
        assert verdict.counterexample is None


@pytest.mark.parametrize(
    ("sign", "inner", "outer", "words"),
    [
        (1, 0.3, 0.4321232, "no class probability beyond 0.432124"),
        (-1, 0.9, 0.6543216, "no class probability beyond 0.654321"),
        (1, 0.6543216, 0.7, "class probability 0.654321 at the counterexample"),
        (-1, 0.4321232, 0.3, "class probability 0.432124 at the counterexample"),
        (1, 0.4321236, 0.6543212, "attained 0.432123, proved 0.654322: why"),
        (-1, 0.6543212, 0.4321236, "attained 0.654322, proved 0.432123: why"),
    ],
)
def test_a_verdict_claims_no_more_than_was_attained_and_proved(
    sign: int, inner: float, outer: float, words: str
) -> None:
    """Each number would round to the untrue side if it were rounded to the nearest."""
    point = PointProbability(0.1, 0.1, 0.1) if sign > 0 else PointProbability(0.95, 0.95, 0.95)
    verdict = judge(point, (extremum(sign, inner, outer),), box([0.0, 0.1], [0.5, 0.0]))
    assert verdict.reason == words


def test_centre_and_witness_of_a_single_point_are_one_evaluation() -> None:
    for kernel in KERNELS:
        posterior = random_posterior(np.random.default_rng(6), kernel, "logistic", 10, 2)
        region = box(posterior.X[0] + 0.1, 0.0)
        found = probability_range(posterior, region, 1e-3, Budget(boxes=10))
        centre = point_probability(build_bound("rkhs_taylor", posterior, region), region.start)
        assert found.centre == centre
        # within an ulp: products of one and of several points are summed in another order
        assert (found.maximum.inner, found.minimum.inner) == pytest.approx((centre.low, centre.high), abs=1e-15)
        assert centre.low <= centre.value <= centre.high
        assert found.maximum.rounding == pytest.approx(centre.high - centre.low, abs=1e-15)
        assert found.spread[0] == 0.0 < found.spread[1]
        assert found.deviation[0] == 0.0 < found.deviation[1]


@pytest.mark.parametrize(
    ("minimum", "maximum", "status"),
    [("closed", "budget", "budget"), ("exhausted", "closed", "exhausted"), ("closed", "closed", "closed")],
)
def test_a_range_is_closed_if_both_ends_are(minimum: str, maximum: str, status: str) -> None:
    ends = (
        replace(extremum(sign, 0.5 + 0.1 * sign, 0.5 + size * sign), status=each)
        for sign, size, each in ((-1, 0.11, minimum), (1, 0.3, maximum))
    )
    found = ClassRange(POSITIVE_CLASS, PointProbability(0.55, 0.54, 0.56), *ends, Verdict("unknown", "why"))  # type: ignore[arg-type, call-arg]
    assert found.status == status
    assert found.gap == pytest.approx(0.2)
    assert found.spread == pytest.approx((0.2, 0.41))
    assert found.deviation == pytest.approx((0.14, 0.26))
    assert found.probability == 0.55


def test_what_an_attack_attains_is_rounded_towards_the_centre() -> None:
    posterior = fitted_posterior("laplace", link=LINKS.get("logistic"))[0]
    search = PointSearch(posterior, np.array([0.2, 0.1]), np.arange(2))
    bound, points = search.bound, np.array([[0.2, 0.1], [0.5, -0.3]])
    low, high = search.attained(points, 1), search.attained(points, -1)
    assert np.all(low < high)
    np.testing.assert_array_equal(low, bound.outward_probability(*bound.evaluate(points))[0])
    score = score_of(posterior.link).value(*posterior.latent(points))
    np.testing.assert_allclose(low, score, atol=1e-10)
    np.testing.assert_allclose(high, score, atol=1e-10)
