import os
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search
from gpsuite.methods.pac_bayes.sparse import training
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective, SparseLikelihoodObjective
from gpsuite.methods.pac_bayes.sparse.training import (
    StagedSearch,
    TrainedSparseGP,
    minimise_in_stages,
    nested_subsets,
    train_sparse_gp,
    train_sparse_likelihood,
)
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.models.search import Objective
from tests.arrays import Array

M = 15
Train = Callable[[Search], TrainedSparseGP]
Value = Callable[[TrainedSparseGP], float]


@pytest.fixture
def three_stages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(training, "LEAST_ROWS", 50)
    yield


def data(n: int = 950) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


def trainings(X: Array, y: Array) -> dict[str, tuple[Train, Value]]:
    """Return, by name, how to train and the objective on all rows at what was trained."""
    problem, Z = RiskProblem(X, y, BandLoss(0.2), 0.01), X[:M]

    def bound_at(fit: TrainedSparseGP) -> float:
        theta = fit.gp.hyperparameters.to_log()
        return SparseGPObjective(problem, 1.0, M).value_and_gradient(theta, fit.Z)[0]

    def vfe_at(fit: TrainedSparseGP) -> float:
        theta = fit.gp.hyperparameters.to_log()
        return SparseLikelihoodObjective(X, y, True, "vfe", M).value_and_gradient(theta, fit.Z)[0]

    return {
        "kl": (partial(train_sparse_gp, problem, Z, 1.0), bound_at),
        "vfe": (partial(train_sparse_likelihood, X, y, Z, "vfe", True), vfe_at),
    }


@pytest.mark.usefixtures("three_stages")
@pytest.mark.parametrize("name", ["kl", "vfe"])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9])
def test_wherever_the_budget_ends_the_value_is_that_of_all_rows_and_within_the_budget(name: str, limit: int) -> None:
    train, value_at = trainings(*data())[name]
    start = train(StagedSearch(Budget(evaluations=1)))
    told: list[float] = []
    budget = Budget(evaluations=limit, observer=lambda budget: told.append(budget.best))
    fit = train(StagedSearch(budget))
    assert fit.gp.objective_value == pytest.approx(value_at(fit), rel=1e-9)
    assert fit.gp.objective_value <= start.gp.objective_value
    assert limit < 3 or fit.gp.objective_value < start.gp.objective_value
    assert told[-1] == fit.gp.objective_value  # never the value of a subset
    assert (fit.gp.status, fit.gp.reason) == ("budget", f"{limit} evaluations used up")
    assert fit.gp.evaluations <= limit
    assert budget.spent_evaluations <= limit


@pytest.mark.usefixtures("three_stages")
@pytest.mark.parametrize("name", ["kl", "vfe"])
def test_at_equal_cost_it_ends_below_the_published_search(name: str) -> None:
    train, _ = trainings(*data())[name]
    staged, published = (train(kind(Budget(evaluations=30))).gp.objective_value for kind in (StagedSearch, Search))
    assert staged < published


@pytest.mark.usefixtures("three_stages")
def test_it_ends_by_itself_near_a_stationary_point() -> None:
    X, y = data()
    fit = trainings(X, y)["vfe"][0](StagedSearch(Budget(evaluations=2000)))
    further = train_sparse_likelihood(
        X, y, fit.Z, "vfe", True, Search(Budget(evaluations=300), fit.gp.hyperparameters, "log")
    )
    assert (fit.gp.status, fit.gp.reason) == ("done", "")
    assert fit.gp.evaluations < 300
    assert further.gp.objective_value > fit.gp.objective_value - 0.002 * len(y)


def test_subsets_are_nested_and_small_ones_left_out() -> None:
    assert list(nested_subsets(7_999)) == []
    ((rows, iterations),) = nested_subsets(8_000)
    assert (len(rows), iterations) == (2_000, 200)
    (few, _), (more, _) = nested_subsets(32_000)
    assert (len(few), len(more), len(set(more))) == (2_000, 8_000, 8_000)
    assert set(few) < set(more)
    assert max(more) < 32_000


