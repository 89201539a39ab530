"""Repetitions on simulated data: sine and sigmoid, and draws from multi-output GPs (Li et al. 2022, I.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.gp_samples import GpSamples, Process, Sizes, gp_samples
from gpsuite.data.generators.sin_sigmoid import (
    THRESHOLD,
    Form,
    SafeSample,
    exploration_grid,
    initial_inputs,
    sin_sigmoid,
    true_safety,
)
from gpsuite.experiments.active_learning.shared.repetition_data import (
    Repetition,
    RepetitionData,
    Table,
    offered,
    started_outputs,
    without_started,
)
from gpsuite.methods.active_learning.safety import SafetyLimit

TOY_OUTPUTS = 2


UNEQUAL = 10.0  # variance ratio of the outputs, or of their noises, where they are made unequal


EQUAL, UNEQUAL_NOISE, UNEQUAL_VARIANCE = "equal", "noise", "variance"


GP_KERNELS = {"code": "squared_exponential", "paper": "squared_exponential_paper"}


@dataclass(frozen=True, kw_only=True)
class ToyData(RepetitionData):
    """A repetition of sine and sigmoid.

    Attributes:
        form: of the sigmoid.
        pool_rows: points of the grid.
        unequal: whether the first output has 10 times the `variance` or `noise` variance, or is `equal`.
    """

    form: Form
    pool_rows: int
    unequal: str


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Draws from one random process.

    Attributes:
        seed: of the generator.
        draws: number of draws; the threshold is theirs together.
        n_train: pool rows of each draw.
        n_test: test rows of each draw.
        n_outputs: P.
        form: of the squared exponential kernel: `code` exp(-r^2 / 2 l^2), or `paper` exp(-r^2 / l).
        process: linear model of coregionalisation, or convolution process.
    """

    seed: int
    draws: int
    n_train: int
    n_test: int
    n_outputs: int
    form: str
    process: Process


@dataclass(frozen=True, kw_only=True)
class GpData(RepetitionData):
    """A repetition on one draw of the samples; the seed is that of the starting rows."""

    draw: int
    samples: Samples


def toy_repetition(data: ToyData, queries: str) -> Repetition:
    """Return a repetition of sine and sigmoid: the grid is pool and test set, starting inputs lie in [-.6, .6].

    Args:
        data: what it depends on.
        queries: `partial` or `full`.
    """
    inputs, start_noise, pool_noise, test_noise = data.generators(4)
    given = started_outputs(data.initial, TOY_OUTPUTS, queries)
    # as many starting inputs are drawn as partial queries need, so that full ones start from the first of them
    start_X = initial_inputs(inputs, data.initial)
    grid = exploration_grid(data.pool_rows)

    def measured(rng: np.random.Generator, X: FloatArray) -> Table:
        return _unequal(_table(sin_sigmoid(rng, X, form=data.form)), data.unequal)

    return Repetition(
        pool=measured(pool_noise, grid),
        available=offered(len(grid), TOY_OUTPUTS, data.offers_to(queries)),
        start=measured(start_noise, start_X).rows(np.arange(len(given))),
        start_outputs=given,
        test=measured(test_noise, grid),
        test_safe=true_safety(grid[:, 0]) > THRESHOLD,
        targets="true",
        limit=SafetyLimit(THRESHOLD, "above"),
    )


def gp_repetition(data: GpData, queries: str) -> Repetition:
    """Return a draw of the multi-output process; starting inputs are random safe rows of the pool.

    Args:
        data: what it depends on.
        queries: `partial` or `full`.
    """
    drawn = drawn_samples(data.samples)
    sample, e, n_train = drawn.data, data.draw, drawn.n_train
    whole = Table(sample.X, sample.Y[e], sample.z[e], sample.F[e], sample.h[e])
    pool, test = whole.rows(np.arange(n_train)), whole.rows(np.arange(n_train, len(sample.X)))
    n_outputs = pool.Y.shape[1]
    (rng,) = data.generators(1)
    safe = np.flatnonzero(pool.z > sample.threshold)
    given = started_outputs(data.initial, n_outputs, queries)
    chosen = rng.permutation(safe)[: data.initial][: len(given)]
    if len(chosen) < len(given):
        raise ValueError(f"draw {e} has {len(safe)} safe rows; {len(given)} are needed to start")
    offers = data.offers_to(queries)
    return Repetition(
        pool=pool,
        available=without_started(offered(n_train, n_outputs, offers), chosen, given, offers),
        start=pool.rows(chosen),
        start_outputs=given,
        test=test,
        test_safe=test.z > sample.threshold,
        targets="noisy",
        limit=SafetyLimit(sample.threshold, "above"),
    )


@lru_cache(maxsize=1)
def drawn_samples(samples: Samples) -> GpSamples:
    """Return all draws; the tasks of one worker share them."""
    n_latent = max(1, samples.n_outputs - 1)
    sizes = Sizes(
        samples.draws, samples.n_train, samples.n_test, n_outputs=samples.n_outputs, n_latent=n_latent
    )
    rng = np.random.default_rng(samples.seed)
    return gp_samples(rng, sizes, kernel=GP_KERNELS[samples.form], process=samples.process)


def _table(sample: SafeSample) -> Table:
    return Table(sample.X, sample.Y, sample.z, sample.F, sample.h)


def _unequal(table: Table, which: str) -> Table:
    """Return the table with 10 times the variance, or noise variance, of the first output."""
    if which == EQUAL or table.F is None:
        return table
    F, noise = table.F.copy(), table.Y - table.F
    (noise if which == UNEQUAL_NOISE else F)[:, 0] *= UNEQUAL**0.5
    return replace(table, Y=F + noise, F=F)
