"""A run's answer in sentences: answer.md, and page.html with figures, tables and sentences in one file."""

from __future__ import annotations

import base64
import io
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load
from gpsuite.data.spec import CSV_OPTIONS, CsvSpec
from gpsuite.data.table.names import name_list
from gpsuite.data.table.new_rows import unread_rows
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee.checks import CONTRADICTED, DOUBTFUL, Check, bands_apart, order_says_nothing
from gpsuite.experiments.guarantee.saved import FOLDER, SavedRegression, unpacked, write_model
from gpsuite.experiments.guarantee.tasks import BAND_GROUP, GuaranteeSettings, off_by, tolerances_of
from gpsuite.experiments.perturbation.region import mean_width
from gpsuite.experiments.sentences import MODEL_WORDS, at_most, band_holds, errors_bounded
from gpsuite.methods.conformal import jackknife_bounded
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.files import cannot, read_bytes, write_text
from gpsuite.text import counted, html, markdown
from gpsuite.untrusted import UnusableFileError, read_png

if TYPE_CHECKING:
    import pandas as pd


STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem;color:#222}"
    "img{max-width:100%;height:auto}table{border-collapse:collapse;font-size:14px}"
    "td,th{border:1px solid #ccc;padding:.2rem .5rem;text-align:left}div.wide{overflow-x:auto}"
    ".contradicted{color:#b00;font-weight:600}"
)


def write_answer(folder: Path, title: str, sentences: Sequence[str]) -> list[str]:
    """Write answer.md and page.html from the sentences, and the tables and figures in the run's folder.

    An empty sentence begins a paragraph.

    Returns:
        what is wrong with the pictures and tables that were left out.

    Raises:
        ResultsError: if a file cannot be read or written.
    """
    lines = [f"- {markdown(text)}" if text else "" for text in sentences]
    assumptions = folder / "tables" / "assumptions.md"
    table = ["", read_bytes(assumptions).decode("utf-8")] if assumptions.exists() else []
    write_text(folder / "answer.md", "\n".join([f"# {markdown(title)}", "", *lines, *table, ""]))
    page, faults = _page(folder, title, sentences)
    write_text(folder / "page.html", page)
    return faults


def _page(folder: Path, title: str, sentences: Sequence[str]) -> tuple[str, list[str]]:
    """Return the page, and what is wrong with the pictures and tables that it leaves out."""
    import pandas as pd

    items = []
    for text in filter(None, sentences):
        mark = ' class="contradicted"' if text.startswith("Contradicted") else ""
        items.append(f"<li{mark}>{html(text.strip())}</li>")
    figures, faults = [], []
    for path in sorted((folder / "figures").glob("*.png")):
        try:
            source = base64.b64encode(read_png(path)).decode("ascii")
        except UnusableFileError as error:
            faults.append(str(error))
        else:
            figures.append(f'<figure><img alt="{html(path.stem)}" src="data:image/png;base64,{source}"></figure>')
    tables = []
    options: dict[str, Any] = {"index": False, "escape": False, "float_format": "{:.4g}".format}
    for path in sorted((folder / "tables").glob("*.csv")):
        if path.stem == "statistics":
            continue
        try:
            table = pd.read_csv(io.BytesIO(read_bytes(path))).rename(columns=html)
        except (OSError, ValueError) as error:
            faults.append(str(cannot("read", path, error)))
        else:
            table = table.map(lambda cell: html(cell) if isinstance(cell, str) else cell)
            tables.append(f'<h2>{html(path.stem)}</h2><div class="wide">{table.to_html(**options)}</div>')
    lines = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{html(title)}</h1><ul>",
        *items,
        "</ul>",
        *figures,
        *tables,
        "</body></html>",
        "",
    ]
    return "\n".join(lines), faults


# What every answer of guarantee leaves behind: sentences, assumptions, page, predictions and the model.


APART = "Each of these holds on its own with the probability it names, not all of them together."
KEPT, JUDGED = "the kept model", "a model trained in the same way without the test rows"
SECONDS = "budget.seconds ended the searches"
USEFUL = 0.5  # a bound on a share above this helps nobody
NO_BAND = "too few rows, inputs that depend on each other, or rows that belong together"


