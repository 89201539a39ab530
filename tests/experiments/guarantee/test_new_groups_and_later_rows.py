"""What is stated with dataset.group and dataset.time, by repetition: it holds for new groups, and for later rows.

Each table is drawn again, and so are the new rows. A bound may fail in a share DELTA of the tables, and an interval may
miss one new row in a share 1 - COVERAGE; each count has one binomial limit, at 0.001.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.conformal import SpreadIntervals
from gpsuite.experiments.guarantee.regression import (
    Fitted,
    Judged,
    conformal_radius,
    held_out_bounds,
    judged_model,
    kept_copies,
    kept_model,
    mean_bounds,
)
from gpsuite.experiments.guarantee.tasks import Learning
from tests.arrays import Array

pytestmark = [pytest.mark.slow, pytest.mark.guarantee]
TABLES, LEVEL, DELTA, COVERAGE, NEW = 120, 0.001, 0.1, 0.8, 1000
ERRORS = np.array([0.5, 1.0, 2.0])  # own units
LEARNING = Learning(
    seed=0, goal=1.0, own=True, delta=DELTA, coverage=COVERAGE, test_share=0.25, preparation=0.2, most_rows=200,
    max_evaluations=3,
)  # fmt: skip
MOST_FAILED, LEAST_HELD = binom.isf(LEVEL, TABLES, DELTA), binom.ppf(LEVEL, TABLES, COVERAGE)


@dataclass(frozen=True)
class Stated:
    """What a run states of one table: both models with their bounds [K], the half width of intervals, and others."""

    kept: Fitted
    judged: Judged
    pac_bayes: list[float]
    held_out: list[float]
    radius: float
    spread: SpreadIntervals

    @classmethod
    def of(cls, table: pd.DataFrame, folder: Path, **words: Any) -> Stated:
        table.to_csv(folder / "t.csv", index=False)
        spec = CsvSpec(path=str(folder / "t.csv"), target="y", inputs=["x", "z"], task="regression", **words)
        dataset, shared = prepare(spec, cache_dir=folder), SharedWork()
        kept, judged = kept_model(dataset, LEARNING, shared), judged_model(dataset, LEARNING, shared)
        proved = mean_bounds(kept, LEARNING, ERRORS / kept.scale, kept_copies(dataset, LEARNING))
        tested = held_out_bounds(judged, ERRORS, DELTA)[1]
        spread = SpreadIntervals.of(load(dataset), judged, COVERAGE)
        bounds = [each.bound_bayes for each in proved]
        return cls(kept, judged, bounds, list(tested), conformal_radius(judged, COVERAGE), spread)

    def holds(self, new: pd.DataFrame) -> bool:
        """Return whether the interval of the first new row holds its target."""
        return bool(off(self.judged.fitted, new)[0] <= self.radius)

    def spread_holds(self, new: pd.DataFrame) -> bool:
        """The same of the interval that follows the spread."""
        own = new["ratio"].to_numpy()[:1] if self.spread.weight_name else None
        ends = self.spread.columns(new[["x", "z"]].to_numpy()[:1], own)
        return bool(ends["spread_low"][0] <= new["y"].iloc[0] <= ends["spread_high"][0])


def off(model: Fitted, new: pd.DataFrame) -> Array:
    return np.asarray(np.abs(model.predict(new[["x", "z"]].to_numpy())[0] - new["y"].to_numpy()))


def fails(model: Fitted, bounds: list[float], new: pd.DataFrame) -> bool:
    """Return whether the share of new rows with a larger error is above the bound at one of the errors."""
    return any(np.mean(off(model, new) > error) > bound for error, bound in zip(ERRORS, bounds, strict=True))


def patients(rng: np.random.Generator, groups: int, each: int) -> pd.DataFrame:
    """Return rows of groups with an effect of their own; z tells the groups apart, as an age does."""
    z, effect = np.repeat(rng.normal(size=(2, groups)), each, axis=1)
    x, noise = rng.normal(size=(2, groups * each))
    who = [f"p{number}" for number in np.repeat(np.arange(groups), each)]
    return pd.DataFrame({"x": x, "z": z, "who": who, "y": x + 1.5 * effect + 0.1 * noise})


def at(rng: np.random.Generator, days: Array) -> pd.DataFrame:
    """Return a row of each day in [0, 1]: the level moves, and the noise falls to a tenth."""
    x, z, noise = rng.normal(size=(3, len(days)))
    return pd.DataFrame({"x": x, "z": z, "day": days, "y": x + 0.5 * days + (2.0 - 1.8 * days) * noise})


def tables_of_patients(folder: Path, **words: Any) -> Iterator[tuple[Stated, pd.DataFrame]]:
    """Yield what is stated of each table of 40 groups, and a row of each of many new groups."""
    for seed in range(TABLES):
        rng = np.random.default_rng([56, seed])
        yield Stated.of(patients(rng, 40, 5), folder, **words), patients(rng, NEW, 1)


def test_what_is_stated_of_new_groups_holds_for_new_groups(tmp_path: Path) -> None:
    found = list(tables_of_patients(tmp_path, group="who"))
    held = sum(stated.holds(new) for stated, new in found)
    tested = sum(fails(stated.judged.fitted, stated.held_out, new) for stated, new in found)
    proved = sum(fails(stated.kept, stated.pac_bayes, new) for stated, new in found)
    spread = sum(stated.spread_holds(new) for stated, new in found)
    print(f"intervals held {held} and {spread}, test bounds failed {tested}, PAC-Bayes bounds {proved} of {TABLES}")
    assert min(held, spread) >= LEAST_HELD and max(tested, proved) <= MOST_FAILED


def test_without_the_word_group_test_bounds_fail_for_new_groups(tmp_path: Path) -> None:
    """They are about further rows of the same groups: the study above would notice a split that mixes groups."""
    found = tables_of_patients(tmp_path)
    tested = sum(fails(stated.judged.fitted, stated.held_out, new) for stated, new in found)
    print(f"test bounds failed {tested} of {TABLES}")
    assert tested > MOST_FAILED


def shifted(rng: np.random.Generator, rows: int, by: float) -> pd.DataFrame:
    """Return rows whose x is moved, with the likelihood ratio of rows moved by one; the noise grows with x."""
    x, z, noise = rng.normal(size=(3, rows)) + np.array([[by], [0.0], [0.0]])
    return pd.DataFrame({"x": x, "z": z, "ratio": np.exp(x - 0.5), "y": x + np.exp(0.8 * x) * noise})


@pytest.mark.parametrize("known", [True, False])
def test_intervals_hold_for_rows_whose_likelihood_ratio_is_known(tmp_path: Path, known: bool) -> None:
    held, words = 0, {"weights": "ratio"} if known else {}
    for seed in range(TABLES):
        rng = np.random.default_rng([58, seed])
        held += Stated.of(shifted(rng, 160, 0.0), tmp_path, **words).spread_holds(shifted(rng, 1, 1.0))
    print(f"intervals held {held} of {TABLES}")
    assert (held >= LEAST_HELD) == known


def test_what_is_stated_of_rows_in_time_holds_for_rows_that_follow(tmp_path: Path) -> None:
    """Bounds and intervals of the last rows are about rows like these, PAC-Bayes bounds about the past mixture.

    Where the noise falls over time, the intervals do not hold for the past mixture.
    """
    held = mixed = tested = proved = 0
    for seed in range(TABLES):
        rng = np.random.default_rng([57, seed])
        days = np.arange(160) / 160
        stated = Stated.of(at(rng, days).sample(frac=1.0, random_state=seed), tmp_path, time="day")
        later, past = at(rng, rng.choice(days[120:], NEW)), at(rng, rng.choice(days, NEW))
        held, mixed = held + stated.holds(later), mixed + stated.holds(past)
        tested += fails(stated.judged.fitted, stated.held_out, later)
        proved += fails(stated.kept, stated.pac_bayes, past)
    print(f"intervals held {held} later rows and {mixed} past ones of {TABLES}; bounds failed: {tested}, {proved}")
    assert held >= LEAST_HELD > mixed
    assert max(tested, proved) <= MOST_FAILED
