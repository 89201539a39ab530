"""league: what counts as a failure, that a planted one is marked, and that its numbers are those of guarantee."""

from __future__ import annotations

import json
import math
import sys
import tomllib
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from gpsuite import cli
from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.data.loading import load
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, Record, Report, SharedWork
from gpsuite.experiments.guarantee import told
from gpsuite.experiments.guarantee.told import public_tables
from gpsuite.experiments.league import run as league_run
from gpsuite.experiments.league.intervals import Ends, OwnRows, interval_method, process
from gpsuite.experiments.league.plan import EVERY, LeagueSettings, NumbersTask, TemperedTask, plan, sizes_of
from gpsuite.experiments.league.run import INSIDE, attacks, class_changes, own_table
from gpsuite.experiments.league.summary import CELL, OVERALL, _draw, best_statements, choices, sizes_table
from gpsuite.experiments.league.validity import CONTRADICTED, chance, counted_failures, failure, judgements
from gpsuite.experiments.sentences import percent_down, percent_up
from gpsuite.experiments.wasserstein.fitting import fit_regression
from gpsuite.methods.conformal import jackknife_plus, split_radius
from gpsuite.models.classification.multiclass_posterior import centred_root, softmax_moments
from gpsuite.seeds import derived_seed

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


def test_the_answer_names_what_failed_more_often_than_promised_without_a_mark() -> None:
    doubtful = {"gp_stated": 1.0, "gp_missed": 0.2, "gp_rows": 500}
    right = {"conformal_stated": 2.0, "conformal_missed": 0.1, "conformal_rows": 500}
    frame = judgements(made_up(5, **doubtful, **right), {}, {"t": "regression"})
    overall, cells = (counted_failures(frame, by, settings_of(), 4) for by in (OVERALL, CELL))
    said = list(choices(best_statements(cells), sizes_table(cells, settings_of()), overall))
    assert said[0] == "Interval, 100 rows: the GP's own interval is tightest on 1 of 1 table."
    assert said[1:] == [
        "Failed more often than promised, too few draws to decide: the GP's own interval, 20 % for 10 %.",
        "No statement fails its promise, of 2 that were judged.",
    ]


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


@pytest.mark.parametrize(
    ("error", "second", "changes"),
    [(0.0, [0.5, 0.4, 0.1], False), (0.0, [0.4, 0.5, 0.1], True), (0.06, [0.4, 0.5, 0.1], False),
     (0.04, [0.4, 0.5, 0.1], True), (0.0, [0.45, 0.45, 0.1], False), (0.06, [math.nan] * 3, True)],
)  # fmt: skip
def test_a_move_breaks_a_proof_by_more_than_the_errors_only(error: float, second: list[float], changes: bool) -> None:
    p = np.array([[0.6, 0.3, 0.1], second])
    assert class_changes(p - error, p + error) == changes


def test_the_error_of_ten_nearly_equal_classes_breaks_no_proof() -> None:
    """The last class is ahead by the same mean everywhere, but Sobol points rank another one first somewhere."""
    rng = np.random.default_rng(0)
    mean = np.zeros((60, 10))
    mean[:, 9] = 2e-4
    scale = rng.uniform(0.5, 1.5, 60)[:, None, None]
    found = softmax_moments(mean, np.sqrt(scale) * centred_root(np.eye(10)[None]))
    assert len(set(found.mean.argmax(axis=1))) > 1
    assert not class_changes(found.mean - found.error[:, None], found.mean + found.error[:, None])


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


def test_inputs_that_are_constant_in_the_drawn_rows_are_left_out() -> None:
    prepared = read_request(["experiment=league", "scale=smoke", "datasets=[digits]"])[0].datasets["digits"]
    whole = load(prepared).X
    with own_table(prepared, 60, 100, 5) as drawn:
        own, names = load(drawn.dataset).X, load(drawn.dataset).input_names
        assert 0 < own.shape[1] < whole.shape[1] and (np.ptp(own, axis=0) > 0.0).all()
        kept = whole[:, [int(name.removeprefix("x")) for name in names]]
        rows = {tuple(row) for row in kept}
        assert all(tuple(row) in rows for row in (*own, *drawn.X))


