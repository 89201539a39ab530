from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.optimize import Bounds, OptimizeResult

from gpsuite.budget import Budget
from gpsuite.models import search as search_module
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression import gpflow_models
from gpsuite.models.regression.gpflow_models import (
    CompiledLoss,
    assign,
    build_fitc,
    build_gpr,
    build_sgpr,
    compiled_loss,
    flatten,
    hyperparameters_of,
    maximise_likelihood,
    unconstrained_box,
    variables_of,
)
from tests.arrays import Array
from tests.models.regression_problems import START, make_problem

Problem = tuple[Array, Array]
# Same algorithm, tolerances and start as GPflow's: only rounding in the order of sums differs.
SAME_PATH = 1e-6


def build(kind: str, problem: Problem):
    X, Y = problem
    if kind == "GPR":
        return build_gpr(X, Y, ModelSpec(), START)
    return {"SGPR": build_sgpr, "GPRFITC": build_fitc}[kind](X, Y, X[:6], ModelSpec(), START)


@pytest.mark.parametrize("kind", ["GPR", "SGPR"])
def test_optimum_equals_that_of_gpflow(problem: Problem, kind: str) -> None:
    ours, theirs = build(kind, problem), build(kind, problem)
    report = maximise_likelihood(ours, Budget())
    result = gpflow.optimizers.Scipy().minimize(theirs.training_loss, theirs.trainable_variables)
    assert report.status == "done"
    assert report.loss == pytest.approx(result.fun, abs=SAME_PATH)
    assert report.loss == pytest.approx(float(ours.training_loss()), abs=1e-10)
    found, expected = hyperparameters_of(ours), hyperparameters_of(theirs)
    for name in ("variance", "lengthscales", "noise_variance"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-3)
    if kind == "GPR":
        assert (report.evaluations, report.iterations) == (result.nfev, result.nit)


def test_training_on_many_splits_traces_once() -> None:
    traces = set()
    for seed in range(3):
        model = build("GPR", make_problem(seed, 20 + seed))
        assert maximise_likelihood(model, Budget()).status == "done"
        traces.add((id(compiled_loss(model)), compiled_loss(model).traces))
    assert len(traces) == 1
    assert next(iter(traces))[1] == 1


def test_fitc_improves(problem: Problem) -> None:
    model = build("GPRFITC", problem)
    before = float(model.training_loss())
    report = maximise_likelihood(model, Budget(evaluations=15))
    assert report.loss < before
    assert report.loss == pytest.approx(float(model.training_loss()), abs=1e-9)


@pytest.mark.parametrize("allowed", [1, 4])
def test_budget_ends_training_with_the_best_so_far(problem: Problem, allowed: int) -> None:
    model = build("GPR", problem)
    before = float(model.training_loss())
    budget = Budget(evaluations=allowed)
    report = maximise_likelihood(model, budget)
    assert report.status == "budget"
    assert report.reason == f"{allowed} evaluations used up"
    assert report.evaluations == budget.spent_evaluations == allowed
    assert report.loss <= before
    assert report.loss == pytest.approx(float(model.training_loss()), abs=1e-10)


def test_exhausted_budget_still_evaluates_the_start(problem: Problem) -> None:
    model = build("GPR", problem)
    report = maximise_likelihood(model, Budget(seconds=0.0))
    assert (report.status, report.evaluations, report.iterations) == ("budget", 1, 0)
    assert report.loss == pytest.approx(float(model.training_loss()))


def test_bounds_hold_and_bind(problem: Problem) -> None:
    free = build("GPR", problem)
    maximise_likelihood(free, Budget())
    bounded = build("GPR", problem)
    report = maximise_likelihood(bounded, Budget(), bounds={"variance": (0.5, 1.5), "noise_variance": (0.05, np.inf)})
    values = hyperparameters_of(bounded)
    assert hyperparameters_of(free).noise_variance < 0.05
    assert values.noise_variance == pytest.approx(0.05)
    assert 0.5 <= values.variance <= 1.5 * (1 + 1e-12)
    assert report.status == "done"


def test_start_is_moved_into_the_bounds(problem: Problem) -> None:
    model = build("GPR", problem)
    maximise_likelihood(model, Budget(evaluations=1), bounds={"lengthscales": (2.0, 3.0)})
    values = hyperparameters_of(model)
    assert values.lengthscales[0] == pytest.approx(2.0)
    assert values.variance == pytest.approx(START.variance)


