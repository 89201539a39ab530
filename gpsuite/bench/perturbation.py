"""Memberships of many coefficient vectors and a coverage study against plain loops. Ellipsoid radii against SDPs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.sparse import csc_array

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.bench.timing import BenchCase, Work
from gpsuite.errors import missing_package
from gpsuite.methods.perturbation.ellipsoid import PerturbedQuadratic, in_metric, inequality_chunks, outer_radii
from gpsuite.methods.perturbation.quadratic import (
    EpsilonSVR,
    KernelLasso,
    KernelLSSVM,
    KernelRidge,
    LinearLSSVM,
    Objective,
)
from gpsuite.methods.perturbation.ranks import SignChanges, simulated_ranks
from gpsuite.methods.perturbation.region import ConfidenceRegion
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.seeds import stream

Statistic = Callable[[FloatArray], Callable[[FloatArray], float]]
"""alpha -> residuals -> Z, as one would write it down."""

DATA = COMPARED = 100  # n = m
LINEAR_INPUTS, LENGTHSCALE = 3, 0.5
MODELS = ("kernel ridge", "kernel LS-SVM", "SVR", "LASSO")
VECTORS, LINEAR_VECTORS = 1_000, 5_000
KERNEL_GOAL, LINEAR_GOAL, RADII_GOAL = 1 / 12, 1 / 500, 1 / 20
REPETITIONS, STUDY_DATA, STUDY_COMPARED = 10_000, 15, 20
STUDY_GOAL = 0.2
RADII_COEFFICIENTS = 10
PAIRS = 5


def cases() -> list[BenchCase]:
    """Return the cases. Both sides do the same number of memberships, repetitions or radii."""
    loop = "a Python loop over perturbations"
    found = [
        BenchCase(
            f"{VECTORS} memberships, {model}, n=m={DATA}",
            loop,
            partial(_memberships, model, VECTORS),
            KERNEL_GOAL,
            PAIRS,
        )
        for model in MODELS
    ]
    linear = f"{LINEAR_VECTORS} memberships, linear LS-SVM, d={LINEAR_INPUTS}, n=m={DATA}"
    found.append(BenchCase(linear, loop, partial(_memberships, "linear", LINEAR_VECTORS), LINEAR_GOAL, PAIRS))
    study = f"coverage study, {REPETITIONS} repetitions, 5 models, n={STUDY_DATA}, m={STUDY_COMPARED}"
    found.append(BenchCase(study, loop, _coverage_study, STUDY_GOAL, 1))
    radii = f"ellipsoid radius set, m={COMPARED}, p={RADII_COEFFICIENTS}"
    found.append(BenchCase(radii, "semidefinite programs by Clarabel", _radii, RADII_GOAL, PAIRS))
    return found


def _memberships(model: str, vectors: int) -> tuple[Work, Work]:
    rng = stream(0, "bench", "perturbation")
    X = rng.uniform(-3.0, 3.0, (DATA, LINEAR_INPUTS if model == "linear" else 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.laplace(size=DATA)
    objective, statistic = _models(X)[model]()
    region = ConfidenceRegion(objective, y, SignChanges().draw(DATA, COMPARED, rng), 10)
    alphas = region.estimate + 0.1 * rng.standard_normal((vectors, len(region.estimate)))
    return partial(region.contains, alphas), partial(_looped, region, statistic, alphas)


def _looped(region: ConfidenceRegion, statistic: Statistic, alphas: FloatArray) -> list[bool]:
    """Return the memberships one by one. Without ties, which cost nothing here."""
    signs, design, y = region.perturbations.signs_and_order[0], region.objective.design, region.y
    return [_rank_by_loop(statistic(alpha), y - design @ alpha, signs) <= region.m - region.q for alpha in alphas]


def _rank_by_loop(Z: Callable[[FloatArray], float], e: FloatArray, signs: FloatArray) -> int:
    reference, rank = Z(e), 1
    for sign in signs:
        rank += Z(sign * e) < reference
    return rank


def _models(X: FloatArray) -> dict[str, Callable[[], tuple[Objective, Statistic]]]:
    K = kappa("squared_exponential", squared_distances(X / LENGTHSCALE, X / LENGTHSCALE))
    return {
        "kernel ridge": partial(_ridge, K),
        "kernel LS-SVM": partial(_least_squares, K),
        "SVR": partial(_support_vectors, K),
        "LASSO": partial(_lasso, K),
        "linear": partial(_linear, X),
    }


def _ridge(K: FloatArray, penalty: float = 0.05) -> tuple[Objective, Statistic]:
    n = len(K)
    W = np.linalg.solve(2.0 / n * K + 2.0 * penalty * np.eye(n), K)

    def statistic(alpha: FloatArray) -> Callable[[FloatArray], float]:
        start = 2.0 * penalty * alpha

        def Z(e: FloatArray) -> float:
            z = start - 2.0 / n * e
            return float(z @ W @ z)

        return Z

    return KernelRidge(K, penalty), statistic


def _least_squares(K: FloatArray, C: float = 1.0) -> tuple[Objective, Statistic]:
    inner = np.eye(len(K)) + C * K
    W, h = np.linalg.solve(inner, K), np.linalg.solve(inner, np.ones(len(K)))
    total = C * h.sum()

    def statistic(alpha: FloatArray) -> Callable[[FloatArray], float]:
        def Z(e: FloatArray) -> float:
            z = alpha[1:] - C * e
            v = W @ z
            bias = -C * e.sum() - C * v.sum()
            return float(z @ v + bias * bias / total)

        return Z

    return KernelLSSVM(K, C), statistic


def _support_vectors(K: FloatArray, C: float = 12.0, epsilon: float = 0.2) -> tuple[Objective, Statistic]:
    weight = C / len(K)

    def statistic(alpha: FloatArray) -> Callable[[FloatArray], float]:
        def Z(e: FloatArray) -> float:
            z = alpha - weight * np.sign(e) * (np.abs(e) > epsilon)
            return float(z @ K @ z)

        return Z

    return EpsilonSVR(K, C, epsilon), statistic


def _lasso(K: FloatArray, penalty: float = 0.15) -> tuple[Objective, Statistic]:
    def statistic(alpha: FloatArray) -> Callable[[FloatArray], float]:
        start = penalty * np.sign(alpha)

        def Z(e: FloatArray) -> float:
            gradient = start - K @ e
            return float(gradient @ gradient)

        return Z

    return KernelLasso(K, penalty), statistic


def _linear(X: FloatArray, C: float = 1.0) -> tuple[Objective, Statistic]:
    objective = LinearLSSVM(X, C, bias=False)
    P, T, inverse = objective.P, objective.T, np.linalg.inv(objective.hessian)

    def statistic(alpha: FloatArray) -> Callable[[FloatArray], float]:
        start = P @ alpha

        def Z(e: FloatArray) -> float:
            gradient = start - T @ e
            return float(gradient @ inverse @ gradient)

        return Z

    return objective, statistic


def _coverage_study() -> tuple[Work, Work]:
    """Return the ranks of the true coefficients of all models, batched and one repetition at a time."""
    rng = stream(0, "bench", "coverage")
    X = rng.uniform(-2.0, 2.0, (STUDY_DATA, 1))
    models = [build() for build in _models(X).values()]
    noise = rng.laplace(size=(REPETITIONS, STUDY_DATA))
    signs = SignChanges().draw(STUDY_DATA, STUDY_COMPARED, rng, (REPETITIONS,)).signs_and_order[0]
    truths = [rng.standard_normal(objective.design.shape[1]) for objective, _ in models]

    def ours() -> list[IntArray]:
        return [
            simulated_ranks(objective, truth, noise, SignChanges(), STUDY_COMPARED, rng)
            for (objective, _), truth in zip(models, truths, strict=True)
        ]

    def looped() -> list[list[int]]:
        return [
            [_rank_by_loop(statistic(truth), e, drawn) for e, drawn in zip(noise, signs, strict=True)]
            for (_, statistic), truth in zip(models, truths, strict=True)
        ]

    return ours, looped


def _radii() -> tuple[Work, Work]:
    """Return the radii of a linear model's perturbations, by the scalar root and by one program each."""
    rng = stream(0, "bench", "radii")
    X = rng.standard_normal((DATA, RADII_COEFFICIENTS))
    y = X @ rng.standard_normal(RADII_COEFFICIENTS) + rng.laplace(size=DATA)
    objective = LinearLSSVM(X, 1.0, bias=False)
    drawn = SignChanges().draw(DATA, COMPARED, rng)

    def ours() -> FloatArray:
        return outer_radii(PerturbedQuadratic.of(objective, y, drawn))

    return ours, partial(_by_programs, PerturbedQuadratic.of(objective, y, drawn))