def test_rows_that_no_search_has_reached_do_not_judge_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["datasets=[iris]", "methods=[laplace]", "seeds=1", "boxes=20"]
    request: Any = read_request(["experiment=league", "scale=smoke", *words])[0]
    [task] = plan(request)
    ended = SimpleNamespace(clock=SimpleNamespace(exhausted=True))
    monkeypatch.setattr(league_run, "Searches", SimpleNamespace(of=lambda task, work: ended))
    monkeypatch.setattr(league_run, "proved_safe", lambda model, points, *_: np.zeros(len(points)))
    outcome = EXPERIMENTS.get("league").run(task, SharedWork())
    assert outcome.status == "budget" and "wrong_stated" in outcome.metrics
    assert not [name for name in outcome.metrics if name.startswith(("certified", "stays"))]


def test_a_width_without_an_end_is_drawn_to_the_edge(tmp_path: Path) -> None:
    request: Any = read_request(["experiment=league", "scale=smoke"])[0]
    records = made_up(2, conformal_stated=1.0, conformal_missed=0.1, conformal_rows=100)
    sizes = sizes_table(cells_of(records), settings_of()).assign(most=np.inf)
    _draw(Report(request, records, tmp_path, ""), sizes)
    assert (tmp_path / "figures/league.png").exists()


def test_a_run_leaves_its_tables_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "league", SHORT[0], "datasets=[diabetes,iris]", "methods=[kl_pac_gp,laplace]", *SHORT[3:]]
    assert cli.dispatch(words) == 0
    first = capsys.readouterr()
    assert "that were judged" in first.out or "Fails its promise" in first.out
    (folder,) = (tmp_path / "results/league").iterdir()
    tables = {path.stem: path.read_bytes() for path in (folder / "tables").glob("*.csv")}
    assert {"league", "league_best", "league_sizes", "league_validity", "statistics"} <= set(tables)
    found = pd.read_csv(folder / "tables/league_validity.csv")
    assert {"kl-PAC-GP", "conformal sets, Laplace", "jackknife+"} <= set(found["statement"])
    assert cli.dispatch(words) == 0
    assert "3 of 3 tasks are stored" in capsys.readouterr().err
    assert tables == {path.stem: path.read_bytes() for path in (folder / "tables").glob("*.csv")}


SIZES = {"question": "error rate", "task": "regression", "delta": 0.01, "epsilon": 1.0}
OWN, GP, TEMPERED = "held-out rows, binomial", "the GP's own interval", "tempered interval, GWI"
KEPT, SIZES_TOLD = "PAC-Bayes of the kept model", ("100", "300")
CERTIFIED = "certified accuracy, Laplace"


def sizes_file(folder: Path, *rows: dict[str, Any]) -> None:
    (folder / "league/paper/tables").mkdir(parents=True)
    pd.DataFrame([{**SIZES, **row} for row in rows]).to_csv(
        folder / "league/paper/tables/league_sizes.csv", index=False
    )


def said(results: Path, count: int, task: str = "regression", title: str = "Laplace", **changed: Any) -> list[str]:
    asked = SimpleNamespace(**{"accuracy": None, "delta": 0.01, "epsilon": 1.0, **changed})
    data = SimpleNamespace(X=np.zeros((count, 1)), task=task)
    report = SimpleNamespace(folder=results / "guarantee/quick~1", titles={"name": title})
    return public_tables(SimpleNamespace(settings=asked, data=data, report=report))  # type: ignore[arg-type]


def test_certify_quotes_the_public_tables_of_its_size(tmp_path: Path) -> None:
    sizes_file(
        tmp_path / "published",
        {"statement": OWN, "size": "100", "tables": 12, "least": 0.04, "most": 0.3051},
        {"statement": "kl-PAC-GP", "size": "100", "tables": 14, "least": 0.5, "most": 0.9},
        {"statement": OWN, "size": "all", "tables": 13, "least": 0.01, "most": 0.1},
    )
    sentence = "On 12 public tables of this size the bound was between 4 % and 30.6 %."
    assert said(tmp_path, 100) == said(tmp_path, 140) == said(tmp_path, 70) == [sentence]
    assert said(tmp_path, 60) == said(tmp_path, 1000) == said(tmp_path, 100, "classification") == []
    assert (
        said(tmp_path, 100, accuracy=5.0) == said(tmp_path, 100, epsilon=0.5) == said(tmp_path, 100, delta=0.05) == []
    )