def search_of(objective: Objective, coarse: Callable[[Array], Objective], budget: Budget) -> Array:
    """Minimise over (variance, lengthscale, noise, one inducing input); return the end."""
    return minimise_in_stages(objective, coarse, 800, 3, np.zeros(4), StagedSearch(budget)).point


def bowl(centre: float) -> Objective:
    return lambda x: (float((x - centre) @ (x - centre)), 2.0 * (x - centre))


@pytest.mark.usefixtures("three_stages")
def test_a_subset_that_leads_astray_does_not_raise_the_value() -> None:
    # all rows have their minimum near the start, the subsets far away; one evaluation is left for the end
    budget = Budget(evaluations=2)
    end = search_of(bowl(0.01), lambda rows: bowl(3.0), budget)
    assert bowl(0.01)(end)[0] <= bowl(0.01)(np.zeros(4))[0]


@pytest.mark.usefixtures("three_stages")
def test_a_subset_without_a_value_is_passed_over() -> None:
    def fails(x: Array) -> tuple[float, Array]:
        raise NotPositiveDefiniteError("no")

    end = search_of(bowl(0.5), lambda rows: fails, Budget(evaluations=50))
    np.testing.assert_allclose(end, 0.5, atol=1e-6)


def test_without_a_value_at_the_start_it_has_diverged() -> None:
    def fails(x: Array) -> tuple[float, Array]:
        raise NotPositiveDefiniteError("no factor")

    for objective, reason in ((fails, "no factor"), (lambda x: (np.nan, x), "not finite")):
        found = minimise_in_stages(objective, lambda rows: fails, 10, 3, np.zeros(4), StagedSearch(Budget()))
        assert found.status == "diverged"
        assert reason in found.reason


@pytest.mark.usefixtures("three_stages")
def test_seconds_end_it_with_a_value_on_all_rows() -> None:
    train, value_at = trainings(*data())["kl"]
    fit = train(StagedSearch(Budget(seconds=0.05)))
    assert fit.gp.status == "budget"
    assert fit.gp.objective_value == pytest.approx(value_at(fit), rel=1e-9)


@pytest.mark.usefixtures("three_stages")
def test_seconds_that_end_in_a_subset_leave_the_start() -> None:
    budget = Budget(seconds=60.0)

    def late(x: Array) -> tuple[float, Array]:
        budget.started -= 61.0  # as if this evaluation had taken so long
        return bowl(3.0)(x)

    np.testing.assert_array_equal(search_of(bowl(0.01), lambda rows: late, budget), 0.0)


@pytest.mark.slow
def test_pol_reaches_the_published_bound_within_75_evaluations() -> None:
    from gpsuite.config.request import read_request
    from gpsuite.errors import DataError
    from gpsuite.experiments.base import EXPERIMENTS, SharedWork
    from gpsuite.experiments.pac_bayes.fits import read_split, training_of
    from gpsuite.experiments.pac_bayes.training import first_inducing

    if not os.environ.get("GPSUITE_DATA_PATH"):
        pytest.skip("pol is not in GPSUITE_DATA_PATH")
    words = ["experiment=pac_bayes/inducing_pol", "methods=[kl_pac_sgp]", "inducing=[100]", "other_kernel=[]"]
    try:
        request, _ = read_request([*words, "repetitions=1"])
    except DataError:
        pytest.skip("pol is not in GPSUITE_DATA_PATH")
    (task,) = EXPERIMENTS.get(request.experiment).plan(request)
    split = read_split(task.require_dataset(), task.params)
    Z, _ = first_inducing(training_of(task.params, split, None, SharedWork()), 100, 0, Budget())
    problem = RiskProblem(split.X, split.y, BandLoss(0.6), 0.01)
    fit = train_sparse_gp(problem, Z, 1.0, StagedSearch(Budget(evaluations=75)))
    assert fit.gp.objective_value <= 0.0959
    assert fit.gp.evaluations <= 75
