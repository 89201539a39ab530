"""Repetitions on the engine data: HC and O2 are learned, the exhaust stays cool enough (Li et al. 2022, I.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.experiments.active_learning.shared.repetition_data import (
    PAIRS,
    Campaign,
    FloatArray,
    IntArray,
    Table,
    offered,
    positions,
    spawned,
    started_outputs,
    without_started,
)
from gpsuite.methods.active_learning.safety import SafetyLimit

OUTPUTS = ("HC", "O2")


TEMPERATURE, OTHER_TEMPERATURE = "T_EXM", "T_CAT1"


LIMIT = 1.0


PUBLISHED_SEED = 123  # of the starting rows


def engine_campaign(data: Dataset, params: Mapping[str, Any], queries: str) -> Campaign:
    """Return a repetition: a pool sampled from all training rows, safe starting rows, and a sample of test rows.

    The pool keeps its unsafe rows, as the whole training part has them; only the starting rows are chosen safe.

    Args:
        data: the engine data, with its split of training and test files.
        params: seed (of pool and test rows), repetition, start_seed, initial, pool_rows, test_rows, offers.
        queries: `partial` or `full`.
    """
    train, test = training_and_test(data)
    pool_rng, test_rng = spawned(params, 2)
    pool_rows = _sample(pool_rng, train, int(params["pool_rows"]))
    test_rows = _sample(test_rng, test, int(params["test_rows"]))
    initial, offers = int(params["initial"]), PAIRS if queries == "full" else str(params["offers"])
    given = started_outputs(initial, len(OUTPUTS), queries)
    safe = train[temperature(data)[train] <= LIMIT]
    start_rows = starting_rows(safe, initial, int(params["start_seed"]), int(params["repetition"]))
    start_rows = start_rows[: len(given)]
    available = offered(len(pool_rows), len(OUTPUTS), offers)
    return Campaign(
        pool=engine_table(data, pool_rows),
        available=without_started(available, positions(start_rows, pool_rows), given, offers),
        start=engine_table(data, start_rows),
        start_outputs=given,
        test=engine_table(data, test_rows),
        test_safe=temperature(data)[test_rows] <= LIMIT,
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
