"""Printed intervals under noise with heavy tails, by repetition: few unlucky rows decide neither them nor their count.

Each number of tables has one binomial limit, at 0.001.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from gpsuite.config.request import read_request
from gpsuite.engine.worker import execute_group
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.experiments.guarantee.predictions import own_intervals_held
from gpsuite.experiments.guarantee.tasks import ROWS
from tests.arrays import Array

LENGTH, NEW, TABLES, COVERAGE, LEVEL, SIGN = 85, 500, 100, 0.9, 0.001, 0.01
FAST = ("max_evaluations=5", "count=1", "boxes=1", "tolerances=[0.05]")


def drawn(rng: np.random.Generator, rows: int) -> Array:
    """Return inputs and target [rows, 3]; the noise has no variance."""
    a, b = rng.normal(size=(2, rows))
    return np.column_stack([a, b, 2.0 * a + rng.standard_t(1.2, size=rows)])


def inside(folder: Path, seed: int) -> tuple[dict[str, Array], tuple[int, int]]:
    """Return which new targets each interval of a default run holds [NEW], and what the answer says of the own one."""
    rng = np.random.default_rng([56, seed])
    table, new = drawn(rng, LENGTH), drawn(rng, NEW)
    np.savetxt(folder / "t.csv", table, delimiter=",", header="a,b,y", comments="")
    np.savetxt(folder / "new.csv", new[:, :2], delimiter=",", header="a,b", comments="")
    files = ("dataset=csv", f"dataset.path={folder / 't.csv'}", f"dataset.new={folder / 'new.csv'}")
    request, _ = read_request(["experiment=guarantee", *files, "dataset.target=y", f"seed={seed}", *FAST])
    (task,) = (each for each in EXPERIMENTS.get("guarantee").plan(request) if each.axes["part"] == ROWS)
    (record,) = execute_group([task], 1)
    found, y = record.arrays, new[:, 2]
    names = ("gp", "conformal", "jackknife")
    return {name: (found[f"{name}_low"] <= y) & (y <= found[f"{name}_high"]) for name in names}, own_intervals_held(
        record
    )


@pytest.mark.slow
@pytest.mark.guarantee
def test_intervals_hold_and_the_printed_count_is_that_of_new_rows(tmp_path: Path) -> None:
    found = [inside(tmp_path, seed) for seed in range(TABLES)]
    first = {name: sum(bool(held[name][0]) for held, _ in found) for name in found[0][0]}
    shares = np.array([held["gp"].mean() for held, _ in found])
    # the count that is printed would be this large with probability below SIGN if the true coverage were the share
    above = sum(
        binom.sf(count - 1, rows, share) < SIGN for share, (_, (count, rows)) in zip(shares, found, strict=True)
    )
    print(f"held the first new target: {first} of {TABLES}; own intervals held {shares.mean():.3f} of new targets, ")
    print(f"least {shares.min():.3f}; count too high for that in {above} tables")
    assert min(first.values()) >= binom.ppf(LEVEL, TABLES, COVERAGE)
    assert above <= binom.isf(LEVEL, TABLES, SIGN)
