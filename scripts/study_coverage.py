"""Compare what guarantee states with rows held out before it sees the file: 40 public tables, 20 splits each.

    python scripts/study_coverage.py FOLDER RESULTS.csv [SECONDS]

FOLDER holds the tables as CSV files. RESULTS.csv gets a line per statement and split; the same command resumes.
The verdicts of all stored splits are printed at the end.

Tables. Files are taken in random order (seed 20261129). A table is drawn if it has 150 to 2,000 rows without an empty
cell, its last column is a target that the command accepts, and it then has 2 to 20 inputs. A quarter of the rows is
held out at random. The settings are those of scale=quick; only training and searches are smaller (`SETTINGS`). Held-out
rows that `predict` refuses, such as those of an unseen level, do not count. Certified accuracies are not judged here.

Verdicts, fixed before the run.

1. Bounds (kept regression, judged regression, judged classifier), each family with probability 1 - delta at all its
   K errors together. A split contradicts a family if at one of the errors the binomial probability of so many or more
   held-out rows above the bound is below 0.01 / K. If the bounds are right, this happens with probability delta + 0.01
   at most. A family is in order if the number of contradicting splits has binomial probability 0.001 or more: over all
   splits, and for each table after Bonferroni over the tables.
2. Conformal and jackknife+ intervals, coverage c. Given a table its random splits are independent, and the expected
   held-out coverage is c or more. If no errors are equal, the held-out hits of a split conformal interval of n
   calibration rows have a beta-binomial law; its mean is c or slightly more. An interval is in order if for each table
   the mean over the splits is above c minus the normal quantile at 0.001 / tables times the law's deviation, and the
   smallest split's probability is 0.001 / all splits or more. Jackknife+ is judged by the same law.
3. The model's own intervals are printed as no guarantee, with the share that they held in the run (each row left out
   in turn). That share is in order if for each table it is not above the mean held-out coverage by more than the
   t quantile at 0.001 / tables times the standard error of their difference over the splits. Tables whose mean
   coverage is below c by more than rule 2's first margin are counted and named, with n the number of left-out rows.
"""

from __future__ import annotations

import csv
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
from scipy import stats

from gpsuite.arrays import FloatArray
from gpsuite.config.request import read_request
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.engine.worker import execute_group, limit_threads
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, SharedWork, Task
from gpsuite.experiments.guarantee.classification import class_probabilities, judged_classifier
from gpsuite.experiments.guarantee.plan import new_rows
from gpsuite.experiments.guarantee.predictions import own_intervals_held
from gpsuite.experiments.guarantee.run import run_judged_classes
from gpsuite.experiments.guarantee.tasks import BOUNDED, JUDGED, ROWS, JudgedClassesTask

SEED, TABLES, SPLITS, HELD_OUT = 20261129, 40, 20, 0.25
SETTINGS = ("scale=quick", "most_rows=300", "max_evaluations=12", "count=1", "boxes=1", "points=1", "tolerances=[0.05]")
DELTA, COVERAGE, LEVEL, SPLIT_LEVEL = 0.01, 0.9, 0.001, 0.01
INTERVALS = ("conformal", "jackknife", "gp")


@dataclass(frozen=True)
class Line:
    """One statement of one split: `stated` of a bound or share, `hits` of `held` held-out rows; see the verdicts."""

    table: str
    split: int
    statement: str
    errors: int  # K of a bound
    rows: int  # calibration or left-out rows of an interval
    stated: float
    hits: int  # rows above the bound's error, or inside the interval
    held: int
    note: str = ""


def drawn_tables(folder: Path) -> list[Path]:
    """Return the tables of the study."""
    files = [path for path in sorted(folder.glob("*.csv")) if path.stat().st_size < 1_000_000]
    found: list[Path] = []
    for place in np.random.default_rng(SEED).permutation(len(files)):
        if len(found) < TABLES and _suits(files[place]):
            found.append(files[place])
    return found


def _read(path: Path) -> pd.DataFrame:
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    return table[~table.isin(["", "NA", "NaN"]).any(axis=1)]


def _suits(path: Path) -> bool:
    try:
        table = _read(path)
        if not 150 <= len(table) <= 2000 or not 3 <= table.shape[1] <= 22:
            return False
        with tempfile.TemporaryDirectory() as folder:
            table.to_csv(Path(folder) / "table.csv", index=False)
            spec = CsvSpec(path=str(Path(folder) / "table.csv"), target=table.columns[-1])
            dataset = prepare(spec, cache_dir=Path(folder))
            return dataset.task in ("regression", "classification") and 2 <= load(dataset).X.shape[1] <= 20
    except (UserError, ValueError):
        return False


