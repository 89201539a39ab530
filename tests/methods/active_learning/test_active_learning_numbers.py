"""Queries, safe regions, predictions and plans give the numbers they gave: see tests/golden.py."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gpsuite.methods.active_learning import acquisition, convergence
from gpsuite.methods.active_learning.acquisition import PIPELINES, choose, entropy, joint_entropy
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.plan import predictions
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
from gpsuite.methods.active_learning.plan.predictions import Belief, Chooser, OutputPredictions
from gpsuite.methods.active_learning.plan.safety import SafetyGuard, SafetyModel, SafetyPrediction, Units
from gpsuite.methods.active_learning.problem import SafetyLimit, mixture_probability, moment_matched_probability
from gpsuite.methods.conformal import (
    ClassCalibration,
    LeaveOneOut,
    LeaveOneOutSpread,
    adaptive_scores,
    class_sets,
    follows_spread,
    jackknife_plus,
    missed_bound,
    split_radius,
    weighted_radii,
)
from gpsuite.models.config import Hyperparameters
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization, Parameters
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.posterior import HyperPosterior, OptimumSettings
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from tests import golden
from tests.arrays import Array
from tests.methods.active_learning.exploration_problems import run, tiny

PACKAGES = ("gpsuite.methods.active_learning", "gpsuite.methods.conformal")
LIMIT = SafetyLimit(0.3, "below")
GRID = np.linspace(-2.0, 2.0, 21)[:, None]


def covariance(n: int = 12, P: int = 2) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = np.linspace(-1.0, 1.0, n)
    A = rng.standard_normal((P, P))
    K = np.exp(-0.5 * (x[:, None] - x) ** 2 / 0.2)
    return np.kron(K, A @ A.T), np.array([0.1, 0.3, 0.2])[:P]


def queries() -> list[object]:
    K, noise = covariance()
    single, whole = convergence.query_single_outputs(K, noise, 8), convergence.query_all_outputs(K, noise, 5)
    constant = convergence.lemma_constant(2.0, 0.3, 2)
    n = np.array([2.0, 5.0, 40.0])
    slow = replace(single, maximal=single.maximal + 9.0)
    return [
        single,
        whole,
        constant,
        convergence.lemma_constant(2.0, 0.3),
        *(
            part
            for each in (single, whole, slow)
            for part in (each.mean_maximal, each.mean_average, each.bound(constant), each.violations(constant))
        ),
        convergence.mutual_information(K[:4, :4], np.array([0.1, 0.2, 0.3, 0.1])),
        convergence.information_gain(K[:6, :6], 0.2, 4),
        convergence.summed_information_gain(K, noise, single),
        convergence.variance_bound(np.array([[0.5, -2.0], [1.0, 0.1]]), np.array([0.3, 1.4])),
        convergence.rate("matern52", 2, n),
        convergence.rate("se", 2, n),
        convergence.log_slope(n, np.array([0.5, 0.3, 0.1])),
        convergence.slope_points(2, 5000),
        convergence.slope_points(1, 300, 20),
    ]


def regions() -> list[object]:
    """A safe region that grows from the middle while the outputs are queried in it."""
    K, noise = covariance()
    k, _ = covariance(P=1)
    z = np.sin(np.linspace(-1.5, 1.5, 12))
    found: list[object] = []
    for query in (convergence.query_single_outputs, convergence.query_all_outputs):
        region = convergence.SafeRegion(k, 0.05, lambda x: float(z[x]), -0.4, 0.3, 9)
        found += [region.allowed(), query(K, noise, 6, region), region.allowed()]
    return found


def safety() -> list[object]:
    rng = np.random.default_rng(2)
    S, D = 4, 2
    parameters = Parameters(
        rng.uniform(0.1, 4.0, (S, 1)), rng.uniform(0.2, 9.0, (S, 1)), rng.uniform(1e-3, 0.1, (S, 1)), np.ones((S, 1, 1))
    )
    X, y = rng.normal(size=(9, D)) * [1.0, 0.2], rng.normal(-1.0, 0.3, 9)
    known, weights = Observations(X, np.zeros(9, int), y), np.array([0.4, 0.3, 0.2, 0.1])
    points = rng.uniform(-4.0, 4.0, (11, D))
    guard = SafetyGuard()
    found: list[object] = []
    for kernel in ("matern52", "squared_exponential"):
        model = LinearCoregionalization(1, mixing="identity", kernel=kernel)
        for each in (guard, None):
            prediction = SafetyPrediction(kernel, parameters, weights, known, LIMIT, each)
            found += [prediction.moments(points)]
        posterior = HyperPosterior(model.unconstrain(parameters), weights, {})
        judged = SafetyModel(model, posterior, known, LIMIT)
        found += [judged.judge(points, 0.05, each, lambda: False) for each in (guard, None, SafetyGuard(step=3.0))]
        found += judged.warnings(points, guard, ("a", "b"))
    flat = Observations(X, np.zeros(9, int), -1.0 + 1e-3 * y)
    found += [guard.hardly_varied(*prediction.moments(flat.X), LIMIT), guard.ranges(X), guard.outside(X, points)]
    mean, variance = rng.standard_normal((4, 6)), rng.uniform(0.1, 1.0, (4, 6))
    for limit in (LIMIT, SafetyLimit(-0.2, "above")):
        found += [limit.probability(mean[0], variance[0]), limit.holds(mean[0])]
        found += [rule(limit, mean, variance, weights) for rule in (mixture_probability, moment_matched_probability)]
    return found


def judged() -> list[object]:
    rng = np.random.default_rng(4)
    S, n, P = 3, 5, 2
    mean, variance, Y = (rng.standard_normal((S, n, P)), rng.uniform(0.1, 1.0, (S, n, P)), rng.standard_normal((n, P)))
    A = rng.standard_normal((n, P, P))
    score = np.array([[0.3, 0.7], [0.7, 0.1], [0.2, 0.9]])
    allowed = np.array([[True, True], [True, True], [True, False]])
    sizes = [(5, 1), (40, 2), (300, 6), (900, 10)]
    smc = SMCSettings()
    return [
        entropy(variance[0]),
        joint_entropy(A @ A.transpose(0, 2, 1)),
        choose(score, allowed),
        acquisition.rmse(mean.mean(axis=0), Y),
        acquisition.safety_precision(allowed[0], allowed[2]),
        acquisition.safe_query_percent(allowed[:, 1]),
        *(
            part
            for size in sizes
            for part in (
                predictions.gradient_seconds(*size),
                predictions.gradients(smc, *size),
                predictions.particles(smc, *size),
                predictions.prediction_seconds(*size, 1000),
                predictions.members(400, *size, 1000),
                predictions.safety_seconds(size[0], 1000),
            )
        ),
    ]


def chosen(full: bool, room: int | None) -> list[object]:
    """Four choices, the later ones from a short list where there is no room for all."""
    rng = np.random.default_rng(0)
    known = Observations(rng.uniform(-1.0, 1.0, (10, 1)), np.arange(10) % 2, rng.standard_normal(10))
    belief = Belief.cold(LinearCoregionalization(2), known, rng, SMCSettings(8, 1, 3))
    outputs = OutputPredictions(belief, belief.cloud.posterior, GRID, full)
    before = predictions.ROOM
    try:
        predictions.ROOM = before if room is None else room
        outputs.predict(np.arange(len(GRID)), lambda: False)
        chooser = Chooser(GRID, outputs, belief.cloud.posterior, full, None)
        rows = chooser._shortlist(7, np.ones((len(GRID), 1 if full else 2), dtype=bool), 3)
        made = chooser.choose(np.ones((len(GRID), 1 if full else 2), dtype=bool), 4, lambda: False)
    finally:
        predictions.ROOM = before
    return [made, rows, outputs.mean, outputs.variance, outputs.score]


def planned(pipeline: str) -> list[object]:
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.7, 0.7, (8, 2)) * [3.0, 20.0] + [10.0, 0.0]
    Y = np.stack([np.sin(X[:, 0]), 50.0 + X[:, 1]], axis=1)
    z = 0.1 * (X[:, 0] - 10.0) ** 2
    planner = MeasurementPlanner(
        LIMIT,
        np.random.default_rng(1),
        smc=SMCSettings(8, 1, 3),
        pipeline=PIPELINES[pipeline],
        guard=SafetyGuard(step=0.4),
        input_names=("a", "b"),
    )
    planner.tell(X, Y, z)
    candidates = rng.uniform(-1.0, 1.0, (12, 2)) * [3.0, 20.0] + [10.0, 0.0]
    plan = planner.ask(candidates, 3)
    planner.tell(candidates[:1], Y[:1], z[:1])
    again = planner.ask(candidates, 2, "safest")
    units = [
        Units.of(candidates, X[:n], Y[:n], z[:n], limit) for n in (8, 3) for limit in (LIMIT, SafetyLimit(0.1, "above"))
    ]
    near = [one.near(other) for one in units for other in units]
    return [plan, again, planner.n_values, units, near, units[1].inputs(X), units[1].limit(LIMIT)]


def explored(pipeline: str, kind: str) -> list[object]:
    problem, truth = tiny()
    settings = InferenceSettings(
        kind=kind,  # type: ignore[arg-type]
        smc=SMCSettings(8, 1, 3),
        optimum=OptimumSettings(starts=1, evaluations=4),
    )
    explorer, steps = run(problem, truth, PIPELINES[pipeline], iterations=3, settings=settings)
    return [steps, explorer.status]


def intervals() -> list[object]:
    rng = np.random.default_rng(6)
    X, errors = rng.standard_normal((14, 2)), rng.uniform(0.0, 1.0, 19)
    y = np.sin(X[:, 0])
    found: list[object] = [split_radius(errors, c) for c in (0.5, 0.8, 0.95, 0.99)]
    for kernel in ("squared_exponential", "matern32"):
        models = LeaveOneOut.fit(X, y, np.array([0, 3, 9, 13]), kernel, Hyperparameters(1.2, (0.7, 1.4), 0.1))
        found += [models, models.mean(X[:2] + 0.1), models.predictions(X[:2] + 0.1)]
    spread = rng.standard_normal((19, 3))
    return [*found, *(jackknife_plus(errors, spread, c) for c in (0.5, 0.8, 0.9, 0.95))]


def spreads_and_sets() -> list[object]:
    rng = np.random.default_rng(7)
    X, errors = rng.standard_normal((14, 2)), rng.uniform(0.0, 1.0, 19)
    found = Hyperparameters(1.2, (0.7, 1.4), 0.1)
    spread = LeaveOneOutSpread.fit(X, np.sin(X[:, 0]), np.array([0, 3, 9, 13]), "matern52", found)
    p, truth = rng.dirichlet(np.ones(3), 40), rng.integers(0, 3, 40)
    u = rng.uniform(size=40)
    sets = ClassCalibration.fit(p, truth, u, 0.8)
    ends = jackknife_plus(spread.scores, spread.models.predictions(X[:2]), 0.5, spread.deviations(X[:2]))
    radii = weighted_radii(errors, rng.uniform(size=19), np.array([0.0, 0.5, 9.0]), 0.8)
    chosen = class_sets(adaptive_scores(p, u), sets.marginal, p)
    follows = float(follows_spread(spread.models.errors, spread.scores, 0.6))
    return [
        spread,
        ends,
        follows,
        spread.deviation(X[:3]),
        radii,
        sets,
        chosen.astype(float),
        missed_bound(40, 0.8, 0.05),
    ]


SCENARIOS: dict[str, golden.Scenario] = {
    "queries": queries,
    "queries in a safe region": regions,
    "safety": safety,
    "scores and costs": judged,
    "choices of single outputs": partial(chosen, False, None),
    "choices of single outputs, little room": partial(chosen, False, 8 * 2 * 13 * 6),
    "choices of all outputs": partial(chosen, True, None),
    "a plan": partial(planned, "AL_MOGP"),
    **{
        f"exploration, {pipeline}, {kind}": partial(explored, pipeline, kind)
        for pipeline, kind in [("AL_MOGP", "smc"), ("AL_MOGP", "map")]
    },
    "intervals": intervals,
    "spreads and sets of classes": spreads_and_sets,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_numbers_are_the_stored_ones(name: str) -> None:
    golden.check(__file__, name, SCENARIOS[name], PACKAGES)
