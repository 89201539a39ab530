"""Figures of a measurement plan: curves for one input, a map of entropy and safety for several."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.experiments.active_learning.plan.settings import PlanSettings
from gpsuite.experiments.base import Record, Report
from gpsuite.reporting.palette import BLACK, BLUE, GREEN, LIMIT, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


MOST_POINTS = 4000  # of a scatter plot; more candidates are thinned evenly, the proposed ones stay


MODEL, SAFE, PROPOSED = BLUE, GREEN, VERMILION


OUTPUT_COLOURS = (BLUE, ORANGE, PURPLE, SKY, BLACK, GREEN)


def draw_plan(report: Report[PlanSettings], record: Record, data: Dataset) -> None:
    """Draw `plan`: what the models say at the candidates, and the proposals."""
    if data.X.shape[1] == 1:
        _draw_curves(report, record, data)
    else:
        _draw_map(report, record, data)


def _draw_curves(report: Report[PlanSettings], record: Record, data: Dataset) -> None:
    """Draw every output's prediction, and the probability of being safe, over the one input."""
    frame = candidate_frame(record, data)
    frame = frame.sort_values(frame.columns[0], kind="stable")
    x, outputs = frame.iloc[:, 0].to_numpy(), data.target_names
    rows = len(outputs) + 1
    with report.figure("plan", rows=rows, size=(7.2, 1.0 + 2.1 * rows), sharex=True) as drawing:
        *panels, last = drawing.axes
        for p, (ax, name) in enumerate(zip(panels, outputs, strict=True)):
            mean, sd = frame[f"mean {name}"].to_numpy(), frame[f"sd {name}"].to_numpy()
            ax.fill_between(
                x, mean - 2 * sd, mean + 2 * sd, color=MODEL, alpha=0.2, lw=0, label="2 sd, without noise"
            )
            ax.plot(x, mean, color=MODEL, label="prediction")
            ax.plot(data.X[:, 0], data.y[:, p], "k.", label="measured")
            ax.set_ylabel(name)
        safe = record.arrays["safe"][frame.index]
        _draw_probability(last, x, frame["probability_safe"].to_numpy(), safe, data, report.settings.delta)
        for number, (row, p) in enumerate(_proposals(record), 1):
            at = float(frame.iloc[:, 0].loc[row])
            for ax in panels if p < 0 else [panels[p]]:
                _mark(ax, at, number)
            last.axvline(at, color=PROPOSED, lw=1.0, ls=":")
        last.set_xlabel(data.input_names[0])
        drawing.legend("below")
        drawing.data = frame


def _draw_probability(
    ax: Axes,
    x: npt.NDArray[Any],
    probability: npt.NDArray[Any],
    safe: npt.NDArray[Any],
    data: Dataset,
    delta: float,
) -> None:
    ax.plot(x, probability, color=SAFE, label="probability of being safe")
    ax.fill_between(x, 0.0, 1.0, where=safe, color=SAFE, alpha=0.12, lw=0, label="may be proposed")
    ax.axhline(1.0 - delta, color=LIMIT, lw=0.8, ls="--", label=f"{1.0 - delta:g}")
    if data.safety is not None:
        met = data.safety.safe
        ax.plot(data.X[met, 0], np.ones(met.sum()), "|", color="k", ms=7, label="measured safe")
        bad = ~met & ~np.isnan(data.safety.z)
        if bad.any():
            ax.plot(data.X[bad, 0], np.zeros(bad.sum()), "x", color="k", ms=5, label="measured unsafe")
    ax.set_ylim(-0.05, 1.05)
    ax.set_ylabel(f"P({data.safety.name if data.safety else 'z'} safe)")


def _mark(ax: Axes, at: float, number: int) -> None:
    """Draw a proposal as a line, numbered at the lower edge of an output's panel."""
    label = "proposed, in this order" if number == 1 else "_"
    ax.axvline(at, color=PROPOSED, lw=1.0, ls=":", label=label)
    ax.annotate(
        str(number), (at, 0.03), xycoords=("data", "axes fraction"), color=PROPOSED,
        ha="center", va="bottom", bbox={"boxstyle": "circle,pad=0.15", "fc": "white", "ec": PROPOSED},
    )  # fmt: skip


