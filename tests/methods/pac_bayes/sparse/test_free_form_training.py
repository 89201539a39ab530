import itertools
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import se_kernel
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search
from gpsuite.methods.pac_bayes.sparse.free_form import (
    FreeFormObjective,
    FreeFormPosterior,
    TrainedFreeForm,
    train_free_form,
)
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.methods.pac_bayes.sparse.training import train_sparse_gp
from gpsuite.models.config import Hyperparameters
from tests.arrays import Array

Data = tuple[Array, Array]
LOSS = BandLoss(0.6)
EPSILON = float(np.finfo(float).eps)


def condition(end: TrainedFreeForm) -> float:
    """Return the condition number of K_ZZ where a search ended."""
    return float(np.linalg.cond(se_kernel(end.Z, end.Z, end.gp.hyperparameters)))


@pytest.mark.parametrize("parametrisation", ["softplus", "log"])
@pytest.mark.parametrize(("ard", "alpha"), [(True, 1.0), (False, 0.0)])
def test_training_starts_at_the_tied_bound_and_goes_below(
    small_data: Data, ard: bool, alpha: float, parametrisation: str
) -> None:
    X, y = small_data
    Z = X[:5]
    start = Hyperparameters(1.0, (1.5,) * (3 if ard else 1), 0.3)
    problem = RiskProblem(X, y, LOSS, 0.01, ard=ard)
    before = SparseGPObjective(problem, alpha, 5).value_and_gradient(start.to_log(), Z)[0]

    def trained_in(evaluations: int) -> TrainedFreeForm:
        return train_free_form(
            problem, Z, alpha, Search(Budget(evaluations=evaluations), start, parametrisation)
        )

    at_start = trained_in(1)
    assert at_start.gp.objective_value == pytest.approx(before, rel=1e-10)
    trained = trained_in(150)
    assert trained.gp.objective_value < before - 0.02
    short = trained_in(20)
    for end in (short, trained):
        free = FreeFormObjective(problem, 5)
        free.jitter = end.jitter
        value = free.value_and_gradient(end.gp.hyperparameters.to_log()[:-1], end.Z, end.gaussian)[0]
        # the longer search brings two inducing inputs close to each other: digits are lost with K_ZZ's condition
        assert value == pytest.approx(end.gp.objective_value, rel=EPSILON * condition(end))
    assert trained.gp.hyperparameters.noise_variance == pytest.approx(0.3, rel=1e-14)
    posterior = FreeFormPosterior.carry(trained.gp.rounded, X, y, trained.Z, trained.gaussian, trained.jitter)
    assert evaluate(posterior, X, y, LOSS, 0.01).bound_kl == pytest.approx(
        trained.gp.objective_value, abs=2e-3
    )


def test_a_jitter_that_only_a_worse_trial_needed_is_not_reported(
    small_data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the whitened posterior means depends on the jitter: it must be the one the best value was found with."""
    inner, count = FreeFormObjective.value_and_gradient, itertools.count(1)

    def later_larger(self: FreeFormObjective, *point: Any) -> Any:
        last = next(count) == 6
        self.jitter = 1e-4 if last else self.jitter
        value, *rest = inner(self, *point)
        return value + last, *rest

    monkeypatch.setattr(FreeFormObjective, "value_and_gradient", later_larger)
    X, y = small_data
    trained = train_free_form(
        RiskProblem(X, y, LOSS, 0.01, ard=False), X[:5], 1.0, Search(Budget(evaluations=6))
    )
    assert next(count) == 7 and trained.jitter == 0.0


def test_training_improves_on_trained_fitc_and_ends_where_the_gradient_vanishes(small_data: Data) -> None:
    X, y = small_data
    fitc = train_sparse_gp(
        RiskProblem(X, y, LOSS, 0.01, "sqrt", False), X[:3], 1.0, Search(Budget(evaluations=1000))
    )
    start = fitc.gp.hyperparameters
    trained = train_free_form(
        RiskProblem(X, y, LOSS, 0.01, "sqrt", False), fitc.Z, 1.0, Search(Budget(evaluations=1000), start)
    )
    assert trained.gp.status == "done"
    assert trained.gp.objective_value < fitc.gp.objective_value - 1e-4
    free = FreeFormObjective(RiskProblem(X, y, LOSS, 0.01, "sqrt", False), 3)
    theta = trained.gp.hyperparameters.to_log()[:-1]
    _, gradient, _ = free.value_and_gradient(theta, trained.Z, trained.gaussian)
    parts = (gradient.d_theta, gradient.d_Z, gradient.d_mean, gradient.d_factor)
    assert max(np.abs(part).max() for part in parts) < 1e-3


def test_coinciding_inducing_inputs_are_no_error(small_data: Data) -> None:
    X, y = small_data
    Z = np.repeat(X[:1], 3, axis=0)
    trained = train_free_form(
        RiskProblem(X, y, LOSS, 0.01, ard=False), Z, 1.0, Search(Budget(evaluations=10))
    )
    assert np.isfinite(trained.gp.objective_value)
    assert trained.jitter > 0.0


def test_rejects_a_start_that_does_not_fit(small_data: Data) -> None:
    X, y = small_data
    with pytest.raises(ValueError, match="start has 1 lengthscales, expected 3"):
        train_free_form(
            RiskProblem(X, y, LOSS, 0.01),
            X[:4],
            1.0,
            Search(Budget(evaluations=1), Hyperparameters(1.0, (1.0,), 1.0)),
        )
    with pytest.raises(ValueError, match=r"expected Z \[M, 3\]"):
        train_free_form(
            RiskProblem(X, y, LOSS, 0.01, ard=False), X[:4, :2], 1.0, Search(Budget(evaluations=1))
        )