def tell(report: Report[GuaranteeSettings], said: Sequence[str], checks: Sequence[Check]) -> list[Statistic]:
    """Print and write the answer and the assumptions; return how many are contradicted."""
    report.answer.extend(said)
    report.answer.append(f"predictions.csv, answer.md, page.html and the model are in {report.folder};")
    report.answer.append(f"gpsuite predict {shlex.quote(str(report.folder))} NEW.csv predicts further rows")
    if checks:
        report.table(assumption_table(checks), "assumptions", "What the guarantees assume, and what the data say")
    title = f"{report.request.require_dataset().shown_name}, answered"
    report.warnings.extend(write_answer(report.folder, title, [*report.answer, *report.request.doubts]))
    contradicted = sum(check.verdict == CONTRADICTED for check in checks)
    return [Statistic("contradicted", contradicted, n=len(checks) or None)]


def assumption_table(checks: Sequence[Check]) -> pd.DataFrame:
    """Return one row per assumption."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "assumption": check.assumption,
                "needed by": check.needed_by,
                "finding": check.finding,
                "verdict": check.verdict,
            }
            for check in checks
        ]
    )


def row_numbers(record: Record, data: Dataset) -> dict[str, IntArray]:
    """Return what names the predicted rows, [B]: `row` of their file, from 1, or `line` of the table they are from.

    Args:
        record: of the rows to predict.
        data: the table that was learned from.
    """
    examples = record.arrays["examples"]
    if len(examples) and data.lines is not None:
        return {"line": data.lines[examples]}
    if len(examples):
        return {"row": examples + 1}
    unread = unread_of(record)
    every = np.arange(1, len(record.arrays["outside"]) + len(unread) + 1)
    return {"row": np.setdiff1d(every, np.array(list(unread), dtype=np.int64))}


def unread_of(record: Record) -> dict[int, str]:
    """Return number of a new row -> why it is not predicted."""
    pairs = (line.split(" ", 1) for line in str(record.metrics.get("unread", "")).splitlines())
    return {int(row): reason for row, reason in pairs}


def add_ranges(frame: pd.DataFrame, ranges: FloatArray, tolerances: Sequence[float]) -> None:
    """Add the columns of the proved ranges [B', K, 2] of the first rows, empty for the others."""
    for place, tolerance in enumerate(tolerances):
        for end, word in enumerate(("low", "high")):
            values = np.full(len(frame), np.nan)
            values[: len(ranges)] = ranges[:, place, end]
            frame[f"proved_{word}_{tolerance:g}"] = values


def keep(report: Report[GuaranteeSettings], record: Record, frame: pd.DataFrame, said: Sequence[str]) -> None:
    """Write predictions.csv and the model with what was proved of it, whichever rows it predicts."""
    frame = with_unread(frame, unread_of(record))
    write_text(report.folder / "predictions.csv", frame.to_csv(index=False, lineterminator="\n"))
    try:
        write_model(unpacked(record.arrays, tuple(filter(None, said))), report.folder / FOLDER)
    except OSError as error:
        raise cannot("write", report.folder / FOLDER, error) from error
    target = load(report.request.require_dataset()).target_names[0]
    report.table(frame, "predictions", f"{report.request.require_dataset().shown_name}: {target}")


def with_unread(frame: pd.DataFrame, unread: Mapping[int, str]) -> pd.DataFrame:
    """Return the table of predictions by `row` with the rows that are not predicted, and the column that says why."""
    if not unread:
        return frame
    every = sorted({*frame["row"], *unread})
    whole = frame.set_index("row").reindex(every).rename_axis("row").reset_index()
    return whole.assign(not_predicted=[unread.get(row, "") for row in every])


def heading(report: Report[GuaranteeSettings], data: Dataset) -> str:
    """Return what was read, and as what."""
    target, name = data.target_names[0], report.request.require_dataset().shown_name
    return (
        f"{name}: {len(data.X)} rows, {counted(data.X.shape[1], 'input')}; {data.task} of {target} "
        f"(dataset.task= says otherwise)"
    )


def goal_error(record: Record) -> float:
    """Return the error that matters, in own units."""
    return float(record.arrays["errors"][int(record.number("goal"))])


def regression_sentences(
    report: Report[GuaranteeSettings], parts: dict[str, Record], bands: Sequence[Record]
) -> list[str]:
    """Return what is proved of a regression's models, whichever rows they predict."""
    data = load(report.request.require_dataset())
    said = [heading(report, data), ""]
    if "judged" in parts:
        said += [*_test_sentences(parts["judged"], report.settings, data.target_names[0]), *which_test_rows(data)]
    if "bounded" in parts:
        said += [*_pac_bayes_sentences(parts["bounded"], report.settings, data.target_names[0])]
    if len(parts.keys() & {"judged", "bounded"}) == 2 and report.settings.accuracy is None:
        said.append(
            f"Both errors are {report.settings.epsilon:g} in standard deviations of the target, by the rows that scale "
            "each model; accuracy=VALUE states one in own units."
        )
    if "judged" in parts:
        said += [*_interval_sentences(parts["judged"], report.settings, data.target_names[0])]
    said += [*_band_sentences(bands, report.settings, data.target_names[0])]
    return said


def which_test_rows(data: Dataset) -> list[str]:
    """Return what the test rows are where they are not drawn at random, and so what the guarantees are about."""
    if data.clusters is not None:
        groups = counted(int(data.clusters.max()) + 1, "group")
        return [
            f"  The test rows are one row of each of some of the {groups} by {data.cluster_name}, and the model saw no "
            "row of these: the guarantees are about a row of a new group."
        ]
    if data.order == "time":
        by = f" in order of {data.time}" if data.time else " of the file"
        said, others = "bounds from them", ""
        if data.task == "regression":
            said, others = (
                "bounds and intervals from them",
                " PAC-Bayes bound and bands are about all past rows together.",
            )
        return [f"  The test rows are the last rows{by}: {said} are about rows that follow as these did.{others}"]
    return []


def learned(record: Record) -> str:
    """Return how many rows the judged model learned from."""
    return f"the model learned from {int(record.number('n_train'))} other rows"


def copies_counted(record: Record) -> str:
    """Return how test rows count that repeat others, where there are some."""
    copies = int(record.number("n_copies"))
    return f"; {copies} more are copies, and the bound is the worse with or without them" if copies else ""


def _test_sentences(record: Record, settings: GuaranteeSettings, target: str) -> Iterator[str]:
    goal = int(record.number("goal"))
    bound, share = float(record.arrays["bounds"][goal]), float(record.arrays["shares"][goal])
    n = int(record.number("n_test"))
    error = f"{at_most(goal_error(record))} ({target})"
    yield f"Test rows: {errors_bounded(settings.delta, bound, error, JUDGED)}"
    paid = f"paid for {len(record.arrays['errors'])} errors together"
    counted = f"{round(share * n)} of the {n} test rows were{copies_counted(record)}"
    yield f"  ({counted}; {learned(record)}; {paid}.)"


def _pac_bayes_sentences(record: Record, settings: GuaranteeSettings, target: str) -> Iterator[str]:
    goal, bounds = int(record.number("goal")), record.arrays["bounds"]
    error = f"{at_most(goal_error(record))} ({target})"
    yield f"PAC-Bayes: {errors_bounded(settings.delta, float(bounds[goal]), error, KEPT)}"
    if bounds[goal] > USEFUL:
        yield "  A larger error (accuracy=), better inputs, or more rows may help; how many, the data do not say."
    useful = np.flatnonzero(bounds < 1.0)
    if bounds[goal] >= 1.0 and len(useful):
        wide = f"{at_most(float(record.arrays['errors'][useful[0]]))} ({target})"
        yield f"  {errors_bounded(settings.delta, float(bounds[useful[0]]), wide, KEPT)}"


def own_interval_sentence(held: tuple[int, int], settings: GuaranteeSettings) -> str:
    """Return what the intervals `gp_low` to `gp_high` of predictions.csv held."""
    return (
        f"The model's own {100 * settings.coverage:g} % intervals (gp_low, gp_high) are no guarantee: those of {KEPT} "
        f"held {held[0]} of {held[1]} targets, each row left out in turn."
    )


def _interval_sentences(record: Record, settings: GuaranteeSettings, target: str) -> Iterator[str]:
    level, radius = f"{100 * settings.coverage:g} %", record.metrics["conformal_radius"]
    n = int(record.number("n_test"))
    copies = int(record.number("n_copies"))
    if radius is None:
        lost = f", with {copies} more that repeat others and count as lost," if copies else ""
        yield f"Split conformal: {n} test rows{lost} are too few for an interval of {level}."
    else:
        yield (
            f"Split conformal: a new {target} lies within {at_most(record.number('conformal_radius'))} of the "
            f"prediction of {JUDGED} with probability {level} or more."
        )
    models, repeats = int(record.number("jackknife_rows")), int(record.number("jackknife_lost"))
    if jackknife_bounded(models, settings.coverage, repeats):
        yield f"Jackknife+: its interval of each row (predictions.csv) holds a new {target} with {level} or more."
    else:
        counted = f", {repeats} of which repeat others and count as lost," if repeats else ""
        yield f"Jackknife+: {models} test rows left out in turn{counted} are too few for an interval of {level}."


def _band_sentences(bands: Sequence[Record], settings: GuaranteeSettings, target: str) -> Iterator[str]:
    confidence = 1.0 - settings.excluded / settings.m
    for record in bands:
        width = mean_width(record, settings.excluded)
        yield band_holds(confidence, str(record.axes["model"]), width, target, BAND_GROUP)
    apart, places = bands_apart(bands, settings.excluded)
    if apart:
        yield f"  The two bands exclude each other at {apart} of {places} places: one of the two functions is not true."
    shown = {str(record.axes["model"]) for record in bands}
    for model in MODEL_WORDS:
        if shown and model not in shown:
            yield f"Band: none for a function that is {MODEL_WORDS[model]} ({NO_BAND})."
    if not bands:
        yield f"Band: does not apply ({NO_BAND})."


def range_sentences(record: Record, settings: GuaranteeSettings, data: Dataset) -> Iterator[str]:
    """Yield what is proved of the predicted rows, and how many lie outside the training range."""
    ranges, prediction = record.arrays["ranges"], record.arrays["prediction"][: len(record.arrays["ranges"])]
    for place, tolerance in enumerate(tolerances_of(data, settings)):
        seen = np.isfinite(ranges[:, place]).all(axis=1)
        if seen.all() or (seen.any() and record.metrics.get("cut")):
            moved = float(np.max(np.abs(ranges[seen, place] - prediction[seen, None])))
            rest = "" if seen.all() else f"; not proved for {np.count_nonzero(~seen)} more, {SECONDS}"
            yield (
                f"Proved: if {off_by(data, tolerance)}, predictions of {np.count_nonzero(seen)} "
                f"{bounded_rows(record)} move by at most {at_most(moved)} ({data.target_names[0]}){rest}."
            )
    yield from reading_sentences(record)


def bounded_rows(record: Record) -> str:
    """Return what the rows with proved ranges are called."""
    return "rows of the table" if len(record.arrays["examples"]) else "first new rows"


def reading_sentences(record: Record) -> Iterator[str]:
    """Yield how the file of new rows was read, where that was decided, and how many lie outside the training range."""
    for note in str(record.metrics.get("new_notes", "")).splitlines():
        yield f"dataset.new: {note}."
    if unread := unread_of(record):
        yield f"dataset.new: {unread_rows(unread, len(unread) + len(record.arrays['outside']))}."
    outside = int(np.count_nonzero(record.arrays["outside"]))
    if outside:
        rows = len(record.arrays["outside"])
        yield f"{outside} of {rows} rows lie outside the training range: marked in predictions.csv."


def own_intervals_held(record: Record) -> tuple[int, int]:
    """Return how many targets the kept model's intervals hold, each row left out in turn, and of how many.

    With the same hyperparameters, by Rasmussen and Williams 2006, equations 5.10 to 5.12. Copies do not count: a
    row left out would be predicted from its copy.
    """
    model = unpacked(record.arrays, ())
    assert isinstance(model, SavedRegression)  # the rows' task keeps no other
    kept = model.model
    table = np.column_stack([kept.X, model.arrays["y"]])
    _, first, copies = np.unique(table, axis=0, return_index=True, return_counts=True)
    different = first[copies == 1]
    precision = np.sum(kept.root[:, 0] ** 2, axis=0)[different]
    inside = np.abs(kept.alpha[0][different]) <= float(ndtri(0.5 + model.coverage / 2)) * np.sqrt(precision)
    return int(np.count_nonzero(inside)), len(different)


def signs(report: Report[GuaranteeSettings], data: Dataset, checks: Sequence[Check]) -> list[str]:
    """Return a sentence for each assumption that the data contradict or make doubtful, with what to do next."""
    said = [f"{why[0].upper()}{why[1:]}."] if (why := order_says_nothing(data)) else []
    for check in checks:
        if check.verdict not in (CONTRADICTED, DOUBTFUL) or check.p is None:
            continue
        ending = f" Do not rely on: {check.needed_by}." if check.verdict == CONTRADICTED else ""
        said.append(
            f"{check.verdict.capitalize()}: {check.assumption} ({check.finding}).{ending} "
            f"Next: {command(report, check.advice)}"
        )
    return said


def command(report: Report[GuaranteeSettings], words: str) -> str:
    """Return the command that runs this experiment on this table with further words."""
    own, given = CsvSpec(), report.request.require_dataset().spec
    table = {key: given[key] for key in CSV_OPTIONS if given.get("loader") == "csv" and given[key] != getattr(own, key)}
    named = {key: name_list(value) if isinstance(value, list) else value for key, value in table.items()}
    data = [
        "dataset=csv",
        *(f"dataset.{key}={value}" for key, value in named.items() if f"dataset.{key}=" not in words),
    ]
    return " ".join(
        ["gpsuite run experiment=guarantee", *map(shlex.quote, data if table else []), *filter(None, [words])]
    )
