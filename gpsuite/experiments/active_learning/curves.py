"""Records of repetitions as learning curves: a metric over the number of measured values, one line per repetition."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.experiments.active_learning.exploration import ActiveSettings
from gpsuite.experiments.base import Record, Report
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.metrics import metric as find_metric
from gpsuite.reporting.palette import LIMIT, method_style, panel, paper_marks
from gpsuite.reporting.tables import estimate_text, summarise_groups
from gpsuite.seeds import stream
from gpsuite.statistics.estimates import Estimate, finite, mean
from gpsuite.statistics.paired import Paired
from gpsuite.statistics.resampling import BOOTSTRAP_INTERVAL, FEWEST_RUNS, percentile_interval, resampled_means
from gpsuite.statistics.significance import LEVEL, least_wilcoxon_p, shown, wilcoxon_p

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


VALUE = "value"  # the metric of `Curves.paired`
DIAGNOSTICS = ("outputs_", "safety_")  # prefixes of what the samplers report


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one method.

    Attributes:
        n_sum: number N_sum of measured output values at each model [T].
        lines: [R, T], one row per repetition. NaN if a repetition has no value.
        repetitions: their numbers [R].
    """

    n_sum: IntArray
    lines: FloatArray
    repetitions: tuple[int, ...]

    def at(self, n_sum: int) -> FloatArray:
        """Return the values of every repetition at one N_sum [R].

        Raises:
            KeyError: if there is no model with so many values.
        """
        found = np.flatnonzero(self.n_sum == n_sum)
        if not len(found):
            raise KeyError(n_sum)
        column: FloatArray = self.lines[:, found[0]]
        return column

    @property
    def mean(self) -> FloatArray:
        """Mean over the repetitions [T]. NaN if none has a value."""
        counts = np.isfinite(self.lines).sum(axis=0)
        total = np.where(np.isfinite(self.lines), self.lines, 0.0).sum(axis=0)
        return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the mean [T]. NaN if fewer than two repetitions have a value."""
        return np.array([mean(finite(column)).error for column in self.lines.T])

    @property
    def heights(self) -> FloatArray:
        """Mean of each repetition over its finite values [R]."""
        found: FloatArray = np.nanmean(self.lines, axis=1)
        return found

    def area(self, first: int, last: int) -> FloatArray:
        """Return each repetition's mean height between two N_sum, by the trapezoidal rule [R]."""
        inside = (self.n_sum >= first) & (self.n_sum <= last)
        x, y = self.n_sum[inside].astype(np.float64), self.lines[:, inside]
        if len(x) < 2:
            return np.asarray(y.mean(axis=1))
        return np.asarray(((y[:, 1:] + y[:, :-1]) / 2.0) @ np.diff(x) / (x[-1] - x[0]))


def paired_curves(first: Curve, second: Curve) -> tuple[Curve, Curve]:
    """Return both curves at the N_sum and in the repetitions that they share, NaN if either has no value."""
    n_sum, left, right = np.intersect1d(first.n_sum, second.n_sum, return_indices=True)
    shared = tuple(repetition for repetition in first.repetitions if repetition in second.repetitions)
    a = first.lines[[first.repetitions.index(r) for r in shared]][:, left]
    b = second.lines[[second.repetitions.index(r) for r in shared]][:, right]
    known = np.isfinite(a) & np.isfinite(b)
    return (Curve(n_sum, np.where(known, a, np.nan), shared), Curve(n_sum, np.where(known, b, np.nan), shared))


