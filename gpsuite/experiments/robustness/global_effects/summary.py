"""Table, figure and statistics of robustness/explain_synthetic2d and explain_spam."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.robustness.global_effects.claims import global_claims
from gpsuite.experiments.robustness.global_effects.settings import GlobalEffectsSettings
from gpsuite.experiments.robustness.shared.records import timing_table
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, GREY, LIMIT, ORANGE, PURPLE, SKY, VERMILION
from gpsuite.statistics.estimates import corrected_mean

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

COLOURS = {"LIME": ORANGE, "class direction": GREY}
GAMMAS = (SKY, BLUE, VERMILION, GREEN, PURPLE, BLACK)


def summarise(report: Report[GlobalEffectsSettings]) -> list[Statistic]:
    """Write the mean effect of every input, draw it beside LIME's slopes; return whether the two agree."""
    request, settings, records = report.request, report.settings, report.records()
    name = request.experiment.split("/")[1]
    data = load(request.require_dataset())
    ratio = settings.test_rows / settings.train_rows
    if not records:
        return global_claims([], settings.gammas, ratio)
    table = effect_table(records, report.titles, data.input_names, settings.gammas, ratio)
    caption = (
        f"{data.name}: effect of each input on the probability of the positive class, mean over {settings.points} test "
        f"points and {settings.draws} training draws; proved: the mean of proved ends; normed: largest size 1"
    )
    report.table(table, name, caption)
    report.table(timing_table(records, ["method"], report.titles), f"{name}_timing", "CPU seconds per draw")
    draw(report, table, name)
    first = records[0].axes["method"]
    own = [record for record in records if record.axes["method"] == first]
    return global_claims(own, settings.gammas, ratio)


def effect_table(
    records: Sequence[Record],
    titles: Mapping[str, str],
    input_names: Sequence[str],
    gammas: Sequence[float],
    test_over_training: float,
) -> pd.DataFrame:
    """Return one row per method, measure and input: the mean over draws with its interval, and normed to size 1."""
    import pandas as pd

    parts = []
    for method, title in titles.items():
        own = [record for record in records if record.axes["method"] == method]
        if not own:
            continue
        measures = {"LIME": (np.array([record.arrays["lime"].mean(axis=0) for record in own]), None, None)}
        for number, gamma in enumerate(gammas):
            means = [
                np.array([record.arrays[part][number].mean(axis=0) for record in own])
                for part in ("delta", "delta_low", "delta_high")
            ]
            measures[f"Δ, γ = {gamma:g}"] = (means[0], means[1].mean(axis=0), means[2].mean(axis=0))
        measures["class direction"] = (np.array([record.arrays["direction"] for record in own]), None, None)
        for measure, (values, low, high) in measures.items():
            found = [corrected_mean(column, test_over_training) for column in values.T]
            mean = np.array([each.value for each in found])
            largest = np.max(np.abs(mean))
            rows = {
                "method": title,
                "measure": measure,
                "input": list(input_names),
                "mean": mean,
                "interval_low": [each.low for each in found],
                "interval_high": [each.high for each in found],
                "n": len(own),
                "proved_low": np.nan if low is None else low,
                "proved_high": np.nan if high is None else high,
                "normed": mean / largest if largest > 0.0 else mean,
            }
            parts.append(pd.DataFrame(rows))
    return pd.concat(parts, ignore_index=True)


def draw(report: Report[GlobalEffectsSettings], table: pd.DataFrame, name: str) -> None:
    """Draw the normed values: arrows in the plane for two inputs, bars for more."""
    titles = list(dict.fromkeys(table["method"]))
    inputs = list(dict.fromkeys(table["input"]))
    flat = len(inputs) == 2
    size = (6.0 * len(titles), 5.2) if flat else (8.0, 1.0 + 3.2 * len(titles))
    columns = len(titles) if flat else 1
    with report.figure(name, rows=len(titles) // columns, columns=columns, size=size) as drawing:
        drawing.data = table
        for ax, title in zip(drawing.axes, titles, strict=True):
            own = table[table["method"] == title]
            (_draw_arrows if flat else _draw_bars)(ax, own, inputs)
            ax.set_title(title)
        normed = "normed to largest size 1"
        drawing.name_axes(
            f"effect of {inputs[0]}, {normed}" if flat else "input",
            f"effect of {inputs[1]}, {normed}" if flat else f"{normed}\n(ticks: 95 % intervals)",
        )
        drawing.legend("below", 3, "bars: 95 % t intervals over draws" if flat else "")


def measure_colours(own: pd.DataFrame) -> dict[str, str]:
    """Return the colour of each measure of a table, in its order."""
    measures = list(dict.fromkeys(own["measure"]))
    others = iter([GAMMAS[number % len(GAMMAS)] for number in range(len(measures))])
    return {measure: COLOURS.get(measure) or next(others) for measure in measures}


def _draw_arrows(ax: Axes, own: pd.DataFrame, inputs: Sequence[str]) -> None:
    for measure, colour in measure_colours(own).items():
        rows = own[own["measure"] == measure].set_index("input").loc[list(inputs)]
        x, y = rows["normed"]
        ax.plot([0.0, x], [0.0, y], color=colour, lw=2.5, label=measure)
        across, up = _normed_errors(rows).T[:, :, None]
        ax.errorbar([x], [y], xerr=across, yerr=up, color=colour, marker="o", ms=6, elinewidth=0.9, capsize=2)
    ax.axhline(0.0, color=LIMIT, lw=0.8)
    ax.axvline(0.0, color=LIMIT, lw=0.8)
    ax.set_aspect("equal", adjustable="datalim")


def _normed_errors(rows: pd.DataFrame) -> FloatArray:
    """Return how far the intervals reach below and above the normed means, [2, D]."""
    unit = np.abs(rows["mean"]).max() or 1.0
    return np.array([rows["mean"] - rows["interval_low"], rows["interval_high"] - rows["mean"]]) / unit


def _draw_bars(ax: Axes, own: pd.DataFrame, inputs: Sequence[str]) -> None:
    shown = {
        measure: colour for measure, colour in measure_colours(own).items() if measure != "class direction"
    }
    width = 0.8 / len(shown)
    for number, (measure, colour) in enumerate(shown.items()):
        rows = own[own["measure"] == measure].set_index("input").loc[list(inputs)]
        spread = _normed_errors(rows)
        places = np.arange(len(inputs)) + width * (number - 0.5 * (len(shown) - 1))
        ax.bar(places, rows["normed"], width, color=colour, label=measure, yerr=spread, error_kw={"lw": 0.9})
    ax.axhline(0.0, color=LIMIT, lw=0.8)
    ax.set_xticks(range(len(inputs)), list(inputs), rotation=45, ha="right", fontsize=8)
