"""Repetitions on the engine data: HC and O2 are learned, the exhaust stays cool enough (Li et al. 2022, I.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.experiments.active_learning.shared.repetition_data import (
    Repetition,
    RepetitionData,
    Table,
    offered,
    positions,
    started_outputs,
    without_started,
)
from gpsuite.methods.active_learning.safety import SafetyLimit

OUTPUTS = ("HC", "O2")


TEMPERATURE, OTHER_TEMPERATURE = "T_EXM", "T_CAT1"


LIMIT = 1.0


PUBLISHED_STARTS = 123  # the seed of the starting rows


@dataclass(frozen=True, kw_only=True)
class EngineData(RepetitionData):
    """A repetition on the engine data; the seed is that of pool and test rows.

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


def engine_repetition(measured: Dataset, data: EngineData, queries: str) -> Repetition:
    """Return a repetition: a pool sampled from all training rows, safe starting rows, and a sample of test rows.

    The pool keeps its unsafe rows, as the whole training part has them; only the starting rows are chosen safe.

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
        ValueError: if there are fewer safe rows than asked for.
    """
    legacy = np.random.RandomState(seed)
    drawn = [legacy.choice(safe, initial, replace=False) for _ in range(repetition + 1)]
    found: IntArray = drawn[-1]
    return found


def training_and_test(data: Dataset) -> tuple[IntArray, IntArray]:
    """Return the row numbers of training and test files.

    Raises:
        ValueError: if the dataset has no split of its own.
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