def split_lines(path: Path, split: int) -> Iterator[Line]:
    """Yield what one split of a table says."""
    table = _read(path)
    order = np.random.default_rng([SEED, split]).permutation(len(table))
    held = table.iloc[order[: round(HELD_OUT * len(table))]]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table.drop(held.index).to_csv(folder / "table.csv", index=False)
        held.drop(columns=table.columns[-1]).to_csv(folder / "new.csv", index=False)
        words = (
            "experiment=guarantee",
            "dataset=csv",
            f"dataset.path={folder / 'table.csv'}",
            f"dataset.new={folder / 'new.csv'}",
        )
        request, _ = read_request([*words, f"dataset.target={table.columns[-1]}", f"seed={split}", *SETTINGS])
        tasks = {str(task.axes["part"]): task for task in EXPERIMENTS.get("guarantee").plan(request)}
        make = _regression_lines if BOUNDED in tasks else _class_lines
        yield from make(tasks, held.iloc[:, -1].tolist(), path.stem, split)


def _regression_lines(tasks: dict[str, Task[object]], truth: Sequence[str], table: str, split: int) -> Iterator[Line]:
    rows = new_rows(tasks[ROWS].require_dataset())
    assert rows is not None
    y = np.array(truth, dtype=np.float64)[rows.readable]
    bounded, judged, predicted = execute_group([tasks[part] for part in (BOUNDED, JUDGED, ROWS)], 1)
    arrays = predicted.arrays
    for statement, outcome, column in ((BOUNDED, bounded, "prediction"), (JUDGED, judged, "prediction_judged")):
        off = np.abs(arrays[column] - y)
        for error, bound in zip(outcome.arrays["errors"], outcome.arrays["bounds"], strict=True):
            hits = int(np.count_nonzero(off > error))
            yield Line(table, split, statement, len(outcome.arrays["errors"]), 0, float(bound), hits, len(y))
    inside, left_out = own_intervals_held(predicted)
    tests = int(judged.number("n_test") + judged.number("n_copies"))
    counts = {"conformal": tests, "jackknife": int(judged.number("jackknife_rows"))}
    for name in INTERVALS:
        hits = int(np.count_nonzero((arrays[f"{name}_low"] <= y) & (y <= arrays[f"{name}_high"])))
        stated = inside / max(left_out, 1) if name == "gp" else COVERAGE
        yield Line(table, split, name, 1, counts.get(name, left_out), stated, hits, len(y))


def _class_lines(tasks: dict[str, Task[object]], truth: Sequence[str], table: str, split: int) -> Iterator[Line]:
    shared, task = SharedWork(), cast(Task[JudgedClassesTask], tasks[JUDGED])
    outcome, rows = run_judged_classes(task, shared), new_rows(tasks[ROWS].require_dataset())
    assert rows is not None
    model = judged_classifier(task.require_dataset(), task.params.learning, shared)
    places = np.argmax(class_probabilities(model, model.scaled(rows.X[rows.readable])), axis=1)
    wrong = np.array(model.labels)[places] != np.array(truth)[rows.readable]
    bound, hits = float(outcome.metrics["bound"] or 0.0), int(np.count_nonzero(wrong))
    yield Line(table, split, "classes", 1, 0, bound, hits, len(wrong))


def run(folder: Path, results: Path, seconds: float) -> None:
    """Add the splits that are not stored yet, the same split of all tables first."""
    tables, until = drawn_tables(folder), time.monotonic() + seconds
    stored = pd.read_csv(results) if results.exists() else pd.DataFrame({"table": [], "split": []})
    known = set(zip(stored["table"], stored["split"], strict=True))
    for split in range(SPLITS):
        for path in tables:
            if (path.stem, split) in known or time.monotonic() > until:
                continue
            try:
                lines = list(split_lines(path, split))
            except (UserError, KeyError) as error:  # refused, or a training that failed and has no arrays
                lines = [Line(path.stem, split, "refused", 1, 0, 0.0, 0, 0, str(error).splitlines()[0])]
            _append(results, lines)


def _append(results: Path, lines: Sequence[Line]) -> None:
    begins = not results.exists()
    with results.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(Line.__dataclass_fields__))
        if begins:
            writer.writeheader()
        writer.writerows(asdict(line) for line in lines)