@dataclass(frozen=True)
class Curves:
    """The repetitions of several methods.

    Attributes:
        runs: method -> repetition -> its record, methods in the order requested.
    """

    runs: Mapping[str, Mapping[int, Record]] = field(default_factory=dict)

    @classmethod
    def from_records(cls, records: Sequence[Record], methods: Sequence[str]) -> Curves:
        """Sort usable records by method and repetition. Methods without any are left out."""
        runs: dict[str, dict[int, Record]] = {}
        for method in methods:
            found = {
                int(record.axes["repetition"]): record
                for record in records
                if record.usable and record.axes["method"] == method
            }
            if found:
                runs[method] = dict(sorted(found.items()))
        return cls(runs)

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods that have a record."""
        return tuple(self.runs)

    def has(self, method: str, metric: str) -> bool:
        """Return whether the method was run and its records hold this metric."""
        return method in self.runs and all(metric in run.arrays for run in self.runs[method].values())

    def curve(self, method: str, metric: str) -> Curve:
        """Return a metric over the iterations.

        Raises:
            KeyError: if the method has no such metric.
        """
        runs = self.runs[method]
        longest = max((run.arrays["n_sum"] for run in runs.values()), key=len)
        values = np.full((len(runs), len(longest)), np.nan)
        for line, run in zip(values, runs.values(), strict=True):
            found = np.asarray(run.arrays[metric], dtype=np.float64)
            line[: len(found)] = found
        return Curve(np.asarray(longest), values, tuple(runs))

    def per_run(self, method: str, metric: str) -> FloatArray:
        """Return the mean over each repetition's iterations [R], e.g. of what was safe: the share of safe queries."""
        return np.array([float(np.mean(run.arrays[metric])) for run in self.runs[method].values()])

    def final(self, method: str) -> int:
        """Return the last N_sum that a repetition of the method reached."""
        return max(int(run.arrays["n_sum"][-1]) for run in self.runs[method].values())

    @property
    def last(self) -> int:
        """The last N_sum that a repetition of any method reached."""
        return max(self.final(method) for method in self.methods)

    def paired(self, values: Mapping[str, FloatArray]) -> Paired:
        """Return numbers of some methods, one per repetition [R], over all repetitions. The metric is `VALUE`."""
        rows = [
            (method, repetition, float(value))
            for method, found in values.items()
            for repetition, value in zip(self.runs[method], found, strict=True)
        ]
        columns = zip(*rows, strict=True)
        return Paired(dict(zip(("method", "repetition", VALUE), columns, strict=True)), ["repetition"])

    def records(self) -> Iterator[tuple[str, Record]]:
        """Return every record with its method."""
        for method, runs in self.runs.items():
            for record in runs.values():
                yield method, record


PRECISIONS = ("precision_noisy", "precision_true", "marked_safe")
ERRORS = ("rmse", "rmse_all", "rmse_true", "rmse_noisy", "log_density", "log_density_mixture")
SECONDS = ("seconds_outputs", "seconds_safety", "seconds_predict")


def report_curves(report: Report[ActiveSettings], curves: Curves, name: str, what: str) -> None:
    """Write errors at the end, points to thresholds, precision, safe queries, samplers and time.

    Args:
        report: what is written on.
        curves: at least one method.
        name: beginning of the files' names.
        what: the data, in words, for the captions.
    """
    titles, thresholds = report.titles, report.settings.thresholds
    runs = "mean ± standard error over the repetitions"
    report.table(error_table(curves, titles), name, f"{what}: after the last query, {runs}")
    reached = f"{what}: values measured until the mean RMSE is at most a threshold, 95 % bootstrap interval"
    report.table(points_table(curves, titles, thresholds), f"{name}_points", reached)
    precision = precision_table(curves, titles, report.settings.points(curves.last))
    if len(precision):
        report.table(precision, f"{name}_precision", f"{what}: the safety model on the pool, {runs}")
    shares = f"{what}: queries that were safe, in percent. Starting points do not count, 95 % t intervals"
    report.table(safe_table(curves, titles), f"{name}_safe_queries", shares)
    samplers = f"{what}: how the hyperparameters were inferred, means over iterations and repetitions"
    report.table(sampler_table(curves, titles), f"{name}_inference", samplers)
    report.table(timing_table(curves, titles), f"{name}_timing", f"{what}: seconds per repetition")


def _cell(values: FloatArray) -> str:
    return estimate_text(mean(finite(values)))