def test_box_covers_every_lengthscale_and_leaves_unreachable_limits_open(problem: Problem) -> None:
    model = build_sgpr(*problem, problem[0][:2], ModelSpec(ard=True), START)
    box = unconstrained_box(model, {"lengthscales": (1.0, 2.0), "noise_variance": (0.0, 1.0)})
    bound = np.log(np.expm1([1.0, 2.0]))
    # Flat order: Z [2, 2], lengthscales [2], variance, noise variance.
    np.testing.assert_allclose(box.lb, [*[-np.inf] * 4, bound[0], bound[0], -np.inf, -np.inf])
    np.testing.assert_allclose(box.ub[:7], [*[np.inf] * 4, bound[1], bound[1], np.inf])
    assert np.isfinite(box.ub[7])


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"lengthscale": (1.0, 2.0)}, "unknown hyperparameter 'lengthscale'"),
        ({"variance": (2.0, 1.0)}, "empty interval"),
        ({"variance": (np.nan, 1.0)}, "empty interval"),
        ({"noise_variance": (1e-9, 1e-8)}, "cannot take any value"),
    ],
)
def test_wrong_bounds_are_refused(problem: Problem, bounds: dict[str, tuple[float, float]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        maximise_likelihood(build("GPR", problem), Budget(), bounds=bounds)


def test_start_without_likelihood_is_diverged(problem: Problem) -> None:
    X, Y = problem
    values = Hyperparameters(variance=1e12, lengthscales=(1e3,), noise_variance=1e-9)
    model = build_gpr(X, Y, ModelSpec(noise_floor=0.0), values)
    report = maximise_likelihood(model, Budget())
    assert report.status == "diverged"
    assert "start is not finite: Hyperparameters(variance=" in report.reason
    assert report.loss == np.inf
    assert hyperparameters_of(model).variance == pytest.approx(values.variance)


def run_search(objective, start: float):
    return search_module.minimise(objective, np.array([start]), Budget(evaluations=200))


def test_steps_to_a_non_finite_loss_are_rejected() -> None:
    def objective(x):
        # Minimum at 1; nothing exists beyond 1.05, where the first step from 0.9, of length 1, lands.
        if x[0] > 1.05:
            return np.nan, np.array([np.nan])
        return float(np.cosh(x[0] - 1.0)), np.sinh(x - 1.0)

    report = run_search(objective, 0.9)
    assert report.failures
    assert report.status == "done"
    assert report.point == pytest.approx(np.array([1.0]), abs=1e-4)


@pytest.mark.parametrize("start", [0.0, -0.3, -4.0])
def test_a_wall_of_non_finite_loss_is_diverged(start: float) -> None:
    def objective(x):
        return (float(-x[0]), np.array([-1.0])) if x[0] <= 0.0 else (np.nan, np.array([np.nan]))

    report = run_search(objective, start)
    assert report.status == "diverged"
    assert "non-finite steps" in report.reason
    assert -0.1 < report.point[0] <= 0.0
    assert report.loss == -report.point[0]


def test_non_finite_gradient_is_rejected_too() -> None:
    report = run_search(lambda x: (1.0, np.array([np.inf])), 0.0)
    assert (report.status, report.evaluations) == ("diverged", 1)


def test_stalled_line_search_counts_as_converged_at_small_slope_only() -> None:
    stalled = OptimizeResult(status=2, message="ABNORMAL")  # type: ignore[call-arg]
    for slope, status in ((1e-6, "done"), (1.0, "diverged")):
        search = search_module.RecordedLoss(lambda x, slope=slope: (5.0, np.array([slope])), Budget())
        search.evaluate(np.array([0.0]))
        assert search_module._conclude(search, stalled, None).status == status
    # At the edge of the box a gradient that pushes outwards does not count.
    assert search_module._conclude(search, stalled, Bounds([0.0], [9.0])).status == "done"


def test_iteration_limit_is_a_budget() -> None:
    search = search_module.RecordedLoss(lambda x: (5.0, np.array([1.0])), Budget())
    search.evaluate(np.array([0.0]))
    report = search_module._conclude(search, OptimizeResult(status=1, message="STOP"), None)  # type: ignore[call-arg]
    assert (report.status, report.message) == ("budget", "STOP")


OTHER = Hyperparameters(variance=0.4, lengthscales=(1.6,), noise_variance=0.05)


def build_with(kind: str, problem: Problem, values: Hyperparameters, count: int = 6):
    X, Y = problem
    if kind == "GPR":
        return build_gpr(X, Y, ModelSpec(), values)
    return {"SGPR": build_sgpr, "GPRFITC": build_fitc}[kind](X, Y, X[:count], ModelSpec(), values)


def eager_loss_and_gradient(model) -> tuple[float, Array]:
    with tf.GradientTape() as tape:
        loss = model.training_loss()
    gradient = tape.gradient(loss, model.trainable_variables)
    return float(loss), np.concatenate([np.ravel(part) for part in gradient])


@pytest.mark.parametrize("kind", ["GPR", "SGPR", "GPRFITC"])
def test_one_trace_serves_every_data_set_and_equals_gpflow(kind: str) -> None:
    shared = CompiledLoss(build_with(kind, make_problem(9), START))
    for seed, count, values in ((0, 25, START), (1, 40, OTHER), (2, 10, START)):
        model = build_with(kind, make_problem(seed, count), values)
        loss, gradient = shared.bind(model)(flatten(variables_of(model, trainable=True)))
        expected_loss, expected_gradient = eager_loss_and_gradient(model)
        assert loss == pytest.approx(expected_loss, rel=1e-12)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-9)
    assert shared.traces == 1


def test_two_models_can_take_turns() -> None:
    first, second = (build_with("SGPR", make_problem(seed), values) for seed, values in ((0, START), (1, OTHER)))
    for model in (first, second):
        gpflow.set_trainable(model.inducing_variable, False)
    assert compiled_loss(first) is compiled_loss(second)
    objectives = [compiled_loss(model).bind(model) for model in (first, second)]
    for _ in range(2):
        for model, objective in zip((first, second), objectives, strict=True):
            loss, gradient = objective(flatten(variables_of(model, trainable=True)))
            assert gradient.shape == (3,)
            assert loss == pytest.approx(float(model.training_loss()), rel=1e-12)


def test_the_model_itself_is_untouched(problem: Problem) -> None:
    model = build_with("GPR", problem, START)
    compiled_loss(model).bind(model)(np.array([1.0, 2.0, 3.0]))
    assert model.kernel.variance.numpy() == pytest.approx(START.variance)


def test_structures_do_not_share_a_function(problem: Problem) -> None:
    X, Y = problem
    models = [
        build_with("GPR", problem, START),
        build_gpr(X, Y, ModelSpec("matern32"), START),
        build_gpr(X, Y, ModelSpec(ard=True), START),
        build_gpr(X, Y, ModelSpec(noise_floor=1e-3), START),
        build_gpr(X[:, :1], Y, ModelSpec(), START),
        build_gpr(X, np.hstack([Y, Y]), ModelSpec(), START),
        build_with("SGPR", problem, START),
        build_with("SGPR", problem, START, count=7),
        build_with("GPRFITC", problem, START),
    ]
    fixed = build_with("GPR", problem, START)
    gpflow.set_trainable(fixed.likelihood, False)
    losses = [compiled_loss(model) for model in [*models, fixed]]
    assert len({id(loss) for loss in losses}) == len(losses)


def test_only_so_many_are_kept(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpflow_models, "_kept", {})
    monkeypatch.setattr(gpflow_models, "MAX_KEPT", 2)
    first, second, third = (build_with("SGPR", problem, START, count) for count in (2, 3, 4))
    oldest, newer = compiled_loss(first), compiled_loss(second)
    compiled_loss(third)
    assert compiled_loss(second) is newer
    assert compiled_loss(first) is not oldest


def test_no_likelihood_is_not_a_number(problem: Problem) -> None:
    X, Y = problem
    model = build_gpr(np.vstack([X, X]), np.vstack([Y, Y]), ModelSpec(noise_floor=0.0), START)
    loss, _ = compiled_loss(model).bind(model)(np.array([5.0, 30.0, -60.0]))
    assert not np.isfinite(loss)


def test_assign_inverts_flatten(problem: Problem) -> None:
    variables = variables_of(build_with("SGPR", problem, START), trainable=True)
    values = np.arange(15.0)
    assign(variables, values)
    assert np.array_equal(flatten(variables), values)


def test_priors_and_models_without_free_parameters_are_refused(problem: Problem) -> None:
    model = build_with("GPR", problem, START)
    gpflow.set_trainable(model, False)
    with pytest.raises(ValueError, match="no parameter is trainable"):
        compiled_loss(model)
    import tensorflow_probability as tfp

    model.kernel.variance.prior = tfp.distributions.LogNormal(np.float64(0.0), np.float64(1.0))
    with pytest.raises(ValueError, match="prior"):
        compiled_loss(model)
