from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.models.classification import training
from gpsuite.models.classification.approximation import BinaryProblem, NotConvergedError
from gpsuite.models.classification.links import LOGISTIC, PROBIT
from gpsuite.models.classification.softmax_laplace import MultiClassProblem
from gpsuite.models.classification.training import (
    INFERENCES,
    OWN_DATA,
    HyperPrior,
    StartOutsideBoxError,
    train_gpc,
    train_multiclass_gpc,
)
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.search import SCIPY_RULES
from tests.models.gpc_problems import two_classes

START = Hyperparameters(1.0, (1.0,))
BOTH = pytest.mark.parametrize("inference", ["laplace", "ep"])


@BOTH
def test_budget_counts_evaluations_and_more_of_them_are_no_worse(inference: str) -> None:
    X, y = two_classes(0, 50)
    values = []
    for limit in (1, 3, 10):
        budget = Budget(evaluations=limit)
        trained = train_gpc(BinaryProblem(X, y, ModelSpec(ard=True), PROBIT), inference, START, budget)
        assert (trained.evaluations, budget.spent_evaluations) == (limit, limit)
        assert (trained.status, trained.reason) == ("budget", f"{limit} evaluations used up")
        values.append(trained.fit.log_marginal_likelihood)
    assert values[0] < values[1] <= values[2]


@BOTH
@pytest.mark.parametrize("link", [PROBIT, LOGISTIC], ids=lambda link: link.name)
def test_optimum_has_no_slope_and_is_kept(inference: str, link: Any) -> None:
    X, y = two_classes(1, 60)
    trained = train_gpc(BinaryProblem(X, y, ModelSpec("matern52"), link), inference, START, Budget())
    assert trained.status == "done"
    assert np.abs(trained.fit.gradient).max() < 1e-3
    again = INFERENCES.get(inference)(BinaryProblem(X, y, ModelSpec("matern52"), link), trained.hyperparameters, None)
    assert again.log_marginal_likelihood == pytest.approx(trained.fit.log_marginal_likelihood, abs=1e-8)
    assert trained.fit.converged


def test_constant_inputs_keep_their_lengthscale() -> None:
    X, y = two_classes(2, 40, inputs=3)
    X[:, 1] = 0.25
    start = Hyperparameters(1.0, (1.3,), 0.5)
    trained = train_gpc(BinaryProblem(X, y, ModelSpec(ard=True), PROBIT), "ep", start, Budget(evaluations=8))
    lengths = trained.hyperparameters.lengthscales
    assert lengths[1] == pytest.approx(1.3, rel=1e-14)
    assert min(abs(lengths[j] - 1.3) for j in (0, 2)) > 1e-3
    assert trained.hyperparameters.noise_variance == pytest.approx(0.5)


def test_separable_data_stay_in_the_search_range() -> None:
    X = np.linspace(-1.0, 1.0, 20)[:, None]
    trained = train_gpc(BinaryProblem(X, np.sign(X[:, 0]), ModelSpec(), PROBIT), "ep", START, Budget(evaluations=60))
    assert trained.fit.converged
    assert trained.hyperparameters.variance <= 1e6 * (1.0 + 1e-9)


def test_steps_without_convergence_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = two_classes(0, 40)
    whole = train_gpc(BinaryProblem(X, y, ModelSpec(), PROBIT), "laplace", START, Budget(evaluations=10))
    limit = 1.0 + 0.2 * (whole.hyperparameters.variance - 1.0)
    infer = INFERENCES.get("laplace")

    def failing(problem, h, state):
        fit = infer(problem, h, state)
        object.__setattr__(fit, "converged", h.variance <= limit)
        return fit

    monkeypatch.setitem(INFERENCES._items, "laplace", failing)
    trained = train_gpc(BinaryProblem(X, y, ModelSpec(), PROBIT), "laplace", START, Budget(evaluations=10))
    assert trained.failed > 0
    assert 1.0 < trained.hyperparameters.variance <= limit
    assert trained.fit.converged


def test_start_without_convergence_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpsuite.models.classification.laplace.MAX_ITERATIONS", 1)
    X, y = two_classes(0)
    with pytest.raises(NotConvergedError, match="at the start"):
        train_gpc(BinaryProblem(X, y, ModelSpec(), PROBIT), "laplace", START, Budget())


def test_wrong_requests_are_refused() -> None:
    X, y = two_classes(0)
    with pytest.raises(UserError, match="Did you mean 'laplace'"):
        train_gpc(BinaryProblem(X, y, ModelSpec(), PROBIT), "laplac", START, Budget())
    with pytest.raises(StartOutsideBoxError, match="variance 1e\\+07 and lengthscales 1 to 1, outside of 1e-06 to"):
        train_gpc(BinaryProblem(X, y, ModelSpec(), PROBIT), "ep", Hyperparameters(1e7), Budget())


def test_training_needs_no_tensorflow() -> None:
    code = "import sys, gpsuite.models.classification.training; print('tensorflow' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


def test_the_box_of_the_search_holds_at_its_ends() -> None:
    """Variance and lengthscales from 1e-6 to 1e6, the variance up to what is asked for; its ends are inside."""
    problem = BinaryProblem(*two_classes(0, 12), ModelSpec(), PROBIT)
    one = {"problem": problem, "inference": "laplace", "budget": Budget(evaluations=1)}
    for start in (Hyperparameters(1e-6, (1e6,)), Hyperparameters(1e6, (1e-6,))):
        assert train_gpc(start=start, **one).hyperparameters.to_log() == pytest.approx(start.to_log())  # type: ignore[arg-type]
    for outside in (Hyperparameters(1.0, (1.1e6,)), Hyperparameters(1.0, (0.9e-6,)), Hyperparameters(0.9e-6)):
        with pytest.raises(StartOutsideBoxError):
            train_gpc(start=outside, **one)  # type: ignore[arg-type]
    train_gpc(start=Hyperparameters(3.0), largest_variance=3.0 * (1.0 + 1e-12), **one)  # type: ignore[arg-type]
    with pytest.raises(StartOutsideBoxError):
        train_gpc(start=Hyperparameters(3.1), largest_variance=3.0, **one)  # type: ignore[arg-type]