def error_table(curves: Curves, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the errors of each method's last model."""
    import pandas as pd

    rows = []
    for method in curves.methods:
        last = curves.final(method)
        row: dict[str, object] = {"method": titles[method], "N_sum": last}
        for error in ERRORS:
            has = curves.has(method, error)
            row[find_metric(error).heading] = _cell(curves.curve(method, error).at(last)) if has else None
        row["queries by output (%)"] = queries_by_output(curves, method)
        rows.append({**row, "repetitions": len(curves.runs[method])})
    return pd.DataFrame(rows).dropna(axis=1, how="all")


def queries_by_output(curves: Curves, method: str) -> str:
    """Return the percentage of queries that went to each output, such as `98 / 2`. `all` for full queries."""
    p = np.concatenate([run.arrays["p"] for run in curves.runs[method].values()]).astype(np.int64)
    outputs = sum(name.startswith("rmse_output_") for name in next(iter(curves.runs[method].values())).arrays)
    if (p < 0).any():
        return "all"
    return " / ".join(f"{share:.0f}" for share in 100.0 * np.bincount(p, minlength=outputs) / len(p))


def points_table(curves: Curves, titles: Mapping[str, str], thresholds: Sequence[float]) -> pd.DataFrame:
    """Return the first N_sum at which the mean RMSE is at most each threshold."""
    import pandas as pd

    rows = []
    for threshold in thresholds:
        for method in curves.methods:
            curve = curves.curve(method, "rmse")
            reached = first_below(curve.n_sum, curve.mean, threshold)
            low, high = threshold_interval(curve, threshold)
            rows.append(
                {
                    "RMSE at most": threshold,
                    "method": titles[method],
                    "values": _count(reached, curve),
                    "from": _count(low, curve),
                    "to": _count(high, curve),
                    "repetitions": len(curve.lines),
                }
            )
    return pd.DataFrame(rows)


def _count(points: float, curve: Curve) -> str:
    if math.isnan(points):
        return ""
    return f"{points:.0f}" if math.isfinite(points) else f"above {int(curve.n_sum[-1])}"


def precision_table(curves: Curves, titles: Mapping[str, str], points: Sequence[int]) -> pd.DataFrame:
    """Return the precision of the safety model at some N_sum, one column per method with a safety model."""
    import pandas as pd

    rows = []
    for share in PRECISIONS:
        methods = [method for method in curves.methods if curves.has(method, share)]
        for n_sum in points:
            found = {
                titles[method]: _cell(curves.curve(method, share).at(n_sum))
                for method in methods
                if n_sum in curves.curve(method, share).n_sum
            }
            if found:
                rows.append({"quantity": find_metric(share).heading, "N_sum": n_sum, **found})
    return pd.DataFrame(rows)


def safe_table(curves: Curves, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the share of safe queries by measured z and, if it is known, by the true h."""
    import pandas as pd

    rows = []
    for counting, label in (("safe_noisy", "measured z"), ("safe_true", "true h")):
        for method in (name for name in curves.methods if curves.has(name, counting)):
            shares = 100.0 * curves.per_run(method, counting)
            found = mean(shares).within(0.0, 100.0)
            rows.append(
                {
                    "safe by": label,
                    "method": titles[method],
                    "safe queries (%)": estimate_text(found),
                    "from": found.low,
                    "to": found.high,
                    "worst repetition": float(shares.min()),
                    "repetitions": len(shares),
                }
            )
    return pd.DataFrame(rows)


def sampler_table(curves: Curves, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the diagnostics of both models' hyperparameters, means over iterations and repetitions."""
    import pandas as pd

    rows = []
    for prefix, label in zip(DIAGNOSTICS, ("outputs", "safety"), strict=True):
        for method in curves.methods:
            runs = curves.runs[method].values()
            names = sorted({name for run in runs for name in run.arrays if name.startswith(prefix)})
            if names:
                row: dict[str, object] = {"model": label, "method": titles[method]}
                for name in names:
                    gathered = np.concatenate([run.arrays[name] for run in runs if name in run.arrays])
                    row[name.removeprefix(prefix)] = mean(finite(gathered)).value
                rows.append(row)
    return pd.DataFrame(rows)


def timing_table(curves: Curves, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return CPU seconds per repetition, and where they went."""
    import pandas as pd

    rows = []
    for method in curves.methods:
        runs = curves.runs[method].values()
        row: dict[str, object] = {
            "method": titles[method],
            "CPU seconds": float(np.mean([run.timing.get("cpu_seconds", np.nan) for run in runs])),
            "models": float(np.mean([len(run.arrays["n_sum"]) for run in runs])),
        }
        for name in SECONDS:
            row[find_metric(name).heading] = float(np.mean([run.number(name) for run in runs]))
        row["peak memory (MB)"] = float(np.max([run.timing.get("peak_memory_mb", np.nan) for run in runs]))
        rows.append(row)
    return pd.DataFrame(rows).round(4)


FEWEST = 0.05  # percent of unsafe queries. Fewer lie on the edge
N_LABEL = math_label("measured output values $N_{sum}$")


def errors(units: str) -> dict[str, str]:
    """Return the metrics of most figures of curves with their labels: RMSE in these units, and log density."""
    return {"rmse": f"RMSE ({units})", "log_density": "log density of test data (nats)"}


def draw_curves(
    report: Report[object],
    curves: Curves,
    name: str,
    heading: str,
    metrics: Mapping[str, str],
    *,
    thresholds: Sequence[float] = (),
    titles: Mapping[str, str] | None = None,
    styles: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Draw metrics against N_sum: means over the repetitions, bands of one standard error.

    Args:
        report: what is drawn on.
        curves: at least one method.
        name: file name.
        heading: the data, in words.
        metrics: metric -> axis label, one panel each.
        thresholds: values of the first metric that are marked by a line.
        titles: method -> title; default: the report's.
        styles: method -> properties that replace those of its style.
    """
    frame = curve_frame(curves, tuple(metrics))
    with report.figure(name, columns=len(metrics), size=(5.4 * len(metrics), 4.4)) as drawing:
        for ax, (metric, label) in zip(drawing.axes, metrics.items(), strict=True):
            found = frame[frame["metric"] == metric]
            panel(ax, found, "n_sum", titles or report.titles, kind="band", styles=styles)
            ax.locator_params(axis="x", integer=True)
            ax.set_xlabel(N_LABEL)
            ax.set_ylabel(label)
        for threshold in thresholds:
            drawing.ax.axhline(threshold, color=LIMIT, lw=0.9, ls=":", label=f"threshold {threshold:g}")
        marks = _of(curves, printed_errors(report.printed)) if "rmse" in metrics else []
        paper_marks(drawing.ax, marks)
        drawing.legend("below", columns=4, title=f"mean ± standard error over {_repetitions(curves)}")
        drawing.fig.suptitle(heading)
        drawing.data = with_marks(frame, "rmse", marks)


_ERROR = re.compile(r"rmse\[method=(\w+),n_sum=(\d+)\]")
_POINTS = re.compile(r"points_to_rmse\[method=(\w+),threshold=([\d.]+)\]")
_PRECISION = re.compile(r"safety_precision\[method=(\w+),n_sum=(\d+)\]")

Mark = tuple[str, float, float]
"""Method, N_sum and value of a printed number."""


def printed_errors(printed: Mapping[str, float]) -> list[Mark]:
    """Return the printed errors, and the thresholds at the printed numbers of values that reach them."""
    errors = [
        (found[1], float(found[2]), value) for name, value in printed.items() if (found := _ERROR.fullmatch(name))
    ]
    points = [
        (found[1], value, float(found[2])) for name, value in printed.items() if (found := _POINTS.fullmatch(name))
    ]
    return errors + points


def printed_precisions(printed: Mapping[str, float]) -> list[Mark]:
    """Return the printed precisions of the safety model."""
    return [
        (found[1], float(found[2]), value) for name, value in printed.items() if (found := _PRECISION.fullmatch(name))
    ]


def _of(curves: Curves, marks: Sequence[Mark]) -> list[Mark]:
    return [mark for mark in marks if mark[0] in curves.methods]


def with_marks(frame: pd.DataFrame, metric: str, marks: Sequence[Mark]) -> pd.DataFrame:
    """Return the drawn numbers with the paper's in an extra column."""
    import pandas as pd

    rows = [{"method": name, "n_sum": n_sum, "metric": metric, "printed": value} for name, n_sum, value in marks]
    return pd.concat([frame, pd.DataFrame(rows)], ignore_index=True) if rows else frame


def _repetitions(curves: Curves) -> str:
    counts = [len(runs) for runs in curves.runs.values()]
    fewest, most = min(counts), max(counts)
    count = str(most) if fewest == most else f"{fewest} to {most}"
    return f"{count} repetition{'s' if most > 1 else ''}"


def curve_frame(curves: Curves, metrics: Sequence[str]) -> pd.DataFrame:
    """Return mean, standard error and 95 % interval of each metric, one row per method, N_sum and metric."""
    import pandas as pd

    parts = []
    for metric in metrics:
        rows = [
            {"method": method, "n_sum": int(n_sum), metric: value}
            for method in curves.methods
            if curves.has(method, metric)
            for n_sum, column in zip(
                curves.curve(method, metric).n_sum, curves.curve(method, metric).lines.T, strict=True
            )
            for value in column
        ]
        if rows:
            parts.append(summarise_groups(pd.DataFrame(rows), ["method", "n_sum"], [metric]))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def draw_safety(report: Report[object], curves: Curves, name: str, heading: str) -> None:
    """Draw the share of unsafe queries by both countings, and the precision of the safety model against N_sum."""
    frame, precisions = safety_frame(curves), _of(curves, printed_precisions(report.printed))
    remark = (
        f"{_repetitions(curves)}. Left: 95 % t intervals, below {FEWEST:g} % drawn there. Right: ± standard error. "
        f"Dotted: {100.0 * DEMANDED:g} % safe, as requested"
    )
    with report.figure(name, remark=remark, columns=2, size=(10.8, 4.4)) as drawing:
        left, right = drawing.axes
        _draw_shares(left, curves, frame, report)
        precision = frame[frame["metric"] == "precision_noisy"]
        if len(precision):
            panel(right, precision, "n_sum", report.titles, kind="band")
            paper_marks(right, precisions)
            right.legend()
        right.axhline(DEMANDED, color=LIMIT, lw=0.9, ls=":")
        right.locator_params(axis="x", integer=True)
        right.set_xlabel(N_LABEL)
        right.set_ylabel("share truly safe (by measured z)\namong pool points marked safe")
        right.set_title("precision of the safety model")
        drawing.fig.suptitle(heading)
        drawing.data = with_marks(frame, "precision_noisy", precisions)


def _draw_shares(ax: Axes, curves: Curves, frame: pd.DataFrame, report: Report[object]) -> None:
    """Draw the shares of unsafe queries with 95 % t intervals: filled by measured z, outlined by the true h, if known.

    Unsafe ones, on a logarithmic axis: of shares of safe queries near 100 % nobody sees the difference.
    """
    both = bool((frame["metric"] == "safe_true").any())
    places = {"safe_noisy": -0.2, "safe_true": 0.2} if both else {"safe_noisy": 0.0}
    for number, method in enumerate(curves.methods):
        style = method_style(method)
        for metric, place in places.items():
            found = frame[(frame["method"] == method) & (frame["metric"] == metric)]
            if len(found):
                line = found.iloc[0]
                unsafe = np.array([line["mean"], line["interval_high"], line["interval_low"]], dtype=np.float64)
                value, low, high = np.clip(100.0 - unsafe, FEWEST, 100.0)
                fill = style["color"] if metric == "safe_noisy" else "white"
                ax.errorbar(
                    [number + place],
                    [value],
                    yerr=[[value - low], [high - value]],
                    fmt=style["marker"],
                    color=style["color"],
                    mfc=fill,
                    ms=7,
                    capsize=3,
                )
    names = [f"safe_query_percent[method={method}]" for method in curves.methods]
    shown = zip(curves.methods, range(len(names)), names, strict=True)
    marks = [
        (method, x - 0.35, max(FEWEST, 100.0 - report.printed[name]))
        for method, x, name in shown
        if name in report.printed
    ]
    paper_marks(ax, marks)
    if marks:
        ax.legend(loc="upper left")
    ax.axhline(100.0 * (1.0 - DEMANDED), color=LIMIT, lw=0.9, ls=":")
    titles = [report.titles[method] for method in curves.methods]
    ax.set_xticks(range(len(curves.methods)), titles)
    ax.set_xlim(-0.4, len(curves.methods) - 0.6)
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylabel("unsafe queries (%)")
    ax.set_title("by measured z (filled) and true h (outlined, with interval)" if both else "by measured z")


def _percentage(values: Sequence[float]) -> Estimate:
    return mean(values).within(0.0, 100.0)


def safety_frame(curves: Curves) -> pd.DataFrame:
    """Return the shares of safe queries in percent with their intervals, and the precision over N_sum."""
    import pandas as pd

    parts = []
    for metric in ("safe_noisy", "safe_true"):
        rows = [
            {"method": method, metric: 100.0 * value}
            for method in curves.methods
            if curves.has(method, metric)
            for value in curves.per_run(method, metric)
        ]
        if rows:
            parts.append(summarise_groups(pd.DataFrame(rows), ["method"], [metric], _percentage))
    precision = curve_frame(curves, ("precision_noisy", "precision_true"))
    return pd.concat([*parts, precision], ignore_index=True)


# What Li et al. 2022 state about learning curves and safety, as statistics over the repetitions.


AL, RS, IND, NOSAFE = "al_mogp", "rs_mogp", "al_indgps", "al_mogp_nosafe"
SAFE_METHODS = (AL, RS, IND)
COMPETITORS = (RS, IND)
DEMANDED = 0.95  # share of safe queries, and precision of the safety model
BOOTSTRAP = 2000
NOT_REACHED = "not reached"


def first_below(n_sum: IntArray, mean: FloatArray, threshold: float) -> float:
    """Return the first N_sum at which a mean curve is at most the threshold. Infinite if it never is."""
    reached = np.flatnonzero(mean <= threshold)
    return float(n_sum[reached[0]]) if len(reached) else float("inf")


def run_means(curve: Curve, name: str) -> FloatArray:
    """Return mean curves over runs drawn with replacement [BOOTSTRAP, T].

    Curves of the same number of runs take the same draws, so that paired methods stay paired.
    """
    return resampled_means(curve.lines, BOOTSTRAP, stream(0, "bootstrap", name))


def wilcoxon_claim(
    name: str, pairs: Sequence[tuple[FloatArray, FloatArray]], level: float, *others: bool, note: str = ""
) -> Statistic:
    """Return the share of pairs whose first values are smaller (Wilcoxon), and of other cells, that hold.

    NaN with a note if there are too few repetitions for any data to reach the level.
    """
    fewest = min(len(first) for first, _ in pairs)
    if least_wilcoxon_p(fewest) >= level:
        few = f"{fewest} repetitions cannot give p < {level:g} in a paired Wilcoxon test"
        return Statistic(name, float("nan"), n=0, note="; ".join(part for part in (few, note) if part))
    cells = (shown(wilcoxon_p(first, second), wilcoxon_p(second, first), level) for first, second in pairs)
    return claim(name, [*cells, *others], note)


def safety_statistics(curves: Curves) -> list[Statistic]:
    """Return the mean share of safe queries in percent, by measured z, and by the true h if it is known."""
    found = []
    for method in curves.methods:
        by_z = 100.0 * curves.per_run(method, "safe_noisy")
        found.append(Statistic.of(statistic_name("safe_query_percent", method=method), mean(by_z)))
        if curves.has(method, "safe_true"):
            by_h = 100.0 * curves.per_run(method, "safe_true")
            found.append(Statistic.of(statistic_name("truly_safe_query_percent", method=method), mean(by_h)))
    return found


def error_statistics(curves: Curves, points: Sequence[int]) -> list[Statistic]:
    """Return the mean RMSE at the named N_sum and at the last one, and the smallest mean on the way."""
    found = []
    for method in curves.methods:
        curve = curves.curve(method, "rmse")
        for n_sum in sorted({*points, curves.final(method)} & set(curve.n_sum.tolist())):
            name = statistic_name("rmse", method=method, n_sum=n_sum)
            found.append(Statistic.of(name, mean(finite(curve.at(n_sum)))))
        cells = [mean(finite(column)) for column in curve.lines.T]
        found.append(extreme(statistic_name("min_rmse", method=method), cells, min))
    return found


def extreme(name: str, cells: Sequence[Estimate], pick: Callable[..., Estimate], note: str = "") -> Statistic:
    """Return the smallest or largest of some means, with its own interval, which ignores the choice.

    Args:
        name: of the statistic.
        cells: the means. Those that could not be computed do not count, unless none could.
        pick: min or max.
        note: what a reader should know next to how many there were.
    """
    known = [cell for cell in cells if not math.isnan(cell.value)] or [Estimate(math.nan)]
    chosen = pick(known, key=lambda cell: cell.value)
    counted = f"of {len(known)} means, with the interval of that one" if len(known) > 1 else ""
    return Statistic.of(name, chosen, note="; ".join(part for part in (counted, note) if part))


def threshold_statistics(curves: Curves, threshold: float) -> list[Statistic]:
    """Return the points needed for a mean RMSE at most the threshold, with bootstrap intervals."""
    found = []
    for method in curves.methods:
        curve = curves.curve(method, "rmse")
        axes: dict[str, str | float] = {"method": method, "threshold": threshold}
        reached = first_below(curve.n_sum, curve.mean, threshold)
        low, high = threshold_interval(curve, threshold)
        note = "" if np.isfinite(reached) else f"{NOT_REACHED} up to {curve.n_sum[-1]} points"
        name = "" if np.isnan(low) else BOOTSTRAP_INTERVAL
        points = Estimate(reached, n=len(curve.lines), low=low, high=high, interval=name)
        found.append(Statistic.of(statistic_name("points_to_rmse", **axes), points, "points", note))
    return found


def threshold_interval(curve: Curve, threshold: float) -> tuple[float, float]:
    """Return the bootstrap interval of the points to a threshold. Infinite if runs do not reach it.

    NaN for fewer than `FEWEST_RUNS`, since it holds their mean too seldom: of five normal values in 84 % of cases.
    """
    if len(curve.lines) < FEWEST_RUNS:
        return math.nan, math.nan
    means = run_means(curve, "points_to_rmse")
    return percentile_interval([first_below(curve.n_sum, each, threshold) for each in means])


def precision_statistics(curves: Curves, points: Sequence[int]) -> list[Statistic]:
    """Return the safety model's mean precision by measured z at each N_sum, and the claims about all of them."""
    found, cells = [], []
    for method in (name for name in SAFE_METHODS if curves.has(name, "precision_noisy")):
        curve = curves.curve(method, "precision_noisy")
        for n_sum in (n for n in points if n in curve.n_sum):
            name = statistic_name("safety_precision", method=method, n_sum=n_sum)
            cells.append(mean(finite(curve.at(n_sum))))
            found.append(Statistic.of(name, cells[-1]))
    if not cells:
        return []
    return [
        *found,
        claim("share_safety_precision_surely_above_0_95", [cell.shows_above(DEMANDED) for cell in cells]),
        extreme("min_safety_precision", cells, min),
    ]


def best_statistics(curves: Curves) -> list[Statistic]:
    """Return whether AL_MOGP ends with the smallest error while safe, and with the largest log density."""
    if AL not in curves.methods:
        return []
    last = curves.final(AL)
    rivals = [name for name in COMPETITORS if name in curves.methods and curves.final(name) == last]
    if len(rivals) < len(COMPETITORS):
        return []
    compared = (AL, *rivals)
    errors = curves.paired({name: curves.curve(name, "rmse").at(last) for name in compared})
    pairs = [errors.pair(VALUE, AL, name) for name in rivals]
    safe = float(curves.per_run(AL, "safe_noisy").mean()) >= DEMANDED
    densities = {name: curves.curve(name, "log_density").at(last) for name in compared}
    paired = curves.paired({name: -values for name, values in densities.items()})
    higher = [paired.pair(VALUE, AL, name) for name in rivals]
    means = ", ".join(f"{name} {np.nanmean(values):.3f}" for name, values in densities.items())
    return [
        wilcoxon_claim("share_smallest_rmse_and_safe", pairs, LEVEL, safe),
        wilcoxon_claim("share_highest_log_density", higher, LEVEL, note=f"mean log density at {last}: {means}"),
    ]


def area_statistics(curves: Curves, level: float) -> list[Statistic]:
    """Return whether the area under AL_MOGP's RMSE curve is below each competitor's (paired Wilcoxon)."""
    rivals = [name for name in COMPETITORS if name in curves.methods]
    if AL not in curves.methods or not rivals:
        return []
    areas = curves.paired({name: whole_area(curves, name) for name in (AL, *rivals)})
    pairs = [areas.pair(VALUE, AL, name) for name in rivals]
    return [wilcoxon_claim("share_smallest_rmse_area", pairs, level)]


def whole_area(curves: Curves, method: str) -> FloatArray:
    """Return each repetition's mean RMSE over the whole curve [R]."""
    curve = curves.curve(method, "rmse")
    return curve.area(int(curve.n_sum[0]), int(curve.n_sum[-1]))
