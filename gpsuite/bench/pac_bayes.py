"""Objective and gradient of PAC-GP and PAC-SGP against GPflow's own loss and gradient, and the LAPACK/BLAS floor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.bench.timing import BenchCase, Work
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse.algebra import InducingKernel, blocks, longest_block
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.seeds import stream

INPUTS = 13  # as Boston housing
SIZES = {404: 0.6, 2000: 0.5}  # rows -> largest allowed ratio to GPflow's GPR
FLOOR_GOAL = 2.5

SPARSE_ROWS, SPARSE_INPUTS = 12000, 26  # as pol
# number of inducing inputs -> largest allowed ratio to GPflow's SGPR, by form (alpha)
SPARSE_GOALS = {100: {"FITC": 1.05, "VFE": 0.75}, 500: {"FITC": 0.95, "VFE": 0.75}}
ALPHAS = {"FITC": 1.0, "VFE": 0.0}


def cases() -> list[BenchCase]:
    """Return the cases, SE-ARD: the full GP at Boston's and larger size, the sparse GP with M = 100 and 500."""
    return _full_cases() + _sparse_cases()


def _full_cases() -> list[BenchCase]:
    found = []
    for rows, goal in SIZES.items():
        case = f"full PAC-GP objective + gradient, n={rows}, D={INPUTS}"
        found.append(BenchCase(case, "GPflow GPR loss + gradient", partial(_against, rows, _gpr), goal))
        found.append(BenchCase(case, "floor: potrf + potri + gemm", partial(_against, rows, _floor), FLOOR_GOAL))
    return found


def _sparse_cases() -> list[BenchCase]:
    found = []
    for M, goals in SPARSE_GOALS.items():
        for form, goal in goals.items():
            case = f"{form} PAC-SGP objective + gradient, n={SPARSE_ROWS}, M={M}, D={SPARSE_INPUTS}"
            sgpr, floor = partial(_sparse, M, form, _sgpr), partial(_sparse, M, form, _sparse_floor)
            found.append(BenchCase(case, "GPflow SGPR loss + gradient", sgpr, goal))
            found.append(BenchCase(case, "floor: 2 trsm + syrk + 2 gemm + kernel", floor, FLOOR_GOAL))
    return found


def _against(rows: int, reference: Callable[[FloatArray, FloatArray], Work]) -> tuple[Work, Work]:
    X, y = _data(rows, INPUTS)
    objective = FullGPObjective(RiskProblem(X, y, BandLoss(0.6), 0.01))
    return partial(objective.value_and_gradient, _start(INPUTS).to_log()), reference(X, y)


def _sparse(M: int, form: str, reference: Callable[[FloatArray, FloatArray, FloatArray], Work]) -> tuple[Work, Work]:
    X, y = _data(SPARSE_ROWS, SPARSE_INPUTS)
    Z = X[:M].copy()
    objective = SparseGPObjective(RiskProblem(X, y, BandLoss(0.6), 0.01), ALPHAS[form], M)
    return partial(objective.value_and_gradient, _start(SPARSE_INPUTS).to_log(), Z), reference(X, y, Z)


def _start(inputs: int) -> Hyperparameters:
    return Hyperparameters(1.0, (float(np.exp(0.7)),) * inputs, 1.0)


def _data(rows: int, inputs: int) -> tuple[FloatArray, FloatArray]:
    rng = stream(0, "bench", rows)
    X = rng.standard_normal((rows, inputs))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(rows)


def _gpr(X: FloatArray, y: FloatArray) -> Work:
    from gpsuite.models.tensorflow_setup import configure

    configure()
    from gpsuite.models.regression.gpflow_models import build_gpr, compiled_loss, flatten, variables_of

    model = build_gpr(X, y, ModelSpec(ard=True), _start(INPUTS))
    return partial(compiled_loss(model).bind(model), flatten(variables_of(model, trainable=True)))


def _sgpr(X: FloatArray, y: FloatArray, Z: FloatArray) -> Work:
    from gpsuite.models.tensorflow_setup import configure

    configure()
    from gpsuite.models.regression.gpflow_models import build_sgpr, compiled_loss, flatten, variables_of

    model = build_sgpr(X, y, Z, ModelSpec(ard=True), _start(SPARSE_INPUTS))
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


def _sparse_floor(X: FloatArray, y: FloatArray, Z: FloatArray) -> Work:
    """Return the least work a sparse objective with gradient can do, in blocks.

    Per block: the kernel (thin product, exponential), whitening, one syrk. Two products with M x M matrices, one
    more triangular solve and the thin product that contracts the adjoint.
    """
    from scipy.linalg.blas import dsyrk, dtrsm

    inducing = InducingKernel.factorise(Z, _start(SPARSE_INPUTS).to_log())
    features, square = inducing.features(X), np.ascontiguousarray(inducing.matrix)
    total = np.zeros_like(inducing.factor)
    memory = np.zeros((2, len(Z) * longest_block(len(X))))

    def work() -> None:
        for rows in blocks(len(X)):
            V, G = (part[: len(Z) * len(features[rows])].reshape(len(Z), -1) for part in memory)
            np.exp(np.matmul(inducing.left, features[rows].T, out=V), out=V)
            dtrsm(1.0, inducing.factor, V.T, side=1, lower=1, trans_a=1, overwrite_b=1)
            dsyrk(1.0, V.T, beta=1.0, c=total, trans=1, lower=1, overwrite_c=1)
            np.matmul(square, np.matmul(square, V, out=G), out=V)
            dtrsm(1.0, inducing.factor, V.T, side=1, lower=1, overwrite_b=1)
            V @ features[rows]

    return work