def test_certify_quotes_the_bounds_of_its_own_classifier(tmp_path: Path) -> None:
    ends = {"task": "classification", "size": "100"}
    sizes_file(
        tmp_path / "published",
        {**ends, "statement": f"{OWN}, Laplace", "tables": 4, "least": 0.2, "most": 0.3},
        {**ends, "statement": f"{OWN}, SVGP", "tables": 5, "least": 0.1, "most": 0.9},
    )
    sentence = "On 4 public tables of this size the bound was between 20 % and 30 %."
    assert said(tmp_path, 100, "classification") == [sentence]
    assert said(tmp_path, 100, "classification", title="least squares") == []


def test_certify_quotes_what_ships_where_a_folder_of_results_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(told, "shipped_published_dir", lambda: tmp_path / "shipped")
    assert said(tmp_path, 100) == []
    sizes_file(tmp_path / "shipped", {"statement": OWN, "size": "100", "tables": 3, "least": 0.1, "most": 0.2})
    assert said(tmp_path, 100) == ["On 3 public tables of this size the bound was between 10 % and 20 %."]
    sizes_file(tmp_path / "published", {"statement": OWN, "size": "100", "tables": 2, "least": 0.1, "most": 0.2})
    assert said(tmp_path, 100) == ["On 2 public tables of this size the bound was between 10 % and 20 %."]


def test_the_published_sizes_ship_with_the_package() -> None:
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    published = sorted((root / "results/published").glob(told.SIZES))
    assert [wheel.get(path.relative_to(root).as_posix()) for path in published] == [
        f"gpsuite/{path.relative_to(root / 'results').as_posix()}" for path in published
    ]


def test_what_the_guide_advises_is_what_is_published() -> None:
    page, ten = guide_page(), published_tables("ten_draws")
    sizes, validity = ten["league_sizes"], ten["league_validity"]
    said = [*guide_counts(ten["league_best"]), *guide_rows(sizes, SIZES_TOLD)]
    said.append(f"None of {len(validity)} statements was marked.")
    missed = validity.set_index("statement")["failed"][TEMPERED]
    held = sizes[sizes["question"] == "set of classes"]
    seconds = ten["league_timing"].query("size == @SIZES_TOLD[-1]").set_index("method")["seconds"]
    said += [
        f"missed {percent_down(missed)} of fresh rows instead of 10 %",
        f"sizes lie between {held['least'].min() - 0.005:.2f} and {held['most'].max() + 0.005:.2f}",
        f"takes {seconds['laplace']:.0f} CPU seconds, SVGP {seconds['svgp_classifier']:.0f}.",
    ]
    for each in said:
        assert each in page, each
    assert not validity["marked"].any()
    assert set(sizes.loc[np.isinf(sizes["most"]), "statement"]) == {"jackknife+", "jackknife+, own spread"}


def test_what_the_guide_says_of_a_thousand_rows_is_what_is_published() -> None:
    page, thousand = guide_page(), published_tables("thousand_rows")
    sizes, validity = thousand["league_sizes"], thousand["league_validity"]
    missed = validity.set_index("statement")["failed"][TEMPERED]
    said = [*guide_rows(sizes, ("1000",)), f"None of {len(validity)} statements was marked at 1000 rows."]
    for each in [*said, f"At 1000 rows they missed {percent_down(missed)}"]:
        assert each in page, each
    endless = {"split conformal", "split conformal, own spread", "jackknife+", "jackknife+, own spread"}
    assert not validity["marked"].any()
    assert set(sizes.loc[np.isinf(sizes["most"]), "statement"]) == endless


def test_what_the_guide_says_of_all_rows_is_what_is_published() -> None:
    page, whole = guide_page(), published_tables("whole_tables")
    by = whole["league_sizes"].query("size == @EVERY").set_index("statement")["median"]
    methods = ("kl-PAC-GP", "kl-PAC-SGP", "sqrt-PAC-SGP", "FITC", "VFE", "full GP", KEPT)
    best = by[[name for name in methods if name in by]].sort_values()
    said = f"the held-out bound is {percent_up(by[OWN])}, and the best PAC-Bayes method ({best.index[0]}) states"
    assert f"{said} {percent_up(best.iloc[0])}." in page
    records = Path(__file__).parents[2] / "results/published/league/paper~whole_tables/records.zip"
    lines = zipfile.ZipFile(records).read("records.jsonl").decode("utf-8").splitlines()
    tasks = [json.loads(line)["axes"] for line in lines]
    rows = {task["rows"] for task in tasks if (task["size"], task["method"]) == (EVERY, "kl_pac_sgp")}
    assert f"{min(rows):,} to {max(rows):,} rows" in page
    assert not whole["league_validity"]["marked"].any()


