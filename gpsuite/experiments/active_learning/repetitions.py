"""Data of one repetition: a pool to query from, starting data, and test data it never sees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.generators import SafeSample
from gpsuite.data.generators.gp_samples import GpSamples, Process, Sizes, gp_samples
from gpsuite.data.generators.sin_sigmoid import (
    THRESHOLD,
    Form,
    exploration_grid,
    initial_inputs,
    sin_sigmoid,
    true_safety,
)
from gpsuite.methods.active_learning.problem import SafetyLimit

PAIRS, ONE_OUTPUT = "pairs", "one_output"
OFFERS = (PAIRS, ONE_OUTPUT)


@dataclass(frozen=True, eq=False)
class Table:
    """Measured rows, with the truth behind them if it is known.

    Attributes:
        X: inputs [n, D].
        Y: measured outputs [n, P].
        z: measured safety values [n].
        F: noise-free outputs [n, P], or None.
        h: noise-free safety values [n], or None.
    """

    X: FloatArray
    Y: FloatArray
    z: FloatArray
    F: FloatArray | None = None
    h: FloatArray | None = None

    def rows(self, rows: IntArray) -> Table:
        F = None if self.F is None else self.F[rows]
        h = None if self.h is None else self.h[rows]
        return Table(self.X[rows], self.Y[rows], self.z[rows], F, h)


@dataclass(frozen=True, eq=False)
class Repetition:
    """One repetition, the same for every pipeline.

    Attributes:
        pool: what can be queried.
        available: whether each output of each pool row may be queried at the beginning [n, P].
        start: the starting inputs, every output measured.
        start_outputs: which outputs of the starting inputs are given at the beginning [M, P].
        test: rows to evaluate predictions on.
        test_safe: which test rows count as safe [n_test].
        targets: what predictions are compared with in the published curves: `true` (noise-free) or `noisy`.
        limit: which safety values are safe.
    """

    pool: Table
    available: BoolArray
    start: Table
    start_outputs: BoolArray
    test: Table
    test_safe: BoolArray
    targets: Literal["true", "noisy"]
    limit: SafetyLimit

    @property
    def n_outputs(self) -> int:
        """Number P of outputs."""
        return self.pool.Y.shape[1]


def started_outputs(initial: int, n_outputs: int, queries: str) -> BoolArray:
    """Return whether each output of each starting input is given, `initial` values altogether, [M, P].

    Partial queries: M = initial inputs, of input k output k mod P. Full ones: M = initial / P inputs, every output.
    Li et al. 2022, appendix J.
    """
    if queries == "full":
        return np.ones((initial // n_outputs, n_outputs), dtype=np.bool_)
    found: BoolArray = np.arange(initial)[:, None] % n_outputs == np.arange(n_outputs)
    return found


def offered(rows: int, n_outputs: int, offers: str) -> BoolArray:
    """Return which outputs each pool row offers [n, P]: all of them, or of row n the output n mod P only.

    The second is the authors' code: a row leaves its pool once queried, with whichever output it offered.
    """
    if offers == PAIRS:
        return np.ones((rows, n_outputs), dtype=np.bool_)
    found: BoolArray = np.arange(rows)[:, None] % n_outputs == np.arange(n_outputs)
    return found


def without_started(available: BoolArray, pool_rows: IntArray, started: BoolArray, offers: str) -> BoolArray:
    """Return what is still available after the start.

    Args:
        available: what the pool offers [n, P].
        pool_rows: pool row of each starting input, -1 if it is not in the pool [M].
        started: which outputs of the starting inputs are given [M, P].
        offers: `pairs`, or `one_output`, where the whole row leaves.
    """
    left = available.copy()
    inside = pool_rows >= 0
    used = started[inside] if offers == PAIRS else np.ones_like(started[inside])
    left[pool_rows[inside]] &= ~used
    return left


def positions(wanted: IntArray, pool: IntArray) -> IntArray:
    """Return the position of each of the wanted numbers in `pool` (distinct numbers), -1 if it is not there."""
    order = np.argsort(pool)
    place = np.searchsorted(pool, wanted, sorter=order)
    candidate = order[np.minimum(place, len(pool) - 1)]
    return np.where(pool[candidate] == wanted, candidate, -1)


@dataclass(frozen=True, kw_only=True)
class RepetitionData(ABC):
    """Parameters that the data of one repetition depend on, for every source.

    Attributes:
        seed: of all that is drawn.
        initial: values measured at the beginning, all outputs together.
        offers: what a pool row can be requested, of `OFFERS`.
    """

    seed: int
    initial: int
    offers: str

    def generators(self, count: int) -> list[np.random.Generator]:
        """Return independent Generators, one per part of the data."""
        return np.random.default_rng(self.seed).spawn(count)

    def offers_to(self, queries: str) -> str:
        """Return what pool rows offer to a kind of queries: full ones measure everything, and a row leaves."""
        return PAIRS if queries == "full" else self.offers

    @abstractmethod
    def read(self, queries: str, rows: Callable[[], Dataset]) -> Repetition:
        """Return the data for a kind of queries, `partial` or `full`. `rows` reads the dataset, if there is one."""


# Repetitions on simulated data: sine and sigmoid, and draws from multi-output GPs (Li et al. 2022, I.3).


TOY_OUTPUTS = 2
UNEQUAL = 10.0  # variance ratio of the outputs, or of their noises, if they are made unequal
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

    def read(self, queries: str, rows: Callable[[], Dataset]) -> Repetition:
        return toy_repetition(self, queries)


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Draws from one random process.

    Attributes:
        seed: of the generator.
        draws: number of draws. The threshold is theirs together.
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
    """A repetition on one draw of the samples. The seed is that of the starting rows."""

    draw: int
    samples: Samples

    def read(self, queries: str, rows: Callable[[], Dataset]) -> Repetition:
        return gp_repetition(self, queries)


def toy_repetition(data: ToyData, queries: str) -> Repetition:
    """Return a repetition of sine and sigmoid: the grid is pool and test set, starting inputs lie in [-0.6, 0.6].

    Args:
        data: what it depends on.
        queries: `partial` or `full`.
    """
    inputs, start_noise, pool_noise, test_noise = data.generators(4)
    given = started_outputs(data.initial, TOY_OUTPUTS, queries)
    # as many starting inputs are drawn as partial queries need, so that full ones start from the first
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
    """Return a draw of the multi-output process. Starting inputs are random safe rows of the pool.

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
    """Return all draws. The tasks of one worker share them."""
    n_latent = max(1, samples.n_outputs - 1)
    sizes = Sizes(samples.draws, samples.n_train, samples.n_test, n_outputs=samples.n_outputs, n_latent=n_latent)
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