def contradicted(lines: pd.DataFrame) -> pd.Series[bool]:
    """Return for each table and split whether held-out rows contradict a family of bounds (rule 1)."""
    chance = stats.binom.sf(lines["hits"].to_numpy() - 1, lines["held"].to_numpy(), lines["stated"].to_numpy())
    below_level = pd.Series(chance < SPLIT_LEVEL / lines["errors"].to_numpy(), index=lines.index)
    return below_level.groupby([lines["table"], lines["split"]]).any()


def judge_bounds(statement: str, lines: pd.DataFrame) -> str:
    signs = contradicted(lines)
    by_table = signs.groupby("table")
    allowed = DELTA + SPLIT_LEVEL
    overall = stats.binom.sf(signs.sum() - 1, len(signs), allowed)
    each = np.asarray(stats.binom.sf(by_table.sum().to_numpy() - 1, by_table.size().to_numpy(), allowed))
    bad = by_table.sum()[each < LEVEL / len(each)]
    verdict = "in order" if overall >= LEVEL and bad.empty else f"NOT in order: {dict(bad)}"
    return f"{statement}: {signs.sum()} of {len(signs)} splits of {len(each)} tables contradict it: {verdict}"


def beta_binomial(lines: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return deviation of the held-out share and probability of so few hits, of each split (rule 2)."""
    n, m = lines["rows"].to_numpy(), lines["held"].to_numpy()
    rank = np.ceil((n + 1) * COVERAGE)
    law = stats.betabinom(m, np.minimum(rank, n), np.maximum(n + 1 - rank, 1))
    bounded = rank <= n  # else the interval is everything
    return np.where(bounded, law.std() / m, 0.0), np.where(bounded, law.cdf(lines["hits"]), 1.0)


def below(lines: pd.DataFrame) -> pd.DataFrame:
    """Return mean coverage, smallest allowed mean and smallest probability of a split, by table (rule 2)."""
    deviation, chance = beta_binomial(lines)
    table = lines.assign(share=lines["hits"] / lines["held"], variance=deviation**2, chance=chance)
    by = table.groupby("table")
    quantile = stats.norm.isf(LEVEL / len(by))
    allowed = COVERAGE - quantile * np.sqrt(by["variance"].sum()) / by.size()
    return pd.DataFrame({"mean": by["share"].mean(), "allowed": allowed, "chance": by["chance"].min()})


def judge_interval(statement: str, lines: pd.DataFrame) -> str:
    found = below(lines)
    bad = found[(found["mean"] < found["allowed"]) | (found["chance"] < LEVEL / len(lines))]
    verdict = "in order" if bad.empty else f"NOT in order: {bad.round(4).to_dict('index')}"
    return f"{statement}: {_spread(found['mean'])}, smallest split {found['chance'].min():.2g}: {verdict}"


def judge_own(statement: str, lines: pd.DataFrame) -> str:
    found = below(lines)
    gap = (lines["stated"] - lines["hits"] / lines["held"]).groupby(lines["table"])
    quantile = stats.t.isf(LEVEL / len(found), np.maximum(gap.size() - 1, 1))
    bad = gap.mean()[gap.mean() > quantile * gap.std() / np.sqrt(gap.size())]
    short = found[found["mean"] < found["allowed"]]
    verdict = "in order" if bad.empty else f"NOT in order: {bad.round(4).to_dict()}"
    said = f"{statement}: {_spread(found['mean'])}; share in the run minus held-out coverage {gap.mean().mean():.4f}"
    return f"{said}: {verdict}. Mean below {COVERAGE:g}: {short['mean'].round(3).to_dict()}"


def _spread(means: pd.Series[float]) -> str:
    return f"mean held-out coverage {means.mean():.4f}, of {len(means)} tables {means.min():.4f} to {means.max():.4f}"


def verdicts(results: Path) -> Iterator[str]:
    lines = pd.read_csv(results)
    refused = lines[lines["statement"] == "refused"]
    yield f"{len(lines.groupby(['table', 'split']))} splits of {lines['table'].nunique()} tables"
    yield f"refused: {len(refused)} splits of {refused['table'].nunique()} tables: {sorted(set(refused['note']))}"
    of = {name: group for name, group in lines[lines["held"] > 0].groupby("statement")}
    judges = {BOUNDED: judge_bounds, JUDGED: judge_bounds, "classes": judge_bounds}
    judges |= {"conformal": judge_interval, "jackknife": judge_interval, "gp": judge_own}
    for name, judge in judges.items():
        if name in of:
            yield judge(name, of[name])


if __name__ == "__main__":
    limit_threads(1)
    run(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else math.inf)
    print(*verdicts(Path(sys.argv[2])), sep="\n")
