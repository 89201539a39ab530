"""How often the checks of a table call something contradicted: where nothing is wrong, and where something is.

On twelve kinds of tables of exchangeable rows, also sorted or stored twice, at most 5 % of 200 tables show a
contradiction, as the file is read and where the user says that its rows are in order of time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee import run
from gpsuite.experiments.guarantee.checks import (
    CONTRADICTED,
    LEVEL,
    SAMPLES,
    coverage_p,
    input_pattern,
    order_pattern,
    order_says_nothing,
    row_checks,
    with_verdicts,
)
from gpsuite.experiments.guarantee.tasks import JudgedTask, Learning
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound

ROWS, TABLES, ALLOWED = 80, 200, 0.05
LEARNING = Learning(
    seed=0, goal=1.0, own=False, delta=0.01, coverage=0.9, test_share=0.2, preparation=0.3, most_rows=100,
    max_evaluations=2,
)  # fmt: skip


def plain(rng: np.random.Generator) -> pd.DataFrame:
    a, b = rng.normal(size=(2, ROWS))
    return pd.DataFrame({"a": a, "b": b, "y": a + np.sin(2.0 * b) + 0.5 * rng.normal(size=ROWS)})


def noise(rng: np.random.Generator) -> pd.DataFrame:
    return plain(rng).assign(y=rng.normal(size=ROWS))


def sorted_by_an_input(rng: np.random.Generator) -> pd.DataFrame:
    return plain(rng).assign(a=lambda rows: 3.0 * rows["a"]).sort_values("a")


def sorted_by_the_target(rng: np.random.Generator) -> pd.DataFrame:
    return plain(rng).sort_values("y", ascending=False)


def blocked(rng: np.random.Generator) -> pd.DataFrame:
    kind = rng.integers(0, 4, ROWS)
    frame = plain(rng).assign(kind=np.array(["p", "q", "r", "s"])[kind])
    return frame.assign(y=frame["y"] + 2.0 * kind).sort_values("kind")


def heteroscedastic(rng: np.random.Generator) -> pd.DataFrame:
    frame = plain(rng)
    return frame.assign(y=frame["a"] + np.exp(frame["b"]) * rng.normal(size=ROWS))


def heavy_tailed(rng: np.random.Generator) -> pd.DataFrame:
    frame = plain(rng)
    return frame.assign(y=frame["a"] + rng.standard_t(1.5, ROWS))


def categorical(rng: np.random.Generator) -> pd.DataFrame:
    return plain(rng).assign(kind=rng.choice(["p", "q", "r"], ROWS, p=[0.7, 0.2, 0.1]))


def copied(rng: np.random.Generator) -> pd.DataFrame:
    frame = plain(rng)
    return frame.iloc[rng.integers(0, ROWS, ROWS)]


def rounded(rng: np.random.Generator) -> pd.DataFrame:
    return plain(rng).round({"a": 0, "b": 1, "y": 0})


def counted(rng: np.random.Generator) -> pd.DataFrame:
    return plain(rng).assign(number=np.sort(rng.choice(ROWS + 20, ROWS, replace=False)))


def rare(rng: np.random.Generator) -> pd.DataFrame:
    return plain(rng).assign(b=(rng.uniform(size=ROWS) < 0.1).astype(float))


KINDS = [
    plain, noise, sorted_by_an_input, sorted_by_the_target, blocked, heteroscedastic, heavy_tailed, categorical, copied,
    rounded, counted, rare,
]  # fmt: skip


def contradictions(frame: pd.DataFrame, seed: int, folder: Path) -> tuple[bool, bool]:
    """Return whether a table shows any as it is read, and if it may be in order of time and the user says it is."""
    path = folder / "t.csv"
    frame.to_csv(path, index=False)
    dataset = prepare(CsvSpec(path=str(path), target="y"), cache_dir=folder)
    params = JudgedTask(learning=replace(LEARNING, seed=seed), widths=[1.0])
    task: Any = SimpleNamespace(params=params, require_dataset=lambda: dataset, budget_seconds=None)
    outcome, data = run.run_judged(task, SharedWork()), load(dataset)
    record: Any = SimpleNamespace(number=lambda name: outcome.metrics[name])
    read = data if order_says_nothing(data) else replace(data, order="time")
    return any_contradicted(record, data), any_contradicted(record, read)


def any_contradicted(record: Any, data: Any) -> bool:
    found = with_verdicts(row_checks(data, record, SAMPLES, f"{SAMPLES}, band"))
    return any(check.verdict == CONTRADICTED for check in found)


def drifting(rng: np.random.Generator, rows: int) -> bool:
    """One of three columns ends one standard deviation above its beginning; the user says that the order is time."""
    X = rng.normal(size=(rows, 2))
    X[:, 1] += np.linspace(0.0, 1.5, rows)  # the last third against the first: 1
    data = Dataset("t", "regression", X, rng.normal(size=(rows, 1)), ("a", "b"), ("y",), "hash", order="time")
    record: Any = SimpleNamespace(number=lambda _: rng.uniform())
    return any_contradicted(record, data)


def following(rng: np.random.Generator, rows: int, memory: float) -> bool:
    """Residuals follow each other, and a fifth of the rows are test rows; alone among two checks."""
    steps = rng.normal(size=rows)
    residuals = lfilter([1.0], [1.0, -memory], steps)
    seen = np.sort(rng.choice(rows, rows // 5, replace=False))
    return order_pattern(residuals[seen], rng) < LEVEL / 2


def patterned(rng: np.random.Generator, rows: int) -> bool:
    """Half of the variance of the residuals is a wave over one of two inputs that the model missed."""
    X = rng.uniform(-1.0, 1.0, (rows, 2))
    return input_pattern(X, np.sin(4.0 * X[:, 0]) + 0.7 * rng.normal(size=rows), rng) < LEVEL


def narrow(rng: np.random.Generator, rows: int, held: float) -> bool:
    """Intervals of 90 % hold a smaller share of the targets."""
    return coverage_p(int(rng.binomial(rows, held)), rows, 0.9) < LEVEL


POWER: dict[str, tuple[Callable[[np.random.Generator], bool], float]] = {
    "drift, 90 rows": (lambda rng: drifting(rng, 90), 0.4),
    "drift, 300 rows": (lambda rng: drifting(rng, 300), 0.95),
    "order 0.9, 100 rows": (lambda rng: following(rng, 100, 0.9), 0.45),
    "order 0.9, 500 rows": (lambda rng: following(rng, 500, 0.9), 0.95),
    "order 0.5, 500 rows": (lambda rng: following(rng, 500, 0.5), 0.1),
    "pattern, 20 test rows": (lambda rng: patterned(rng, 20), 0.08),
    "pattern, 60 test rows": (lambda rng: patterned(rng, 60), 0.85),
    "spread 0.75, 60 rows": (lambda rng: narrow(rng, 60, 0.75), 0.7),
    "spread 0.8, 300 rows": (lambda rng: narrow(rng, 300, 0.8), 0.95),
}


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("name", POWER)
def test_a_check_sees_a_violation_as_often_as_the_guide_says(name: str) -> None:
    seen, least = POWER[name]
    share = np.mean([seen(np.random.default_rng([11, seed])) for seed in range(TABLES)])
    print(f"{name}: {100 * share:.0f} %")
    assert share >= least


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
def test_exchangeable_tables_hardly_ever_show_a_contradiction(
    kind: Callable[[np.random.Generator], pd.DataFrame], tmp_path: Path
) -> None:
    found = [contradictions(kind(np.random.default_rng([7, seed])), seed, tmp_path) for seed in range(TABLES)]
    as_read, in_time = np.sum(found, axis=0)
    print(f"{kind.__name__}: {as_read} of {TABLES} as read, {in_time} in order of time")
    assert as_read <= in_time
    assert in_time <= ALLOWED * TABLES
    assert binomial_upper_bound(int(in_time), TABLES, 0.05) <= 2.0 * ALLOWED