# Repetitions on the engine data: HC and O2 are learned, the exhaust stays cool enough (Li et al. 2022, I.3).


OUTPUTS = ("HC", "O2")
TEMPERATURE, OTHER_TEMPERATURE = "T_EXM", "T_CAT1"
LIMIT = 1.0
PUBLISHED_STARTS = 123  # the seed of the starting rows


@dataclass(frozen=True, kw_only=True)
class EngineData(RepetitionData):
    """A repetition on the engine data. The seed is that of pool and test rows.

    Attributes:
        pool_rows: rows of the pool.
        test_rows: rows predictions are evaluated on.
        repetition: its number, which names its starting rows.
        start_seed: of all starting rows.
    """

    pool_rows: int
    test_rows: int
    repetition: int
    start_seed: int

    def read(self, queries: str, rows: Callable[[], Dataset]) -> Repetition:
        return engine_repetition(rows(), self, queries)


def engine_repetition(measured: Dataset, data: EngineData, queries: str) -> Repetition:
    """Return a repetition: a pool sampled from all training rows, safe starting rows, and a sample of test rows.

    The pool keeps its unsafe rows, as the whole training part has them. Only the starting rows are chosen safe.

    Args:
        measured: the engine data, with its split of training and test files.
        data: what the repetition depends on.
        queries: `partial` or `full`.
    """
    train, test = training_and_test(measured)
    pool_rng, test_rng = data.generators(2)
    pool_rows = _sample(pool_rng, train, data.pool_rows)
    test_rows = _sample(test_rng, test, data.test_rows)
    initial, offers = data.initial, data.offers_to(queries)
    given = started_outputs(initial, len(OUTPUTS), queries)
    safe = train[temperature(measured)[train] <= LIMIT]
    start_rows = starting_rows(safe, initial, data.start_seed, data.repetition)
    start_rows = start_rows[: len(given)]
    available = offered(len(pool_rows), len(OUTPUTS), offers)
    return Repetition(
        pool=engine_table(measured, pool_rows),
        available=without_started(available, positions(start_rows, pool_rows), given, offers),
        start=engine_table(measured, start_rows),
        start_outputs=given,
        test=engine_table(measured, test_rows),
        test_safe=temperature(measured)[test_rows] <= LIMIT,
        targets="noisy",
        limit=SafetyLimit(LIMIT, "below"),
    )


def starting_rows(safe: IntArray, initial: int, seed: int, repetition: int) -> IntArray:
    """Return a repetition's starting rows [initial]: the draw of that number from NumPy's legacy generator.

    With seed 123 and all safe training rows in ascending order these are the authors' starting sets.

    Raises:
        ValueError: if there are fewer safe rows than requested.
    """
    legacy = np.random.RandomState(seed)
    drawn = [legacy.choice(safe, initial, replace=False) for _ in range(repetition + 1)]
    found: IntArray = drawn[-1]
    return found


def training_and_test(data: Dataset) -> tuple[IntArray, IntArray]:
    """Return the row numbers of training and test files.

    Raises:
        ValueError: if the dataset has no fixed split.
    """
    if data.fixed_split is None:
        raise ValueError(f"{data.name} has no split into training and test files")
    return data.fixed_split


def temperature(data: Dataset) -> FloatArray:
    """Return the safety value of every row [N], in the source's standardised units."""
    return data.y[:, data.target_names.index(TEMPERATURE)]


def engine_table(data: Dataset, rows: IntArray) -> Table:
    """Return inputs, modelled outputs and safety value of some rows."""
    columns = [data.target_names.index(name) for name in OUTPUTS]
    return Table(data.X[rows], data.y[rows][:, columns], temperature(data)[rows])


def _sample(rng: np.random.Generator, rows: IntArray, count: int) -> IntArray:
    """Return `count` different rows in random order, all of them if there are fewer."""
    return rng.permutation(rows)[:count]