def guide_page() -> str:
    page = Path(__file__).parents[2] / ".github/guide/league.md"
    return " ".join(page.read_text(encoding="utf-8").split())


def published_tables(run: str) -> dict[str, pd.DataFrame]:
    folder = Path(__file__).parents[2] / f"results/published/league/paper~{run}/tables"
    names = ("league_best", "league_sizes", "league_validity", "league_timing")
    return {name: pd.read_csv(folder / f"{name}.csv", dtype={"size": str}) for name in names}


def guide_rows(sizes: pd.DataFrame, told_sizes: Sequence[str]) -> Iterator[str]:
    """Yield the rows of the guide's table of medians."""
    for size in told_sizes:
        by = sizes[sizes["size"] == size].set_index("statement")["median"]
        shares = (percent_up(by[name]) for name in (OWN, KEPT, CERTIFIED))
        widths = (f"{by[name]:.2f}" for name in ("split conformal", "jackknife+", GP))
        yield f"| {size} | {' | '.join([*shares, *widths])} |"
        assert by["split conformal, MAPIE"] == by["split conformal, crepes"]


def guide_counts(best: pd.DataFrame) -> Iterator[str]:
    """Yield on how many tables the statements that the guide names are the tightest, at each size."""
    for question, is_named in (
        ("error rate", lambda names: names.str.startswith(OWN)),
        ("interval", lambda names: names == TEMPERED),
        ("robust accuracy", lambda names: names == CERTIFIED),
    ):
        counts = []
        for size in SIZES_TOLD:
            names = best.loc[(best["question"] == question) & (best["size"] == size), "statement"]
            counts.append(f"{is_named(names).sum()} of {len(names)} tables at {size} rows")
        yield f"tightest on {' and '.join(counts)}"


