"""Arrays nobody can learn from are refused in words; odd but sound ones give finite numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.pac_bayes.bounds import Terms, certify
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.full_gp import train_full_gp
from gpsuite.methods.pac_bayes.losses import LOSSES, BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior, RiskAndKL
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.methods.pac_bayes.sparse.training import train_sparse_gp, train_sparse_likelihood
from gpsuite.models.config import Hyperparameters

RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=30)
Z = X[:4]
LOSS = BandLoss(0.6)
ON_GRID = Hyperparameters(1.0, (1.0, 1.0), 1.0)


def changed(array: FloatArray, value: float) -> FloatArray:
    copy = array.copy()
    copy.flat[3] = value
    return copy


def full(X: FloatArray, y: FloatArray) -> float:
    return train_full_gp(RiskProblem(X, y, LOSS, 0.01), Search(Budget(evaluations=30))).objective_value


def sparse(X: FloatArray, y: FloatArray, Z: FloatArray = Z, delta: float = 0.01) -> float:
    budget = Budget(evaluations=30)
    return train_sparse_gp(RiskProblem(X, y, LOSS, delta), Z, 1.0, Search(budget)).gp.objective_value


def vfe(X: FloatArray, y: FloatArray, Z: FloatArray = Z) -> float:
    budget = Budget(evaluations=30)
    return train_sparse_likelihood(X, y, Z, "vfe", True, Search(budget)).gp.objective_value


def fitc(X: FloatArray, y: FloatArray, Z: FloatArray = Z) -> float:
    budget = Budget(evaluations=30)
    return train_sparse_likelihood(X, y, Z, "fitc", True, Search(budget)).gp.objective_value


def full_bound(X: FloatArray, y: FloatArray) -> float:
    posterior = FullGPPosterior.fit(Hyperparameters(1.0, (1.0,), 1.0), X, y)
    return evaluate(posterior, X, y, LOSS, 0.01).bound_kl


def sparse_bound(X: FloatArray, y: FloatArray) -> float:
    posterior = SparseGPPosterior.fit(Hyperparameters(1.0, (1.0,), 1.0), X, y, Z, 1.0)
    return evaluate(posterior, X, y, LOSS, 0.01).bound_kl


LEARNERS = [full, sparse, vfe, fitc, full_bound, sparse_bound]

REFUSED = {
    "NaN input": (changed(X, math.nan), Y, "finite"),
    "infinite target": (X, changed(Y, math.inf), "finite"),
    "target too large": (X, changed(Y, 1e200), "Standardise"),
    "input too large": (changed(X, -1e200), Y, "Standardise"),
    "fewer targets": (X, Y[:-1], r"\(30, 2\) and \(29,\)"),
    "targets as a column": (X, Y[:, None], r"\(30, 1\)"),
    "one input as a vector": (X[:, 0], Y, r"\(30,\)"),
    "no rows": (X[:0], Y[:0], "N, D >= 1"),
    "no inputs": (X[:, :0], Y, "N, D >= 1"),
}


@pytest.mark.parametrize("learn", LEARNERS)
@pytest.mark.parametrize("name", REFUSED)
def test_impossible_data_are_refused(learn: Callable[[FloatArray, FloatArray], float], name: str) -> None:
    X, y, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        learn(X, y)


SOUND = {
    "one row": (X[:1], Y[:1]),
    "constant target": (X, np.ones(30)),
    "constant inputs": (np.ones((30, 2)), Y),
    "duplicates": (np.repeat(X[:5], 6, axis=0), np.repeat(Y[:5], 6)),
    "duplicates that disagree": (np.repeat(X[:5], 6, axis=0), Y),
    "tiny values": (X * 1e-200, Y * 1e-200),
    "far from 0": (X + 1e8, Y),
}


@pytest.mark.parametrize("learn", LEARNERS)
@pytest.mark.parametrize("name", SOUND)
def test_odd_data_give_finite_numbers(learn: Callable[[FloatArray, FloatArray], float], name: str) -> None:
    found = learn(*SOUND[name])
    assert math.isfinite(found)
    if learn not in (vfe, fitc):
        assert 0.0 < found <= 1.0


@pytest.mark.parametrize(
    "posterior", [FullGPPosterior.fit(ON_GRID, X, Y), SparseGPPosterior.fit(ON_GRID, X, Y, Z, 1.0)]
)
@pytest.mark.parametrize("inputs", [X[:, :1], X[:, 0], np.hstack([X, X])], ids=["too few", "vector", "too many"])
def test_test_inputs_must_be_like_the_training_inputs(posterior: Posterior, inputs: FloatArray) -> None:
    """One column would broadcast over two lengthscales and give numbers."""
    with pytest.raises(ValueError, match=r"expected (new inputs|X) \["):
        evaluate(posterior, inputs, Y, LOSS, 0.01)
    with pytest.raises(ValueError, match=r"expected new inputs \[N', 2\]"):
        posterior.predict(inputs)


@pytest.mark.parametrize("learn", [sparse, vfe, fitc])
@pytest.mark.parametrize(
    ("inducing", "words"),
    [
        (np.full((3, 2), np.nan), "Z must be finite"),
        (X[:3, :1], r"expected Z \[M, 2\]"),
        (X[:, 0], r"expected Z \[M, 2\]"),
        (X[:0], "at least 1|M >= 1"),
    ],
)
def test_impossible_inducing_inputs_are_refused(
    learn: Callable[[FloatArray, FloatArray, FloatArray], float], inducing: FloatArray, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        learn(X, Y, inducing)


@pytest.mark.parametrize("learn", [sparse, vfe, fitc])
@pytest.mark.parametrize("inducing", [np.ones((5, 2)), np.vstack([X, X + 0.1])], ids=["duplicates", "M > N"])
def test_odd_inducing_inputs_work(
    learn: Callable[[FloatArray, FloatArray, FloatArray], float], inducing: FloatArray
) -> None:
    assert math.isfinite(learn(X, Y, inducing))


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="0 < delta < 1"):
        sparse(X, Y, Z, delta)
    with pytest.raises(ValueError, match="0 < delta < 1"):
        train_full_gp(RiskProblem(X, Y, LOSS, delta), Search(Budget()))
    with pytest.raises(ValueError, match="0 < delta < 1"):
        evaluate(FullGPPosterior.fit(ON_GRID, X, Y), X, Y, LOSS, delta)
    with pytest.raises(ValueError, match="0 < delta < 1"):
        certify(RiskAndKL(0.1, 1.0), Terms(100, 3, delta))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    for name in LOSSES:
        with pytest.raises(ValueError, match="epsilon must be a positive finite number"):
            LOSSES.get(name)(epsilon)


@pytest.mark.parametrize(
    ("risk", "kl"), [(math.nan, 1.0), (-0.1, 1.0), (1.1, 1.0), (0.1, math.nan), (0.1, math.inf), (0.1, -1.0)]
)
def test_an_unusable_computation_certifies_nothing(risk: float, kl: float) -> None:
    found = certify(RiskAndKL(risk, kl), Terms(100, 3, 0.01))
    assert (found.bound_kl, found.bound_sqrt) == (1.0, 1.0)
    assert found.reason.startswith("trivial bound 1: the ")


@pytest.mark.parametrize("n", range(1, 13))
def test_the_constant_of_maurers_theorem_holds_below_its_eight_rows_too(n: int) -> None:
    """E exp(n kl(mean, p)) <= sum_k C(n, k) (k/n)^k (1 - k/n)^(n - k) <= 2 sqrt(n); stated for n >= 8."""
    moment = sum(math.comb(n, k) * (k / n) ** k * (1 - k / n) ** (n - k) for k in range(n + 1))
    assert moment <= 2.0 * math.sqrt(n)
