from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.methods.robustness.point_search import bound_names, certify_class, probability_range
from gpsuite.methods.robustness.search.attacks import strong_attack
from gpsuite.methods.robustness.search.regions import Region, box, interval_box, l1_ball, l2_ball, linf_ball
from gpsuite.methods.robustness.verdict import POSITIVE_CLASS, PointProbability, judge
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec
from tests.arrays import Array
from tests.models.gpc_problems import fitted_posterior

HERE = Path(__file__).parents[2] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "robustness.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
CASES = [pytest.param(case, id=case["id"]) for case in REFERENCE.get("cases", []) if case["kind"] == "binary"]
SEARCHED = 1e-6  # the reference's extrema were found by search
LINK_NAMES = ("probit", "logistic", "squeezed_probit")
BALLS = (linf_ball, l2_ball, l1_ball)


def reference_posterior(case: dict[str, Any]) -> GPCPosterior:
    X = np.asarray(case["X"], dtype=float).reshape(len(case["X"]), -1)
    h = Hyperparameters(case["kernel"]["variance"], tuple(case["kernel"]["lengthscales"]))
    infer, link = INFERENCES.get(case["inference"]), LINKS.get(case["likelihood"])
    return infer(
        BinaryProblem(X, np.asarray(case["y"], dtype=float), ModelSpec(ard=True), link), h, None
    ).require_converged()


@pytest.mark.reference
@pytest.mark.parametrize("case", CASES)
def test_every_reference_box_is_enclosed_and_closes(case: dict[str, Any]) -> None:
    posterior = reference_posterior(case)
    for wanted in case["boxes"]:
        lower, upper = np.array(wanted["lower"]), np.array(wanted["upper"])
        region = interval_box(np.clip(0.5 * (lower + upper), lower, upper), lower, upper)
        for tolerance, boxes in ((1e-3, 100_000), (1e-2, 100_000), (0.0, 20)):
            found = probability_range(posterior, region, tolerance, Budget(boxes=boxes))
            name = f"{wanted['name']} {tolerance}"
            assert found.minimum.outer <= wanted["pi_min"] + SEARCHED, name
            assert found.maximum.outer >= wanted["pi_max"] - SEARCHED, name
            assert wanted["pi_min"] - SEARCHED <= found.minimum.inner, name
            assert found.maximum.inner <= wanted["pi_max"] + SEARCHED, name
            if tolerance:
                assert found.status == "closed", name
                assert found.minimum.outer >= wanted["pi_min"] - tolerance - SEARCHED, name
                assert found.maximum.outer <= wanted["pi_max"] + tolerance + SEARCHED, name