def _draw_map(report: Report[PlanSettings], record: Record, data: Dataset) -> None:
    """Draw entropy against the probability of being safe at all candidates, and the proposals as ranked bars."""
    frame, enough = candidate_frame(record, data), 1.0 - report.settings.delta
    proposals = _proposals(record)
    kept = _thinned(len(frame), [row for row, _ in proposals])
    size = (11.0, max(4.8, 1.0 + 0.42 * len(proposals)))
    with report.figure("plan", columns=2, size=size, width_ratios=(1.25, 1.0)) as drawing:
        left, right = drawing.axes
        for p, name in enumerate(data.target_names):
            colour = OUTPUT_COLOURS[p % len(OUTPUT_COLOURS)]
            left.plot(
                frame["probability_safe"].iloc[kept], frame[f"entropy {name}"].iloc[kept], ".", ms=3, alpha=0.5,
                color=colour, label=f"{name} at a candidate",
            )  # fmt: skip
        left.axvline(enough, color=LIMIT, lw=0.8, ls="--", label=f"safe enough: above {enough:g}")
        left.set_xlabel("probability of being safe")
        left.set_ylabel("entropy before the plan (nats)")
        for number, (row, p) in enumerate(proposals):
            columns = [f"entropy {name}" for name in (data.target_names if p < 0 else [data.target_names[p]])]
            at = frame[["probability_safe", *columns]].iloc[row].to_numpy()
            label = "_" if number else "proposed"
            left.plot(np.repeat(at[0], len(columns)), at[1:], "o", mfc="none", color=PROPOSED, label=label)
        _draw_bars(right, record, data, proposals)
        drawing.legend("below")
        drawing.data = frame.iloc[kept]


def _draw_bars(ax: Axes, record: Record, data: Dataset, proposals: Sequence[tuple[int, int]]) -> None:
    entropy = record.arrays["proposal_entropy"]
    places = np.arange(len(proposals))
    colours = [PROPOSED if p < 0 else OUTPUT_COLOURS[p % len(OUTPUT_COLOURS)] for _, p in proposals]
    ax.barh(places, entropy, color=colours, alpha=0.75)
    ax.set_yticks(places, [_label(i, *pair, record, data) for i, pair in enumerate(proposals, 1)])
    ax.invert_yaxis()
    ax.axvline(0.0, color=LIMIT, lw=0.8)
    ax.set_xlabel("entropy given the proposals before (nats)")


def _label(number: int, row: int, p: int, record: Record, data: Dataset) -> str:
    what = "all outputs" if p < 0 else data.target_names[p]
    return f"{number}: {what}, candidate {row + 1}\nP(safe) {record.arrays['probability_safe'][row]:.3f}"


def candidate_frame(record: Record, data: Dataset) -> pd.DataFrame:
    """Return one row per candidate: inputs, probability of being safe, mean, sd and entropy of each output."""
    import pandas as pd

    if data.grid is None:
        raise ValueError(f"{data.name} has no candidates")
    columns = {"probability_safe": record.arrays["probability_safe"]}
    for p, name in enumerate(data.target_names):
        columns |= {f"{what} {name}": record.arrays[what][:, p] for what in ("mean", "sd", "entropy")}
    inputs = zip(input_columns(data, list(columns)), data.grid.T, strict=True)
    return pd.DataFrame(dict(inputs) | columns)


def input_columns(data: Dataset, others: Collection[str]) -> list[str]:
    """Return the names of the inputs for a table that has these other columns."""
    return [f"input {name}" if name in others else name for name in data.input_names]


def _proposals(record: Record) -> list[tuple[int, int]]:
    """Return row and output (negative: all) of each proposal."""
    return [(int(row), int(p)) for row, p in zip(record.arrays["row"], record.arrays["output"], strict=True)]


def _thinned(n: int, proposed: Sequence[int]) -> IntArray:
    even = np.unique(np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.int64))
    return np.union1d(even, np.array(proposed, dtype=np.int64))
