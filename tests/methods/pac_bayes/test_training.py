from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective, train_full_gp
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
from gpsuite.methods.pac_bayes.problem import PARAMETRISATIONS, RiskProblem, Search
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import train_sparse_gp
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import NotPositiveDefiniteError
from tests.arrays import Array

Data = tuple[Array, Array]
LOSS = BandLoss(0.6)
# Published single-start runs of the authors' method: (seed, epsilon, objective, upper_bound_kl, MSE_test)
BOSTON_RUNS = [
    (0, 0.2, "kl", 0.7608353548537412, 0.24567849299931926),
    (6, 0.2, "sqrt", 0.864215356310192, None),
    (3, 0.6, "sqrt", 0.3470467657982286, None),
]


@pytest.mark.parametrize("name", list(PARAMETRISATIONS))
def test_search_variables_round_trip_and_have_the_right_slope(name: str) -> None:
    search = PARAMETRISATIONS.get(name)
    theta = np.array([-6.0, -1.0, 0.0, 3.0, 6.0])
    u = search.from_log(theta)
    back, slope = search.to_log(u)
    np.testing.assert_allclose(back, theta, atol=1e-12)
    h = 1e-4
    difference = (search.to_log(u + h)[0] - search.to_log(u - h)[0]) / (2.0 * h)
    np.testing.assert_allclose(slope, difference, rtol=1e-6)


@pytest.mark.parametrize("parametrisation", list(PARAMETRISATIONS))
@pytest.mark.parametrize("objective", ["kl", "sqrt"])
def test_training_reaches_a_stationary_point(small_data: Data, objective: str, parametrisation: str) -> None:
    trained = train_full_gp(
        RiskProblem(*small_data, LOSS, 0.01, objective, False), Search(Budget(evaluations=500), None, parametrisation)
    )
    bound = FullGPObjective(RiskProblem(*small_data, LOSS, 0.01, objective, False))
    value, gradient, _ = bound.value_and_gradient(trained.hyperparameters.to_log())
    assert (trained.status, trained.reason) == ("done", "")
    assert value == pytest.approx(trained.objective_value, rel=1e-12)
    assert value < bound.value_and_gradient(np.zeros(3))[0] - 0.01
    assert np.abs(gradient).max() < 1e-3
    assert trained.rounded.noise_variance == trained.hyperparameters.noise_variance


def test_budget_ends_the_search_with_the_best_so_far(small_data: Data) -> None:
    budget = Budget(evaluations=4)
    trained = train_full_gp(RiskProblem(*small_data, LOSS, 0.01), Search(budget))
    start = FullGPObjective(RiskProblem(*small_data, LOSS, 0.01)).value_and_gradient(np.zeros(5))[0]
    assert trained.status == "budget"
    assert trained.reason == "4 evaluations used up"
    assert trained.evaluations == budget.spent_evaluations == 4
    assert trained.objective_value <= start


def test_start_must_have_as_many_lengthscales_as_asked(small_data: Data) -> None:
    with pytest.raises(ValueError, match="start has 1 lengthscales, expected 3"):
        train_full_gp(RiskProblem(*small_data, LOSS, 0.01), Search(Budget(), Hyperparameters(1.0, (1.0,), 1.0)))


def test_line_search_steps_back_from_failures() -> None:
    def objective(x: Array) -> tuple[float, Array]:
        if x[0] < 0.5:
            raise NotPositiveDefiniteError("no factor")
        return float((x[0] - 0.6) ** 2 * 50.0), 100.0 * (x - 0.6)

    found = Search(Budget(evaluations=100)).run(objective, np.array([3.0]), [(-np.inf, np.inf)])
    assert found.status == "done"
    assert found.point[0] == pytest.approx(0.6, abs=1e-4)


@pytest.mark.parametrize("failure", ["raises", "nan"])
def test_no_finite_value_is_reported_as_diverged(failure: str) -> None:
    def objective(x: Array) -> tuple[float, Array]:
        if failure == "raises":
            raise NotPositiveDefiniteError("no factor")
        return np.nan, x

    found = Search(Budget(evaluations=10)).run(objective, np.zeros(2), [(-1.0, 1.0)] * 2)
    assert found.status == "diverged"
    assert found.loss == np.inf
    assert "evaluations failed" in found.reason


def _boston(seed: int) -> tuple[Array, Array, Array, Array]:
    folders = [Path(p) for p in os.environ.get("GPSUITE_DATA_PATH", "").split(os.pathsep) if p]
    files = [f / "boston" / "housing.data" for f in folders if (f / "boston" / "housing.data").exists()]
    if not files:
        pytest.skip("boston/housing.data is not in GPSUITE_DATA_PATH")
    from sklearn.model_selection import train_test_split

    rows = np.loadtxt(files[0])
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    train, test = train_test_split(rows, random_state=seed, test_size=0.2)
    return train[:, :13], train[:, 13], test[:, :13], test[:, 13]


@pytest.mark.parametrize(("seed", "epsilon", "objective", "bound", "mse"), BOSTON_RUNS)
def test_single_starts_on_boston_repeat_the_authors_runs(
    seed: int, epsilon: float, objective: str, bound: float, mse: float | None
) -> None:
    X, y, Xtest, ytest = _boston(seed)
    loss = BandLoss(epsilon)
    trained = train_full_gp(RiskProblem(X, y, loss, 0.01, objective, False), Search(Budget(evaluations=1000)))
    evaluation = evaluate(FullGPPosterior.fit(trained.rounded, X, y), Xtest, ytest, loss, 0.01)
    assert evaluation.bound_kl == pytest.approx(bound, abs=1e-5)
    if mse is not None:
        assert evaluation.mse_test == pytest.approx(mse, abs=1e-3)


