"""league: what counts as a failure, that a planted one is marked, and that its numbers are those of guarantee."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from gpsuite import cli
from gpsuite.config.request import read_request
from gpsuite.data.loading import load
from gpsuite.experiments.base import EXPERIMENTS, Record, SharedWork
from gpsuite.experiments.guarantee.told import public_tables
from gpsuite.experiments.league.plan import EVERY, LeagueSettings, NumbersTask, plan, sizes_of
from gpsuite.experiments.league.run import INSIDE, attacks, own_table
from gpsuite.experiments.league.summary import CELL, best_statements
from gpsuite.experiments.league.validity import CONTRADICTED, chance, counted_failures, failure, judgements

SHORT = ("scale=smoke", "datasets=[diabetes]", "methods=[kl_pac_gp]", "seeds=1", "parallel=serial")


@cache
def settings_of(*words: str) -> LeagueSettings:
    found = read_request(["experiment=league", "scale=smoke", *words])[0].settings
    assert isinstance(found, LeagueSettings)
    return found


@given(st.integers(1, 40), st.floats(0.001, 0.999), st.data())
def test_the_chance_is_never_below_the_binomial_tail(count: int, promised: float, data: Any) -> None:
    held = data.draw(st.integers(0, count))
    assert chance(held / count, promised, count) >= binom.sf(held - 1, count, promised) * (1.0 - 1e-9)


def test_a_promise_of_no_failure_is_broken_by_one() -> None:
    assert chance(0.0, 0.0, 20) == 1.0
    assert chance(1e-6, 0.0, 20) == 0.0


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.integers(1, 3000))
def test_a_bound_fails_only_where_fresh_rows_contradict_it(stated: float, missed: float, rows: int) -> None:
    failed = failure("bound", stated, missed, rows)
    if missed <= stated:
        assert failed == 0.0
    elif failed:
        assert binom.sf(math.ceil(missed * rows - 1e-9) - 1, rows, stated) < CONTRADICTED * (1.0 + 1e-9)
    assert failure("bound", math.inf, missed, rows) == 0.0
    assert failure("rows", stated, missed, rows) == failure("proof", stated, missed, rows) == missed


def made_up(seeds: int, **metrics: float) -> list[Record]:
    axes: dict[str, str | int | float] = {"dataset": "t", "size": "100", "rows": 100, "method": "guarantee"}
    return [
        Record(f"{seed}", "league", "", {**axes, "seed": seed}, "done", "", metrics, {"cpu_seconds": 1.0})
        for seed in range(seeds)
    ]


def cells_of(records: list[Record]) -> pd.DataFrame:
    frame = judgements(records, {}, {"t": "regression"})
    return counted_failures(frame, CELL, settings_of(), frame.groupby(CELL).ngroups)


def marks(records: list[Record]) -> dict[str, bool]:
    cells = cells_of(records)
    return dict(zip(cells["statement"], cells["marked"], strict=True))


def test_planted_failures_are_marked_and_never_the_best() -> None:
    right = {"conformal_stated": 2.0, "conformal_missed": 0.1, "conformal_rows": 500}
    wrong = {"gp_stated": 1.0, "gp_missed": 0.3, "gp_rows": 500}  # narrower, and false
    loose = {"test_rows_stated": 0.3, "test_rows_missed": 0.31, "test_rows_rows": 500}  # above, but within chance
    false = {"pac_bayes_stated": 0.1, "pac_bayes_missed": 0.2, "pac_bayes_rows": 500}
    broken = {"ranges_stated": 0.1, "ranges_missed": 0.05, "ranges_rows": 20}
    records = made_up(40, **right, **wrong, **loose, **false, **broken)
    assert marks(records) == {
        "held-out rows, binomial": False,
        "PAC-Bayes of the kept model": True,
        "split conformal": False,
        "the GP's own interval": True,
        "proved ranges of predictions": True,
    }
    best = best_statements(cells_of(records))
    assert dict(zip(best["question"], best["statement"], strict=True)) == {
        "error rate": "held-out rows, binomial",
        "interval": "split conformal",
    }


@settings(deadline=None)
@given(st.integers(2, 60))
def test_as_many_failures_as_promised_are_not_marked(seeds: int) -> None:
    promised = {"conformal_stated": 2.0, "conformal_missed": 0.1, "conformal_rows": 500}
    assert marks(made_up(seeds, **promised)) == {"split conformal": False}


def test_a_few_false_bounds_are_chance_and_many_are_not() -> None:
    false = {"test_rows_stated": 0.1, "test_rows_missed": 0.5, "test_rows_rows": 500}
    held = {**false, "test_rows_missed": 0.05}
    assert marks([*made_up(1, **false), *made_up(19, **held)]) == {"held-out rows, binomial": False}
    assert marks([*made_up(5, **false), *made_up(15, **held)]) == {"held-out rows, binomial": True}


def test_what_says_nothing_is_never_the_best() -> None:
    empty = {"test_rows_stated": 1.0, "test_rows_missed": 0.2, "test_rows_rows": 500}
    unbounded = {"conformal_missed": 0.0, "conformal_rows": 500}  # no finite width
    assert best_statements(cells_of(made_up(3, **empty, **unbounded))).empty


@settings(deadline=None)
@given(st.integers(60, 60000))
def test_every_size_leaves_fresh_rows(rows: int) -> None:
    found = sizes_of(rows, settings_of("sizes=[100,300]", "largest=20000", "least_fresh=50"))
    assert all(size + max(50, rows // 5) <= rows for size in found.values())
    assert list(found.values()) == sorted(found.values())
    assert EVERY not in found or found[EVERY] >= 1.5 * max(size for name, size in found.items() if name != EVERY)


def test_attacks_stay_in_their_box() -> None:
    radii = np.array([0.1, 0.0, 2.0])
    moves = attacks(3, radii)
    assert (np.abs(moves) <= radii).all() and np.isclose(np.abs(moves[:5]), INSIDE * radii).all()


@pytest.fixture(scope="module")
def judged() -> tuple[Any, Any]:
    """A task of a regression, and its outcome."""
    request, _ = read_request(["experiment=league", *SHORT])
    task = next(task for task in plan(request) if isinstance(task.params, NumbersTask))  # type: ignore[arg-type]
    return task, EXPERIMENTS.get("league").run(task, SharedWork())


def test_the_bounds_are_those_of_guarantee_on_the_same_rows(judged: tuple[Any, Any]) -> None:
    task, outcome = judged
    params = task.params
    with own_table(task.require_dataset(), params.rows, params.fresh, params.draw) as drawn:
        table = ["dataset=csv", f"dataset.path={drawn.dataset.spec['path']}", "dataset.target=y", "dataset.strict=true"]
        same = [f"{name}={getattr(settings_of(), name)}" for name in ("most_rows", "max_evaluations", "boxes")]
        request, _ = read_request(["experiment=guarantee", "scale=smoke", *table, f"seed={params.draw}", *same])
        experiment, shared = EXPERIMENTS.get("guarantee"), SharedWork()
        parts = {each.axes["part"]: each for each in experiment.plan(request)}
        for part, name in (("judged", "test_rows"), ("bounded", "pac_bayes")):
            found = experiment.run(parts[part], shared)
            goal = int(found.metrics["goal"] or 0)
            assert outcome.metrics[f"{name}_stated"] == found.arrays["bounds"][goal]


def test_fresh_rows_are_none_of_the_drawn_table(judged: tuple[Any, Any]) -> None:
    task, outcome = judged
    with own_table(task.require_dataset(), 60, 100, 5) as drawn:
        own = {tuple(row) for row in load(drawn.dataset).X}
        assert len(own) == 60 and len(drawn.X) == 100
        assert not own & {tuple(row) for row in drawn.X}
    assert outcome.metrics["conformal_rows"] == 100


def test_a_run_leaves_its_tables_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "league", SHORT[0], "datasets=[diabetes,iris]", *SHORT[2:]]
    assert cli.dispatch(words) == 0
    first = capsys.readouterr()
    assert "that were judged" in first.out or "Fails its promise" in first.out
    (folder,) = (tmp_path / "results/league").iterdir()
    tables = {path.stem: path.read_bytes() for path in (folder / "tables").glob("*.csv")}
    assert {"league", "league_best", "league_sizes", "league_validity", "statistics"} <= set(tables)
    found = pd.read_csv(folder / "tables/league_validity.csv")
    assert {"kl-PAC-GP", "conformal sets, laplace", "jackknife+"} <= set(found["statement"])
    assert cli.dispatch(words) == 0
    assert "3 of 3 tasks are stored" in capsys.readouterr().err
    assert tables == {path.stem: path.read_bytes() for path in (folder / "tables").glob("*.csv")}


def test_certify_quotes_the_public_tables_of_its_size(tmp_path: Path) -> None:
    folder = tmp_path / "published/league/paper/tables"
    folder.mkdir(parents=True)
    common = {"question": "error rate", "task": "regression", "delta": 0.01, "epsilon": 1.0}
    rows = [
        {**common, "statement": "held-out rows, binomial", "size": "100", "tables": 12, "least": 0.04, "most": 0.3051},
        {**common, "statement": "kl-PAC-GP", "size": "100", "tables": 14, "least": 0.5, "most": 0.9},
        {**common, "statement": "held-out rows, binomial", "size": "all", "tables": 13, "least": 0.01, "most": 0.1},
    ]
    pd.DataFrame(rows).to_csv(folder / "league_sizes.csv", index=False)

    def said(count: int, task: str = "regression", **changed: Any) -> list[str]:
        asked = SimpleNamespace(**{"accuracy": None, "delta": 0.01, "epsilon": 1.0, **changed})
        data = SimpleNamespace(X=np.zeros((count, 1)), task=task)
        report = SimpleNamespace(folder=tmp_path / "guarantee/quick~1")
        return public_tables(SimpleNamespace(settings=asked, data=data, report=report))  # type: ignore[arg-type]

    sentence = "On 12 public tables of this size the bound was between 4 % and 30.6 %."
    assert said(100) == said(140) == said(70) == [sentence]
    assert said(60) == said(1000) == said(100, "classification") == []
    assert said(100, accuracy=5.0) == said(100, epsilon=0.5) == said(100, delta=0.05) == []
