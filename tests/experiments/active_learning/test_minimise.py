"""The comparison of safe optimisers: its tasks, one search of every method, and what its goals read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.experiments.active_learning.minimise import ENGINE, GOALS, OURS, TITLES, goal_table, group, statistics
from gpsuite.experiments.base import EXPERIMENTS, Record, Report, Request, SharedWork
from tests.experiments.composed_settings import composed_settings
from tests.experiments.drawn import drawn

NAME = "active_learning/minimise"


def request_of(*words: str) -> Request[Any]:
    return read_request([f"experiment={NAME}", "scale=smoke", *words], allow_absent=True)[0]


def made_up(method: str, kind: str, number: int, regret: float, unsafe: int = 0, made: int = 20) -> Record:
    curve = np.linspace(1.0, regret, 21)
    numbers = {"queries": made, "unsafe_queries": unsafe, "regret": regret}
    axes: dict[str, str | int | float] = {"kind": kind, "method": method, "repetition": number}
    return Record("", NAME, "", axes, "done", "", numbers, {"cpu_seconds": 2.0}, arrays={"regret": curve})


def found_in(records: list[Record], tmp_path: Path) -> dict[str, float]:
    request = request_of("queries=20", "shown=[20]")
    kinds = sorted({str(record.axes["kind"]) for record in records})
    numbers = statistics(group(Report(request, records, tmp_path, "")), kinds, 0.05)
    assert {goal.statistic for goal in GOALS} <= {each.name for each in numbers}
    return {each.name: each.value for each in numbers} | {"held": (goal_table(numbers)["verdict"] == "holds").sum()}


def test_every_method_searches_the_same_tasks() -> None:
    request = request_of("kinds=[bowl,steps]", "repetitions=2")
    tasks = EXPERIMENTS.get(NAME).plan(request)
    seeds = {(task.axes["kind"], task.axes["repetition"], task.params.seed) for task in tasks}
    assert len(tasks) == 2 * 2 * len(TITLES)
    assert len(seeds) == 4


def test_every_method_searches_once_and_is_drawn(tmp_path: Path) -> None:
    request = request_of("kinds=[bowl]", "queries=2", "shown=[2]")
    entry = EXPERIMENTS.get(NAME)
    tasks = entry.plan(request)
    outcomes = [entry.run(task, SharedWork()) for task in tasks]
    for outcome in outcomes:
        assert outcome.metrics["queries"] == len(outcome.arrays["row"])
        assert outcome.metrics["unsafe_queries"] == outcome.arrays["unsafe"].sum()
        curve = outcome.arrays["regret"]
        assert curve[0] == 1.0 and (np.diff(curve) <= 0.0).all() and len(curve) == 3
    records = [
        Record("", NAME, "", task.axes, "done", "", outcome.metrics, {"cpu_seconds": 1.0}, arrays=outcome.arrays)
        for task, outcome in zip(tasks, outcomes, strict=True)
    ]
    entry.summarise(Report(request, records, tmp_path, "note"))
    assert set(drawn(tmp_path, "minimise")["method"]) == set(TITLES)
    lines = (tmp_path / "tables" / "minimise.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 2 * len(TITLES)


def test_goals_that_are_met_and_that_are_not(tmp_path: Path) -> None:
    kinds = ("bowl", "steps")
    good = [made_up(OURS, kind, number, 0.02) for kind in kinds for number in range(3)]
    theirs = [made_up(name, kind, 0, 0.2) for name in TITLES if name != OURS for kind in kinds]
    found = found_in([*good, *theirs], tmp_path)
    assert found["regret_ratio[to=safeopt]"] == pytest.approx(0.1)
    assert found["unsafe_kinds"] == 0 and found["stopped_early"] == 0
    assert found["unsafe_share_upper"] == pytest.approx(1.0 - 0.05 ** (1.0 / 120.0))
    assert found["held"] == len(GOALS)
    bad = [made_up(OURS, "bowl", 0, 0.9, unsafe=8), made_up(OURS, "steps", 0, 0.9, made=7)]
    found = found_in([*bad, *theirs], tmp_path)
    assert found["unsafe_kinds"] == 1 and found["stopped_early"] == 1
    assert found["held"] == 0


def test_a_regret_that_is_negligible_counts_as_such(tmp_path: Path) -> None:
    records = [made_up(name, "bowl", 0, 0.0 if name == OURS else 0.001) for name in TITLES]
    assert found_in(records, tmp_path)["regret_ratio[to=losbo]"] == 1.0


def test_the_paper_scale_has_two_hundred_searches_of_each_kind_and_the_engine() -> None:
    settings = composed_settings(NAME)
    assert settings.repetitions == 200
    assert ENGINE in settings.kinds and len(settings.kinds) == 16


def test_the_guide_tells_the_published_comparison() -> None:
    root = Path(__file__).parents[3]
    page = " ".join((root / ".github/guide/optimise.md").read_text(encoding="utf-8").split())
    tables = root / "results/published" / NAME / "paper~ten_draws/tables"
    found, timing, goals = (pd.read_csv(tables / f"{name}.csv") for name in (
        "minimise", "minimise_timing", "minimise_goals",
    ))  # fmt: skip
    for _, row in found[found["kind"] == "all"].iterrows():
        regrets = " | ".join(f"{row[f'median regret at {count}']:.2f}" for count in (10, 20, 40))
        told = f"{100.0 * row['unsafe share']:.2f} % | {regrets} |"
        assert re.search(rf"\| {re.escape(row['searched by'])} \| [^|]+ \| {re.escape(told)}", page), told
    ours = found[(found["searched by"] == TITLES[OURS]) & (found["kind"] != "all")].set_index("kind")
    assert ours["unsafe share"].idxmax() == "plateau_cliff" and ours["median regret at 20"].idxmax() == "short_waves"
    upper = goals.set_index("goal")["found"].filter(like="upper 95 %").iloc[0]
    seconds = timing.set_index("searched by")["CPU seconds per query"]
    for said in (
        f"({100.0 * ours['unsafe share'].max():.1f} % unsafe)",
        f"(regret {ours['median regret at 20'].max():.2f} after 20 queries)",
        f"at most {100.0 * upper + 0.005:.2f} % are",
        f"{seconds[TITLES[OURS]]:.2f} CPU seconds",
    ):
        assert said in page, said
    assert set(goals["verdict"]) == {"holds"} and "All six goals hold" in page and len(goals) == 6