def test_the_largest_variance_binds() -> None:
    X = np.linspace(-1.0, 1.0, 20)[:, None]
    trained = train_gpc(
        BinaryProblem(X, np.sign(X[:, 0]), ModelSpec(), PROBIT), "ep", START, Budget(evaluations=30), 5.0
    )
    assert trained.hyperparameters.variance == pytest.approx(5.0)


def test_one_lengthscale_is_given_to_each_input() -> None:
    X, y = two_classes(0, 12, inputs=3)
    start = Hyperparameters(1.0, (0.7,))
    for ard, expected in ((True, (0.7, 0.7, 0.7)), (False, (0.7,))):
        spec = ModelSpec(ard=ard)
        trained = train_gpc(BinaryProblem(X, y, spec, PROBIT), "laplace", start, Budget(evaluations=1))
        assert trained.hyperparameters.lengthscales == pytest.approx(expected)


@BOTH
@pytest.mark.parametrize("seed", [0, 1])
def test_last_bits_of_the_inputs_do_not_choose_the_model(inference: str, seed: int) -> None:
    """Else what is trained depends on the machine; a first step into the box's corner moves Laplace's by 2 %."""
    X, y = two_classes(seed, 200, inputs=8)
    spec, start = ModelSpec(ard=True), Hyperparameters(1.0, (2.0,))
    found = [
        train_gpc(BinaryProblem(inputs, y, spec, PROBIT), inference, start, Budget(evaluations=25))
        for inputs in (X, X * (1.0 - 1e-15))
    ]
    ours, theirs = (each.hyperparameters.to_log() for each in found)
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("prior", [HyperPrior(0.5, spread=1.0), HyperPrior(2.0, 4.0, 0.5), HyperPrior(1.0)], ids=repr)
def test_a_priors_slope_is_that_of_its_density(prior: HyperPrior) -> None:
    rng = np.random.default_rng(0)
    theta, start, step = rng.normal(size=4), rng.normal(size=4), 1e-5
    value, slope = prior.log_density(theta, start)
    ends = [[prior.log_density(theta + sign * step * unit, start)[0] for unit in np.eye(4)] for sign in (-1.0, 1.0)]
    assert slope == pytest.approx((np.array(ends[1]) - ends[0]) / (2.0 * step), rel=1e-6, abs=1e-9)
    if np.isinf(prior.freedom):  # half-normal: the exponent of a normal density of sqrt(variance)
        off = ((theta - start)[1:] / prior.spread) ** 2
        assert value == pytest.approx(-0.5 * np.exp(theta[0]) / prior.amplitude**2 - 0.5 * off.sum())
    assert prior.log_density(theta, start)[0] <= prior.log_density(np.array([-50.0, *start[1:]]), start)[0]


@BOTH
def test_a_prior_keeps_the_variance_of_separable_data(inference: str) -> None:
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    problem = BinaryProblem(X, np.sign(X[:, 0]), ModelSpec(), PROBIT)
    free, kept = (train_gpc(problem, inference, START, Budget(evaluations=60), prior=p) for p in (None, OWN_DATA))
    assert kept.hyperparameters.variance < 20.0 < 500.0 < free.hyperparameters.variance
    assert kept.fit.converged and kept.status == "done"


@BOTH
def test_what_the_rough_search_from_few_rows_finds_is_the_maximum(
    inference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within 0.01 nats of a search on all rows to the last digits; what is returned has converged in full."""
    monkeypatch.setattr(training, "FIRST_ROWS", 40)
    X, y = two_classes(3, 120)
    problem = BinaryProblem(X, y, ModelSpec(ard=True), PROBIT)
    found = train_gpc(problem, inference, START, Budget(evaluations=40), prior=OWN_DATA)
    monkeypatch.setattr(training, "ROUGH_RULES", SCIPY_RULES)
    monkeypatch.setattr(training, "FIRST_ROWS", 1000)
    monkeypatch.setattr(training, "_ROUGH", {})
    best = train_gpc(problem, inference, START, Budget(evaluations=200), prior=OWN_DATA)
    start = Hyperparameters(1.0, (1.0,) * X.shape[1]).to_log()[:-1]
    values = [
        each.fit.log_marginal_likelihood + OWN_DATA.log_density(each.hyperparameters.to_log()[:-1], start)[0]
        for each in (found, best)
    ]
    assert values[1] - 0.01 < values[0] < values[1] + 1e-6
    again = INFERENCES.get(inference)(problem, found.hyperparameters, None)
    assert again.log_marginal_likelihood == pytest.approx(found.fit.log_marginal_likelihood, abs=1e-8)


def test_several_classes_have_the_prior_too() -> None:
    X = np.linspace(-1.0, 1.0, 45)[:, None]
    problem = MultiClassProblem(X, np.repeat([0, 1, 2], 15), 3, ModelSpec())
    free, kept = (train_multiclass_gpc(problem, START, Budget(evaluations=40), prior=p) for p in (None, OWN_DATA))
    assert kept.hyperparameters.variance < 20.0 < 100.0 < free.hyperparameters.variance