def random_problem(seed: int) -> tuple[GPCPosterior, Region]:
    """A fitted random classifier and a random region, some inputs fixed."""
    rng = np.random.default_rng(seed)
    inputs, count = int(rng.integers(1, 4)), int(rng.integers(5, 40))
    X = rng.standard_normal((count, inputs))
    y = np.where(np.sin(2 * X[:, 0]) + X[:, -1] * rng.normal() + 0.5 * rng.normal(size=count) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    kernel = str(rng.choice(["squared_exponential", "squared_exponential", "matern52", "matern32"]))
    h = Hyperparameters(float(10 ** rng.uniform(-0.5, 1)), tuple(10 ** rng.uniform(-0.2, 0.4, inputs)))
    link = LINKS.get(LINK_NAMES[int(rng.integers(2))])
    posterior = INFERENCES.get("laplace")(BinaryProblem(X, y, ModelSpec(kernel, ard=True), link), h, None).posterior
    free = np.sort(rng.choice(inputs, int(rng.integers(1, inputs + 1)), replace=False)).tolist()
    ball = BALLS[int(rng.integers(3))]
    return posterior, ball(X[0] + 0.2 * rng.normal(size=inputs), float(10 ** rng.uniform(-2, -0.3)), free=free)


def against_multi_start(seed: int, starts: int, boxes: int) -> None:
    """Compare one branch and bound with local search from many points: never beaten, and close when closed."""
    posterior, region = random_problem(seed)
    found = probability_range(posterior, region, 5e-3, Budget(boxes=boxes))
    rng = np.random.default_rng(seed + 1)
    samples = region.project(rng.uniform(region.lower, region.upper, size=(500, len(region.free))))
    probability = posterior.probability(region.embed(samples))
    for extremum, sampled in ((found.minimum, probability.min()), (found.maximum, probability.max())):
        sign = extremum.sign
        best = strong_attack(posterior, region, sign, starts, rng)[1]
        best = sign * max(sign * best, sign * sampled)
        assert sign * best <= sign * extremum.outer + 1e-9
        assert extremum.witness is not None and region.contains(extremum.witness[None])[0]
        attained = posterior.probability(region.embed(extremum.witness[None]))[0]
        assert attained == pytest.approx(extremum.inner, abs=1e-8)
        assert extremum.status in ("closed", "budget")
        if extremum.status == "closed":
            assert sign * (best - extremum.inner) <= 5e-3 + 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_ranges_of_random_models_enclose_a_multi_start(seed: int) -> None:
    against_multi_start(seed, starts=6, boxes=1500)


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("seed", range(1000, 1200))
def test_ranges_of_many_random_models_enclose_a_multi_start(seed: int) -> None:
    against_multi_start(seed, starts=20, boxes=20_000)


@pytest.fixture(scope="module")
def posterior() -> GPCPosterior:
    return fitted_posterior("laplace")[0]


def most_certain(posterior: GPCPosterior, sign: int) -> Array:
    return posterior.X[int(np.argmax(sign * posterior.probability(posterior.X)))]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_point_is_safe_unsafe_or_unknown_by_radius_and_budget(posterior: GPCPosterior, sign: int) -> None:
    centre = most_certain(posterior, sign)
    safe = probability_range(posterior, linf_ball(centre, 0.1), 0.01, Budget(boxes=2000))
    assert safe.verdict.status == "safe"
    assert safe.verdict.counterexample is None
    unsafe = probability_range(posterior, linf_ball(centre, 4.0), 0.01, Budget(boxes=2000))
    assert unsafe.verdict.status == "unsafe"
    crossed = posterior.probability(unsafe.verdict.counterexample[None])[0]
    assert (crossed > 0.5) != (unsafe.probability > 0.5)
    unknown = probability_range(posterior, linf_ball(centre, 0.5), 0.01, Budget(boxes=0))
    assert unknown.verdict.status == "unknown"
    assert "0 boxes used up" in unknown.verdict.reason


@pytest.mark.parametrize("limits", [{"boxes": 0}, {"seconds": 0.0}])
def test_budget_zero_gives_the_trivial_range(posterior: GPCPosterior, limits: dict[str, Any]) -> None:
    found = probability_range(posterior, linf_ball([0.2, 0.1], 0.5), 0.01, Budget(**limits))
    assert (found.minimum.outer, found.maximum.outer) == (0.0, 1.0)
    assert (found.status, found.boxes, found.gap) == ("budget", 0, 1.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_search_cut_short_takes_what_else_is_known(posterior: GPCPosterior, sign: int) -> None:
    """Without a box it knows nothing: a bound of the region decides the class, the centre is attained."""
    region = linf_ball(most_certain(posterior, sign), 0.1)
    full = probability_range(posterior, region, 0.01, Budget(boxes=2000))
    lowest, highest = full.minimum.outer, full.maximum.outer
    cut = probability_range(posterior, region, 0.01, Budget(boxes=0))
    found = cut.informed(lowest, highest, region)
    assert (cut.verdict.status, found.verdict.status) == ("unknown", "safe")
    assert (found.minimum.outer, found.maximum.outer) == (lowest, highest)
    assert (found.minimum.inner, found.maximum.inner) == cut.centre.probability(POSITIVE_CLASS)[:0:-1]
    assert found.minimum.inner == pytest.approx(cut.probability, abs=1e-9)
    for worse in ((-1.0, 2.0), (np.nan, np.nan)):  # what is known already stays
        again = found.informed(*worse, region)
        assert (again.minimum, again.maximum, again.verdict) == (found.minimum, found.maximum, found.verdict)
    closed = full.informed(0.5 * (lowest + full.minimum.inner), highest, region)
    assert closed.minimum == full.minimum  # a search that ended by itself is told by itself


def test_what_a_cut_search_attained_stays_with_its_witness(posterior: GPCPosterior) -> None:
    region = linf_ball([0.2, 0.1], 1.5)
    cut = probability_range(posterior, region, 0.0, Budget(boxes=4))
    assert cut.minimum.status == "budget" and cut.minimum.witness is not None
    found = cut.minimum.informed(0.0, 0.5 * cut.minimum.inner)
    assert (found.inner, found.outer) == (cut.minimum.inner, cut.minimum.outer)


def test_boxes_and_seconds_are_shared(posterior: GPCPosterior) -> None:
    found = probability_range(posterior, linf_ball([0.2, 0.1], 1.5), 0.0, Budget(boxes=101))
    assert found.minimum.boxes <= 50 and found.boxes <= 101
    assert found.status == "budget"
    timed = probability_range(posterior, linf_ball([0.2, 0.1], 1.5), 0.0, Budget(seconds=0.2))
    assert timed.seconds < 0.5
    assert timed.minimum.outer <= timed.minimum.inner <= timed.maximum.inner <= timed.maximum.outer


def test_spread_and_deviation_are_attained_and_proved(posterior: GPCPosterior) -> None:
    found = probability_range(posterior, linf_ball([0.2, 0.1], 0.4), 1e-3, Budget(boxes=5000))
    assert found.spread[0] <= found.spread[1] <= found.spread[0] + 2e-3
    assert found.deviation[0] <= found.deviation[1] <= found.deviation[0] + 1e-3
    assert found.deviation[0] <= found.spread[0] <= 2 * found.deviation[0]


@pytest.mark.parametrize("radius", [0.1, 0.5, 1.0, 4.0])
def test_the_class_alone_is_cheaper_and_agrees(posterior: GPCPosterior, radius: float) -> None:
    for centre in posterior.X[:6]:
        region = linf_ball(centre, radius)
        full = probability_range(posterior, region, 1e-4, Budget(boxes=20_000))
        verdict, found = certify_class(posterior, region, Budget(boxes=20_000))
        assert verdict.status == full.verdict.status
        assert found[1 - full.centre.own].boxes <= full.boxes
        if verdict.counterexample is not None:
            p = posterior.probability(verdict.counterexample[None])[0]
            assert (p > 0.5) != (full.probability > 0.5)


@pytest.mark.parametrize("bound", ["paper", "rkhs_taylor"])
def test_all_bounds_agree_on_the_range(posterior: GPCPosterior, bound: str) -> None:
    assert bound in bound_names()
    region = linf_ball([0.2, 0.1], 0.1)
    exact = probability_range(posterior, region, 1e-4, Budget(boxes=5000))
    found = probability_range(posterior, region, 0.02, Budget(boxes=5000), bound=bound)
    assert found.status == "closed"
    assert found.minimum.outer <= exact.minimum.inner and exact.maximum.inner <= found.maximum.outer
    assert found.gap <= 0.02


def test_a_point_has_no_range(posterior: GPCPosterior) -> None:
    found = probability_range(posterior, box([0.2, 0.1], 0.0), 1e-6, Budget(boxes=10))
    assert found.status == "closed"
    np.testing.assert_allclose([found.minimum.outer, found.maximum.outer], found.probability, rtol=0, atol=1e-9)


def test_mistakes_are_refused(posterior: GPCPosterior) -> None:
    region = linf_ball([0.2, 0.1], 0.1)
    with pytest.raises(UserError, match="rkhs_taylor"):
        probability_range(posterior, region, 0.01, Budget(), bound="rkhs_tailor")
    with pytest.raises(ValueError, match="tolerance"):
        probability_range(posterior, region, -0.01, Budget())
    with pytest.raises(ValueError, match="shape"):
        probability_range(posterior, linf_ball([0.2, 0.1, 0.0], 0.1), 0.01, Budget())


def test_a_point_without_a_class_is_unknown(posterior: GPCPosterior) -> None:
    region = linf_ball([0.2, 0.1], 0.1)
    found = probability_range(posterior, region, 0.01, Budget(boxes=100))
    nowhere = PointProbability(float("nan"), 0.0, 1.0)
    assert judge(nowhere, (found.minimum,), region).status == "unknown"
