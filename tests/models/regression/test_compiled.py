from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf

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
    variables_of,
)
from tests.arrays import Array
from tests.models.regression_problems import START, make_problem

Problem = tuple[Array, Array]
OTHER = Hyperparameters(variance=0.4, lengthscales=(1.6,), noise_variance=0.05)


def build(kind: str, problem: Problem, values: Hyperparameters, count: int = 6):
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
    shared = CompiledLoss(build(kind, make_problem(9), START))
    for seed, count, values in ((0, 25, START), (1, 40, OTHER), (2, 10, START)):
        model = build(kind, make_problem(seed, count), values)
        loss, gradient = shared.bind(model)(flatten(variables_of(model, trainable=True)))
        expected_loss, expected_gradient = eager_loss_and_gradient(model)
        assert loss == pytest.approx(expected_loss, rel=1e-12)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-8, atol=1e-9)
    assert shared.traces == 1


def test_two_models_can_take_turns() -> None:
    first, second = (build("SGPR", make_problem(seed), values) for seed, values in ((0, START), (1, OTHER)))
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
    model = build("GPR", problem, START)
    compiled_loss(model).bind(model)(np.array([1.0, 2.0, 3.0]))
    assert model.kernel.variance.numpy() == pytest.approx(START.variance)


def test_structures_do_not_share_a_function(problem: Problem) -> None:
    X, Y = problem
    models = [
        build("GPR", problem, START),
        build_gpr(X, Y, ModelSpec("matern32"), START),
        build_gpr(X, Y, ModelSpec(ard=True), START),
        build_gpr(X, Y, ModelSpec(noise_floor=1e-3), START),
        build_gpr(X[:, :1], Y, ModelSpec(), START),
        build_gpr(X, np.hstack([Y, Y]), ModelSpec(), START),
        build("SGPR", problem, START),
        build("SGPR", problem, START, count=7),
        build("GPRFITC", problem, START),
    ]
    fixed = build("GPR", problem, START)
    gpflow.set_trainable(fixed.likelihood, False)
    losses = [compiled_loss(model) for model in [*models, fixed]]
    assert len({id(loss) for loss in losses}) == len(losses)


def test_only_so_many_are_kept(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpflow_models, "_kept", {})
    monkeypatch.setattr(gpflow_models, "MAX_KEPT", 2)
    first, second, third = (build("SGPR", problem, START, count) for count in (2, 3, 4))
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
    variables = variables_of(build("SGPR", problem, START), trainable=True)
    values = np.arange(15.0)
    assign(variables, values)
    assert np.array_equal(flatten(variables), values)


def test_priors_and_models_without_free_parameters_are_refused(problem: Problem) -> None:
    model = build("GPR", problem, START)
    gpflow.set_trainable(model, False)
    with pytest.raises(ValueError, match="no parameter is trainable"):
        compiled_loss(model)
    import tensorflow_probability as tfp

    model.kernel.variance.prior = tfp.distributions.LogNormal(np.float64(0.0), np.float64(1.0))
    with pytest.raises(ValueError, match="prior"):
        compiled_loss(model)
