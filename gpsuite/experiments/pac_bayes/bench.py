"""Objective and gradient of PAC-GP against GPflow's own loss and gradient, and against the LAPACK/BLAS floor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt

from gpsuite.experiments.benchmark import BenchCase, Work
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.seeds import stream

FloatArray = npt.NDArray[np.float64]

INPUTS = 13  # as Boston housing
SIZES = {404: 0.6, 2000: 0.5}  # rows -> largest allowed ratio to GPflow's GPR
FLOOR_GOAL = 2.5


def cases() -> list[BenchCase]:
    """Return the full-GP cases: n = 404 (Boston's training rows) and 2000, SE-ARD, D = 13."""
    found = []
    for rows, goal in SIZES.items():
        case = f"full PAC-GP objective + gradient, n={rows}, D={INPUTS}"
        found.append(BenchCase(case, "GPflow GPR loss + gradient", partial(_against, rows, _gpr), goal))
        found.append(
            BenchCase(case, "floor: potrf + potri + gemm", partial(_against, rows, _floor), FLOOR_GOAL)
        )
    return found


def _against(rows: int, reference: Callable[[FloatArray, FloatArray], Work]) -> tuple[Work, Work]:
    X, y = _data(rows)
    objective = FullGPObjective(X, y, BandLoss(0.6), 0.01, "kl", ard=True)
    theta = np.log(np.concatenate([[1.0], np.full(INPUTS, np.exp(0.7)), [1.0]]))
    return partial(objective.value_and_gradient, theta), reference(X, y)


def _data(rows: int) -> tuple[FloatArray, FloatArray]:
    rng = stream(0, "bench", rows)
    X = rng.standard_normal((rows, INPUTS))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(rows)


def _gpr(X: FloatArray, y: FloatArray) -> Work:
    from gpsuite.models.tensorflow_setup import configure

    configure()
    from gpsuite.models.compiled import compiled_loss, flatten, variables_of
    from gpsuite.models.exact import build_gpr

    start = Hyperparameters(1.0, (float(np.exp(0.7)),) * INPUTS, 1.0)
    model = build_gpr(X, y, ModelSpec(ard=True), start)
    return partial(compiled_loss(model).bind(model), flatten(variables_of(model, trainable=True)))


def _floor(X: FloatArray, y: FloatArray) -> Work:
    """Return the least work a full-GP objective with gradient can do: factorise, invert, one matrix product."""
    from scipy.linalg.blas import dgemm
    from scipy.linalg.lapack import dpotrf, dpotri

    n = len(y)
    matrix = np.asfortranarray(X @ X.T + n * np.eye(n))
    buffer, product = np.empty_like(matrix), np.empty_like(matrix)

    def work() -> None:
        buffer[...] = matrix
        factor, _ = dpotrf(buffer, lower=1, clean=0, overwrite_a=1)
        dpotri(factor, lower=1, overwrite_c=1)
        dgemm(1.0, matrix, matrix, c=product, overwrite_c=1)

    return work
