"""Tables as CSV (exact, byte-reproducible), Markdown and LaTeX (rounded)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.reporting.comparison import ComparisonRow, Statistic, statistic_name
from gpsuite.reporting.files import write_text
from gpsuite.reporting.metrics import metric
from gpsuite.text import markdown, visible_lines

if TYPE_CHECKING:
    import pandas as pd

    from gpsuite.statistics.estimates import Estimate

_MISSING = "–"
_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "×": r"$\times$",
    "–": "--",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "σ": r"$\sigma$",
    "γ": r"$\gamma$",
    "²": r"\textsuperscript{2}",
    "\n": " ",
}


def mean_and_error(mean: float, se: float | None) -> str:
    """Return `0.3326 ± 0.0035`: the error with two digits, the mean with as many decimals.

    Without a standard error (one repetition) only the mean. Without a finite mean a dash.
    """
    if not math.isfinite(mean):
        return _MISSING
    if se is None or not math.isfinite(se):
        return _rounded(mean)
    if se <= 1e-12 * abs(mean):  # equal values. Their mean may be an ulp off
        return f"{_rounded(mean)} ± 0"
    exponent = math.floor(math.log10(abs(se)))
    if exponent < -6:
        return f"{mean:.8g} ± {se:.1e}"
    decimals = max(0, 1 - exponent)
    return f"{mean:.{decimals}f} ± {se:.{decimals}f}"


def ours_text(row: ComparisonRow) -> str:
    """Return our value next to a paper's: `6 of 9` of a share, `yes` or `no` of a decision, `0.33 ± 0.02` of a mean."""
    if row.ours is None:
        return ""
    share = row.asked == "in all cells" or row.interval.startswith("95 % Clopper")
    if share and row.interval and row.n and 0.0 <= row.ours <= 1.0:
        return f"{round(row.ours * row.n)} of {row.n}"
    if row.unit == "0 or 1" and row.ours in (0.0, 1.0):
        return "yes" if row.ours else "no"
    if row.standard_error is None or math.isinf(row.ours):
        return f"{row.ours:.4g}"
    return mean_and_error(row.ours, row.standard_error)


def estimate_text(estimate: Estimate) -> str:
    """Return an estimate as a cell: its value and standard error."""
    return mean_and_error(estimate.value, estimate.error)


def summarise_groups(
    frame: pd.DataFrame,
    by: Sequence[str],
    metrics: Sequence[str],
    estimate: Callable[[Sequence[float]], Estimate] | None = None,
) -> pd.DataFrame:
    """Summarise `metrics` over the rows of each group, one line per group and metric.

    Missing values (NaN) do not count. A mean that is not finite is left out. Intervals end where the metric does: for
    a share at 0 and 1. Differences of a metric need another name.

    Args:
        frame: one row per repetition.
        by: the columns that name a group. At least one. Groups are sorted.
        metrics: numeric columns.
        estimate: of a group's mean; default: for independent rows.

    Returns:
        Columns `by`..., metric, mean, standard_error, n, interval_low, interval_high, interval (its name). What the
        estimate does not have is NaN, a missing name empty.
    """
    import pandas as pd

    from gpsuite.statistics.estimates import mean

    lines = []
    for key, group in frame.groupby(list(by), sort=True, dropna=False, observed=True):
        for name in metrics:
            found = (estimate or mean)([float(value) for value in group[name].dropna()])
            found = found.within(*metric(name).possible)
            centre = found.value if math.isfinite(found.value) else math.nan
            lines.append((*key, name, centre, found.error, found.n, found.low, found.high, found.interval))
    columns = [*by, "metric", "mean", "standard_error", "n", "interval_low", "interval_high", "interval"]
    return pd.DataFrame(lines, columns=columns)


def metric_statistics(
    tidy: pd.DataFrame, by: Sequence[str], repetitions: pd.DataFrame | None = None
) -> list[Statistic]:
    """Return every mean of `summarise_groups` as a statistic named `metric[axis=value,...]`.

    Args:
        tidy: the means.
        by: the axes of a group.
        repetitions: the rows behind the means, in their order, if each is compared with another code's.
    """
    from gpsuite.statistics.estimates import Estimate

    groups = {} if repetitions is None else dict(tuple(repetitions.groupby(list(by))))
    found = []
    for _, line in tidy.iterrows():
        axes = {axis: line[axis] for axis in by}
        columns = ("mean", "standard_error", "n", "interval_low", "interval_high")
        value, error, n, low, high = (float(line[column]) for column in columns)
        single = groups[tuple(axes.values())][line["metric"]].astype(float) if groups else ()
        name = statistic_name(line["metric"], **axes)
        mean = Statistic.of(name, Estimate(value, error, int(n), low, high, str(line["interval"])))
        found.append(replace(mean, repetitions=tuple(single)))
    return found


def write_table(
    frame: pd.DataFrame, folder: Path, name: str, caption: str, column_labels: Mapping[str, str] | None = None
) -> None:
    """Write `folder`/`name`.csv, .md and .tex (needs booktabs). The index is not written.

    Args:
        frame: the table. Its column names head the CSV.
        folder: the run's tables folder.
        name: file name without ending, also the LaTeX label `tab:<name>`.
        caption: one sentence, plain text.
        column_labels: headings of .md and .tex that differ from the column names.

    Raises:
        ResultsError: if a file cannot be written.
    """
    labels = [str((column_labels or {}).get(column, column)) for column in frame.columns]
    rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    numeric = [frame[column].dtype.kind in "iuf" for column in frame.columns]
    write_text(folder / f"{name}.csv", frame.to_csv(index=False, lineterminator="\n"))
    write_text(folder / f"{name}.md", _markdown(labels, rows, numeric, caption))
    write_text(folder / f"{name}.tex", _latex(labels, rows, numeric, caption, name))


def _rounded(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 or abs(value) >= 1e9 else f"{value:.0f}"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return _rounded(value) if math.isfinite(value) else (_MISSING if math.isnan(value) else str(value))
    return _MISSING if value is None else str(value)


def _escape(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in visible_lines(text))


def _markdown(labels: list[str], rows: list[list[str]], numeric: list[bool], caption: str) -> str:
    rule = "| " + " | ".join("---:" if right else ":---" for right in numeric) + " |"
    head, *body = ("| " + " | ".join(map(markdown, line)) + " |" for line in (labels, *rows))
    return "\n".join([markdown(caption), "", head, rule, *body, ""])


def _latex(labels: list[str], rows: list[list[str]], numeric: list[bool], caption: str, name: str) -> str:
    def line(cells: list[str]) -> str:
        text = " & ".join(_escape(cell) for cell in cells) + r" \\"
        return (
            f"{{}}{text}" if text[0] in "[*" else text
        )  # otherwise it would be an argument of the line's end before it

    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_escape(caption)}}}",
            rf"\label{{tab:{name}}}",
            rf"\begin{{tabular}}{{{''.join('r' if right else 'l' for right in numeric)}}}",
            r"\toprule",
            line(labels),
            r"\midrule",
            *map(line, rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