def _by_programs(quadratic: PerturbedQuadratic) -> list[float]:
    """Return each radius: min gamma, lambda >= 0, [[lambda A - I, lambda b], [lambda b', lambda c + gamma]] >= 0."""
    found = []
    for _, sets in inequality_chunks(in_metric(quadratic)[0]):
        found += [_program(A, b, c) for A, b, c in zip(sets.A, sets.b, sets.c, strict=True)]
    return found


def _program(A: FloatArray, b: FloatArray, c: float) -> float:
    missing = missing_package("clarabel", "peers", "bench perturbation", "time another family")
    if missing is not None:
        raise missing
    import clarabel

    p = len(b)
    fixed, by_gamma, by_lambda = np.zeros((3, p + 1, p + 1))
    fixed[:p, :p] = -np.eye(p)
    by_gamma[p, p] = 1.0
    by_lambda[:p, :p], by_lambda[:p, p], by_lambda[p, p] = A, b, c
    rows = np.column_stack([_packed(by_gamma), _packed(by_lambda)])
    matrix = csc_array(-np.vstack([[0.0, 1.0], rows]))
    cones = [clarabel.NonnegativeConeT(1), clarabel.PSDTriangleConeT(p + 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    goal = np.array([1.0, 0.0])
    offset = np.append(0.0, _packed(fixed))
    solver = clarabel.DefaultSolver(csc_array((2, 2)), goal, matrix, offset, cones, settings)
    return float(solver.solve().x[0])


def _packed(symmetric: FloatArray) -> FloatArray:
    """Return the upper triangle column by column, off-diagonal entries times sqrt 2. Upper or full matrices."""
    columns, rows = np.tril_indices(len(symmetric))
    return np.asarray(symmetric[rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2.0)))