HERE = Path(__file__).parents[3] / "reference"
REFERENCE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "pac_bayes.json"


@pytest.mark.parametrize("parametrisation", ["softplus", "log"])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_training_moves_the_inducing_inputs_and_the_certificate_holds_the_bound(
    small_data: Data, alpha: float, parametrisation: str
) -> None:
    X, y = small_data
    start = X[:6]
    trained = train_sparse_gp(
        RiskProblem(X, y, LOSS, 0.01, ard=False), start, alpha, Search(Budget(evaluations=150), None, parametrisation)
    )
    bound = SparseGPObjective(RiskProblem(X, y, LOSS, 0.01, ard=False), alpha, 6)
    before = bound.value_and_gradient(np.zeros(3), start)[0]
    after = bound.value_and_gradient(trained.gp.hyperparameters.to_log(), trained.Z)[0]
    assert after == pytest.approx(trained.gp.objective_value, rel=1e-12)
    assert after < before - 0.05
    assert np.abs(trained.Z - start).max() > 0.05
    assert (trained.alpha, trained.jitter) == (alpha, 0.0)
    posterior = SparseGPPosterior.fit(trained.gp.rounded, X, y, trained.Z, alpha)
    assert evaluate(posterior, X, y, LOSS, 0.01).bound_kl == pytest.approx(after, abs=1e-4)


def test_sparse_training_reaches_a_stationary_point(small_data: Data) -> None:
    X, y = small_data
    trained = train_sparse_gp(
        RiskProblem(X, y, LOSS, 0.01, "sqrt", False), X[:3], 1.0, Search(Budget(evaluations=1000))
    )
    assert trained.gp.status == "done"
    bound = SparseGPObjective(RiskProblem(X, y, LOSS, 0.01, "sqrt", False), 1.0, 3)
    _, d_theta, d_Z, _ = bound.value_and_gradient(trained.gp.hyperparameters.to_log(), trained.Z)
    assert max(np.abs(d_theta).max(), np.abs(d_Z).max()) < 1e-3


def test_budget_ends_a_sparse_search_with_the_best_so_far(small_data: Data) -> None:
    X, y = small_data
    trained = train_sparse_gp(RiskProblem(X, y, LOSS, 0.01), X[:5], 1.0, Search(Budget(evaluations=3)))
    assert (trained.gp.status, trained.gp.evaluations) == ("budget", 3)
    assert trained.Z.shape == (5, 3)


def test_coinciding_inducing_inputs_are_separated_by_no_error(small_data: Data) -> None:
    X, y = small_data
    start = np.repeat(X[:1], 4, axis=0)
    trained = train_sparse_gp(RiskProblem(X, y, LOSS, 0.01, ard=False), start, 1.0, Search(Budget(evaluations=20)))
    assert trained.gp.status in ("done", "budget")
    assert np.isfinite(trained.gp.objective_value)
    assert trained.jitter > 0.0


def test_rejects_a_start_that_does_not_fit(small_data: Data) -> None:
    X, y = small_data
    with pytest.raises(ValueError, match="start has 1 lengthscales, expected 3"):
        train_sparse_gp(RiskProblem(X, y, LOSS, 0.01), X[:4], 1.0, Search(Budget(), Hyperparameters(1.0, (1.0,), 1.0)))
    with pytest.raises(ValueError, match=r"expected Z \[M, 3\]"):
        train_sparse_gp(RiskProblem(X, y, LOSS, 0.01), X[:4, :2], 1.0, Search(Budget()))


def _snelson() -> tuple[Array, Array, list[dict[str, Any]]]:
    folders = [Path(p) / "snelson" for p in os.environ.get("GPSUITE_DATA_PATH", "").split(os.pathsep) if p]
    folders = [folder for folder in folders if (folder / "train_inputs").exists()]
    if not folders or not REFERENCE.exists():
        pytest.skip("snelson/train_inputs is not in GPSUITE_DATA_PATH, or pac_bayes.json is missing")
    runs = json.loads(REFERENCE.read_text(encoding="utf-8")).get("trained_snelson", {}).get("results", [])
    X = np.loadtxt(folders[0] / "train_inputs").reshape(-1, 1)
    return X, np.loadtxt(folders[0] / "train_outputs"), runs


@pytest.mark.reference
@pytest.mark.parametrize("epsilon", [0.4275, 0.855, 1.14])
def test_single_starts_on_snelson_repeat_the_authors_runs(epsilon: float) -> None:
    # Elsewhere the authors' inducing inputs come close to each other, where their jitter understates the KL.
    X, y, runs = _snelson()
    runs = [r for r in runs if abs(r["epsilon"] - epsilon) < 1e-9 and not r["standardised"]]
    if not runs:
        pytest.skip(f"pac_bayes.json holds no run at epsilon {epsilon}")
    run = runs[0]
    loss, start = BandLoss(epsilon), np.array(run["Z_init"])
    trained = train_sparse_gp(RiskProblem(X, y, loss, 0.01, ard=False), start, 1.0, Search(Budget(evaluations=1000)))
    posterior = SparseGPPosterior.fit(trained.gp.rounded, X, y, trained.Z, 1.0)
    assert evaluate(posterior, X, y, loss, 0.01).bound_kl == pytest.approx(run["upper_bound_kl"], abs=2e-4)
