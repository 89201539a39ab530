"""Results of a run: validity first, every cell, the best valid statement of each, and what to choose when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.experiments.base import SKIPPED, Report
from gpsuite.experiments.guarantee.tasks import ERROR_RATE
from gpsuite.experiments.league.plan import EVERY, INTERVAL, ROBUST, ROBUST_RANGE, SETS, LeagueSettings
from gpsuite.experiments.league.validity import counted_failures, judgements
from gpsuite.experiments.sentences import percent_down, percent_up
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.palette import numbered_style
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd

STATED = ("stated", "stated_error")
CELL = ["dataset", "task", "size", "method", "statement", "question"]
OVERALL = ["question", "method", "statement"]
ASKED = (ERROR_RATE, INTERVAL, SETS, ROBUST, ROBUST_RANGE)  # questions in the order of the tables
WORDS = {
    "dataset": "table",
    "method": "model",
    "stated": "stated, mean over seeds",
    "stated_error": "standard error",
    "failed": "share that failed",
    "failed_low": "from (95 %)",
    "failed_high": "to (95 %)",
    "seconds": "CPU seconds",
    "memory": "peak memory of the process, MB",
    "least": "least",
    "most": "largest",
}


def summarise(report: Report[LeagueSettings]) -> list[Statistic]:
    """Write validity first, then tightness and cost of every cell, the best valid statements, and what to choose."""
    tasks = {name: data.task for name, data in report.request.datasets.items()}
    frame = judgements(report.records(), report.titles, tasks)
    if frame.empty:
        return []
    settings = report.settings
    judged = frame.groupby(CELL).ngroups + frame.groupby(OVERALL).ngroups
    overall = counted_failures(frame, OVERALL, settings, judged)
    cells = counted_failures(frame, CELL, settings, judged)
    cells["marked"] |= _marked_overall(cells, overall)
    delta, coverage = settings.delta, settings.coverage
    promises = f"bounds fail with probability {delta:g}, intervals and sets hold {100 * coverage:g} % of rows"
    report.table(overall.drop(columns=[*STATED, "unit"]), "league_validity", f"Validity: {promises}", WORDS)
    report.table(cells, "league", f"Every statement on every table: {promises}. Marked if it fails its promise", WORDS)
    best = best_statements(cells)
    report.table(best, "league_best", "The tightest statement that is not marked, by table, size and question", WORDS)
    sizes = sizes_table(cells, settings)
    report.table(sizes, "league_sizes", "From size to size: what the tables' mean statements are", WORDS)
    cost = frame.groupby(["method", "size"], sort=False)[["seconds", "memory"]].median().reset_index()
    report.table(cost, "league_timing", "What one model costs with all its statements, medians", WORDS)
    report.answer.extend([*choices(best, sizes, overall), *skipped(report)])
    _draw(report, sizes)
    statistics = [Statistic("marked", float(overall["marked"].sum()), n=len(overall))]
    for row in overall.to_dict("records"):
        name = statistic_name("failed", method=row["method"], statement=row["statement"].replace(",", ""))
        statistics.append(Statistic(name, row["failed"], n=row["seeds"]))
    return statistics


def _marked_overall(cells: pd.DataFrame, overall: pd.DataFrame) -> Any:
    marked = set(overall.loc[overall["marked"], OVERALL].itertuples(index=False, name=None))
    return np.array([key in marked for key in cells[OVERALL].itertuples(index=False, name=None)])


def says_something(cells: pd.DataFrame) -> Any:
    """Return which rows state more than nothing: a finite size, a bound below 1."""
    return np.isfinite(cells["stated"]) & ((cells["kind"] != "bound") | (cells["stated"] < 1.0))


def best_statements(cells: pd.DataFrame) -> pd.DataFrame:
    """Return of each table, size and question the tightest statement that is not marked."""
    valid = cells[~cells["marked"] & says_something(cells) & cells["question"].isin(ASKED)]
    places = valid.groupby(["dataset", "size", "question"], sort=False)["stated"].idxmin()
    names = ["dataset", "size", "question", "statement", "method", *STATED, "unit"]
    found: pd.DataFrame = valid.loc[places, names]
    return found.sort_values(["question", "dataset"], kind="stable")


def sizes_table(cells: pd.DataFrame, settings: LeagueSettings) -> pd.DataFrame:
    """Return how what is stated changes with the size: over tables the least, the median and the largest mean."""
    grouped = cells.groupby(["question", "task", "method", "statement", "unit", "size"], sort=False)
    found = grouped.agg(
        tables=("dataset", "nunique"),
        least=("stated", "min"),
        median=("stated", "median"),
        most=("stated", "max"),
        marked=("marked", "sum"),
    )
    return found.reset_index().assign(delta=settings.delta, epsilon=settings.epsilon)


def choices(best: pd.DataFrame, sizes: pd.DataFrame, overall: pd.DataFrame) -> Iterator[str]:
    """Yield what to choose when, a sentence per question and size, and which statements fail their promise."""
    for question in ASKED:
        own = best[best["question"] == question]
        for size in sizes.loc[sizes["question"] == question, "size"].unique():
            at = own[own["size"] == size]
            if len(at):
                counts = at["statement"].value_counts()
                name, count = str(counts.index[0]), int(counts.iloc[0])
                of = counted(len(at), "table")
                yield f"{question.capitalize()}, {size} rows: {name} is tightest on {count} of {of}."
    marked = overall[overall["marked"]]
    for row in marked.to_dict("records"):
        failed, may = percent_down(row["failed"]), percent_up(row["promised"])
        yield f"Fails its promise: {row['statement']} ({row['method']}), {failed} where {may} are allowed."
    for row in overall[~overall["marked"] & (overall["p"] < 1.0)].to_dict("records"):
        failed, may = percent_down(row["failed"]), percent_up(row["promised"])
        yield f"Failed more often than promised, too few draws to decide: {row['statement']}, {failed} for {may}."
    if marked.empty:
        yield f"No statement fails its promise, of {len(overall)} that were judged."


def skipped(report: Report[LeagueSettings]) -> Iterator[str]:
    """Yield a sentence per reason why methods were skipped."""
    reasons: dict[str, dict[str, None]] = {}
    for record in report.planned:
        if record.status == SKIPPED:
            reasons.setdefault(record.reason, {})[report.titles[str(record.axes["method"])]] = None
    for reason, titles in reasons.items():
        yield f"Skipped: {' and '.join(titles)}. {reason[:1].upper()}{reason[1:]}."


def _draw(report: Report[LeagueSettings], sizes: pd.DataFrame) -> None:
    """Draw the median statement over tables, a panel per question and a mark per size, hollow where one is marked."""
    shown = sizes[sizes["question"].isin(ASKED) & np.isfinite(sizes["median"])]
    asked = [question for question in ASKED if (shown["question"] == question).any()]
    names = {question: list(dict.fromkeys(shown.loc[shown["question"] == question, "statement"])) for question in asked}
    lines = [len(names[question]) for question in asked]
    size = (7.0, 0.24 * sum(lines) + 0.95 * len(asked) + 1.0)
    with report.figure("league", rows=len(asked), size=size, gridspec_kw={"height_ratios": lines}) as drawing:
        for ax, question in zip(drawing.axes, asked, strict=True):
            own = shown[shown["question"] == question]
            values = own[["median", "most"]].to_numpy()
            edge = 1.08 * float(values[np.isfinite(values)].max()) or 1.0
            for number, name in enumerate([*map(str, report.settings.sizes), EVERY]):
                at, colour = own[own["size"] == name], numbered_style(number)["color"]
                places = [names[question].index(statement) for statement in at["statement"]]
                faces = ["none" if marked else colour for marked in at["marked"]]
                if len(at):
                    ax.hlines(places, at["least"], at["most"].clip(upper=edge), color=colour, lw=1.0)
                    ax.scatter(
                        at["median"], places, edgecolors=colour, facecolors=faces, label=f"{name} rows", zorder=3
                    )
            ax.set_yticks(range(len(names[question])), names[question])
            ax.set_ylim(len(names[question]) - 0.5, -0.5)
            ax.set_xlim(0.0, edge)
            ax.set_xlabel(" or ".join(dict.fromkeys(own["unit"])))
            ax.set_title(question)
        drawing.legend("below")
        drawing.data = shown
