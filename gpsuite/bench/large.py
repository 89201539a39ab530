"""Benchmarks of `gpsuite bench large`: single works on large made-up data, with the time and memory they may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.models.config import Hyperparameters
from gpsuite.seeds import stream

INPUTS, TEST_ROWS = 8, 500
LOSS, DELTA = BandLoss(0.6), 0.01
HYPERPARAMETERS = PAPER_GRID.rounded(Hyperparameters(1.0, (2.0,) * INPUTS, 0.09))


@dataclass(frozen=True)
class LargeCase:
    """One work, run once in a separate process.

    Attributes:
        case: what is computed, with its size.
        work: returns the result in words.
        seconds: it may take on the clock, making its data included.
        memory_mb: the process may take.
    """

    case: str
    work: Callable[[], str]
    seconds: float
    memory_mb: float


def cases() -> list[LargeCase]:
    """Return the cases: a full GP's certificate, and one evaluation of both sparse objectives."""
    return [
        LargeCase(
            "full GP certificate, n=20000, D=8, no inducing inputs", partial(full_certificate, 20_000), 600.0, 8e3
        ),
        LargeCase(
            "PAC-SGP objective + gradient (VFE), n=1000000, M=500, D=8",
            partial(sparse_evaluation, 1_000_000, 500, 0.0),
            60.0,
            4e3,
        ),
        LargeCase(
            "PAC-SGP objective + gradient (FITC), n=1000000, M=500, D=8",
            partial(sparse_evaluation, 1_000_000, 500, 1.0),
            60.0,
            4e3,
        ),
    ]


def full_certificate(rows: int) -> str:
    """Fit a full GP at given hyperparameters and certify it."""
    X, y = _data(rows + TEST_ROWS)
    posterior = FullGPPosterior.fit(HYPERPARAMETERS, X[:rows], y[:rows])
    found = evaluate(posterior, X[rows:], y[rows:], LOSS, DELTA)
    return f"risk <= {found.bound_kl:.4f}. On the training rows {found.gibbs_risk_train:.4f}"


def sparse_evaluation(rows: int, M: int, alpha: float) -> str:
    """Evaluate the bound that training minimises, once, with its gradient."""
    X, y = _data(rows)
    objective = SparseGPObjective(RiskProblem(X, y, LOSS, DELTA), alpha, M)
    value, *_ = objective.value_and_gradient(HYPERPARAMETERS.to_log(), X[:M].copy())
    return f"objective {value:.4f}"


def _data(rows: int) -> tuple[FloatArray, FloatArray]:
    rng = stream(0, "bench", "large", rows)
    X = rng.standard_normal((rows, INPUTS))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * rng.standard_normal(rows)