def rows_of(count: int, seed: int = 3) -> OwnRows:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, 2))
    y = 100.0 + 5.0 * np.sin(X[:, 0]) + rng.normal(size=count)
    return OwnRows(X, y, np.arange(count // 2), np.arange(count // 2, count), 0.9)


def ends_of(name: str, own: OwnRows, X: FloatArray) -> Ends:
    request, _ = read_request(["experiment=league", "scale=smoke", f"methods=[{name}]"])
    options = request.methods[name]
    return interval_method(options).intervals(options, own)(X)


def trained(own: OwnRows, rows: IntArray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return process().fit(own.X[rows], own.y[rows])


@pytest.mark.parametrize(
    ("name", "package", "spread"),
    [("mapie_split", "mapie", False), ("crepes_split", "crepes", False), ("crepes_spread", "crepes", True)],
)
def test_split_intervals_of_a_package_are_ours_about_its_process(name: str, package: str, spread: bool) -> None:
    pytest.importorskip(package)
    own, new = rows_of(60), np.random.default_rng(1).normal(size=(7, 2))
    model = trained(own, own.train)
    (centre, deviation), (mean, width) = (model.predict(X, return_std=True) for X in (own.X[own.aside], new))
    off = np.abs(own.y[own.aside] - centre)
    half = split_radius(off / deviation, 0.9) * width if spread else np.full(7, split_radius(off, 0.9))
    low, high = ends_of(name, own, new)
    assert low == pytest.approx(mean - half, rel=1e-9) and high == pytest.approx(mean + half, rel=1e-9)


def test_mapies_jackknife_is_ours_at_the_same_guarantee() -> None:
    pytest.importorskip("mapie")
    own, new = rows_of(45), np.random.default_rng(1).normal(size=(5, 2))
    models = [trained(own, np.delete(np.arange(45), row)) for row in range(45)]
    off = [abs(own.y[row] - model.predict(own.X[row : row + 1])[0]) for row, model in enumerate(models)]
    predictions = np.stack([model.predict(new) for model in models])
    ours = jackknife_plus(np.array(off), predictions, 0.9)
    for mine, theirs in zip(ours, ends_of("mapie_jackknife", own, new), strict=True):
        assert theirs == pytest.approx(mine, rel=1e-9)


def test_a_missing_package_is_said_and_its_methods_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "league", "scale=smoke", "datasets=[diabetes]", "methods=[mapie_split]", "seeds=1"]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mapie", None)
        assert cli.dispatch([*words, "parallel=serial"]) == 0
    said = "Skipped: split conformal, MAPIE. The package mapie is not installed: pip install 'gpsuite[peers]'."
    assert said in " ".join(capsys.readouterr().out.split())
    pytest.importorskip("mapie")
    assert cli.dispatch([*words, "parallel=serial"]) == 0  # installed by now
    assert "Skipped" not in capsys.readouterr().out
    found = pd.read_csv(next((tmp_path / "results/league").glob("*/tables/league.csv")))
    assert "split conformal, MAPIE" in set(found["statement"])


def methods_of(*words: str) -> dict[str, set[str]]:
    """Return table -> methods of its tasks."""
    request, _ = read_request(["experiment=league", "scale=smoke", "seeds=1", *words])
    found: dict[str, set[str]] = {}
    for task in plan(request):  # type: ignore[arg-type]
        found.setdefault(str(task.axes["dataset"]), set()).add(str(task.axes["method"]))
    return found


def test_a_table_gets_the_methods_that_are_for_it() -> None:
    methods = "methods=[kl_pac_gp,mapie_split,mapie_jackknife,gwi_regression,laplace,ep,svgp_classifier,gwi_classifier]"
    numbers = {"guarantee", "kl_pac_gp", "mapie_split", "mapie_jackknife", "gwi_regression"}
    assert methods_of("datasets=[diabetes,breast_cancer,iris]", methods) == {
        "diabetes": numbers,
        "breast_cancer": {"laplace", "ep", "svgp_classifier", "gwi_classifier"},
        "iris": {"laplace", "svgp_classifier"},
    }
    assert methods_of("datasets=[diabetes]", methods, "sizes=[101]", "largest=101") == {
        "diabetes": numbers - {"mapie_jackknife"}
    }
    assert methods_of("datasets=[diabetes]", methods, "full_rows=50") == {
        "diabetes": numbers - {"kl_pac_gp", "mapie_split"}
    }


def test_tables_that_no_method_is_for_are_one_message() -> None:
    with pytest.raises(UserError, match=r"methods=\[ep\]: none is for the classes of these tables. Add laplace"):
        methods_of("datasets=[iris]", "methods=[ep]")


def test_tempered_intervals_are_those_of_the_trained_regression() -> None:
    words = ["datasets=[diabetes]", "methods=[gwi_kernel_regression]", "seeds=1", "epochs=2"]
    request, _ = read_request(["experiment=league", "scale=smoke", *words])
    task = next(task for task in plan(request) if isinstance(task.params, TemperedTask))  # type: ignore[arg-type]
    outcome = EXPERIMENTS.get("league").run(task, SharedWork())
    params = task.params
    with own_table(task.require_dataset(), params.rows, params.fresh, params.draw) as drawn:
        data = load(drawn.dataset)
        seed = derived_seed(params.draw, "tempered")
        model = fit_regression(params.method, params.training, data.X, data.y[:, 0], seed, Budget())
        mean, variance = model.predict(drawn.X)  # not tempered
        width = 2.0 * norm.ppf(0.95) * np.sqrt(model.found.tempering * variance)
        missed = np.abs(drawn.y - mean) > width / 2.0
        assert outcome.metrics["tempered_stated"] == pytest.approx(width.mean() / data.y.std(), rel=1e-9)
        assert outcome.metrics["tempered_missed"] == missed.mean()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgp_classifier", "gwi_classifier"])
def test_sparse_classifiers_get_certified_accuracies(name: str) -> None:
    words = ["datasets=[synthetic2d]", f"methods=[{name}]", "seeds=1", "boxes=300"]
    request, _ = read_request(["experiment=league", "scale=smoke", *words])
    (task,) = plan(request)  # type: ignore[arg-type]
    found = EXPERIMENTS.get("league").run(task, SharedWork()).metrics
    assert found["certified_stated"] < 1.0 and found["stays_missed"] == 0.0
    assert found["certified_missed"] >= found["wrong_missed"] - 0.5  # of the first fresh rows only
