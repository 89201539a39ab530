"""One cell of perturbation/coverage: ranks of true coefficients over simulated data sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.generators.classes import lssvm_classes
from gpsuite.data.generators.regression import draw_noise
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.experiments.perturbation.coverage.plan import FIXED_DESIGNS, CoverageTask, RefusalsTask
from gpsuite.experiments.perturbation.shared.coverage_models import GROUPS, MODELS, draw_inputs, draw_truth
from gpsuite.methods.perturbation.objectives.quadratic import LinearLSSVM
from gpsuite.methods.perturbation.ranks.ranks import ranks_of_noise, simulated_ranks
from gpsuite.methods.perturbation.region import Region
from gpsuite.seeds import stream

CLASS_CENTRE = np.array([1.0, 0.5])  # of label 1 in `lssvm_classes`


ENDOGENOUS = 0.5  # share of the noise that enters the input


AUTOREGRESSION = 0.9  # y_t = 0.9 y_{t-1} + e_t


def run_refusals(task: Task[RefusalsTask], shared: SharedWork) -> Outcome:
    """Count the inadmissible q that are not refused."""
    return Outcome({"accepted": accepted_levels(task.params.compared)}, headline="q outside 0 < q < m")


def run_coverage(task: Task[CoverageTask], shared: SharedWork) -> Outcome:
    """Count the ranks 1..m of the true coefficients for every m of the cell."""
    cell = task.params
    ranks_of = _fixed_ranks if cell.design in FIXED_DESIGNS else _varying_ranks
    counts = {}
    for m in cell.compared:
        ranks = ranks_of(cell, m, stream(cell.seed, "m", m))
        counts[f"ranks_{m}"] = np.bincount(ranks, minlength=m + 1)[1:]
    first = next(iter(counts.values()))
    mean = float(first @ np.arange(1, len(first) + 1)) / float(first.sum())
    expected = (len(first) + 1) / 2
    return Outcome(
        {"repetitions": cell.repetitions}, arrays=counts, headline=f"mean rank {mean:.2f} ({expected:g})"
    )


def _fixed_ranks(cell: CoverageTask, m: int, rng: np.random.Generator) -> IntArray:
    """Return the ranks over designs that are fixed while noise and perturbations are drawn anew."""
    found = []
    for share in np.array_split(np.arange(cell.repetitions), cell.designs):
        X = draw_inputs(rng, cell.rows, cell.design == "repeated")
        objective = MODELS[cell.model](X)
        truth = draw_truth(rng, cell.model, objective)
        size = (len(share), cell.rows)
        noise = draw_noise(rng, cell.noise, size, inputs=X[:, 0], scale=cell.noise_scale)
        found.append(simulated_ranks(objective, truth, noise, GROUPS[cell.group], m, rng, cell.break_ties))
    return np.concatenate(found)


def _varying_ranks(cell: CoverageTask, m: int, rng: np.random.Generator) -> IntArray:
    """Return the ranks where the inputs are drawn with the noise: linear models, one data set after the other."""
    X, noise, truth = DESIGNS[cell.design](rng, cell.repetitions, cell.rows, cell.noise_scale)
    drawn = GROUPS[cell.group]
    found = [
        ranks_of_noise(LinearLSSVM(x, 1.0, bias=False), truth, e[None], drawn.draw(len(e), m, rng))
        for x, e in zip(X, noise, strict=True)
    ]
    return np.concatenate(found)


def labelled(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 2] of two Laplace classes, residuals of their labels y = +-1, and the best coefficients.

    The coefficients are E[xx']^-1 E[xy] of the whole distribution; the clouds have twice the scale.
    """
    drawn, centre, spread = (
        lssvm_classes(rng, (repetitions, rows), scale=2.0 * scale),
        CLASS_CENTRE,
        2.0 * scale,
    )
    best = np.linalg.solve(np.outer(centre, centre) + 2.0 * spread**2 * np.eye(2), centre)
    return drawn.X, drawn.y - drawn.X @ best, best


def endogenous(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 1] that hold a part of the noise, Laplace noise [R, n], and the coefficient 1."""
    noise = draw_noise(rng, "laplace", (repetitions, rows), scale=scale)
    X = rng.uniform(-1.0, 1.0, (repetitions, rows)) + ENDOGENOUS * noise
    return X[..., None], noise, np.ones(1)


def autoregressive(
    rng: np.random.Generator, repetitions: int, rows: int, scale: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return X [R, n, 1] with x_t = y_{t-1}, y_t = 0.9 y_{t-1} + e_t from 0, Laplace noise [R, n], and 0.9."""
    noise = draw_noise(rng, "laplace", (repetitions, rows), scale=scale)
    X = np.zeros((repetitions, rows))
    for t in range(1, rows):
        X[:, t] = AUTOREGRESSION * X[:, t - 1] + noise[:, t - 1]
    return X[..., None], noise, np.full(1, AUTOREGRESSION)


DESIGNS = {"labels": labelled, "endogenous": endogenous, "autoregression": autoregressive}


def accepted_levels(compared: Sequence[int]) -> int:
    """Return how many of q = -1, 0, m and m + 1 a region of each m accepts; none should be."""
    accepted = 0
    for m in compared:
        rng = np.random.default_rng(0)
        X = draw_inputs(rng, 6)
        drawn = GROUPS["signs"].draw(len(X), m, rng)
        for q in (-1, 0, m, m + 1):
            try:
                Region(LinearLSSVM(X, 1.0), X[:, 0], drawn, q)
            except ValueError:
                continue
            accepted += 1
    return accepted
