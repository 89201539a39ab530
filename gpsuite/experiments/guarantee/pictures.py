"""The pictures of a run. The page shows each next to its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee.plan import learning_of
from gpsuite.experiments.guarantee.predictions import left_out
from gpsuite.experiments.guarantee.regression import judged_rows
from gpsuite.experiments.guarantee.saved import SavedRegression, unpacked
from gpsuite.experiments.guarantee.tasks import GuaranteeSettings, tolerances_of
from gpsuite.experiments.perturbation.region_problem import MODELS, input_number
from gpsuite.reporting.palette import BLUE, LIMIT, VERMILION

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST_DRAWN = 40  # rows: intervals of more would touch
MOST_TESTED = 200  # test rows in a picture
LEAST_IN_BIN, MOST_BINS = 5, 8
# model, column of the table, how it is drawn and named
CURVES = (
    ("kept", "PAC-Bayes bound, kept model", "o-", BLUE, "PAC-Bayes, kept model"),
    ("judged", "test bound, judged model", "s-", VERMILION, "test rows, test model"),
    ("judged", "share of test rows", "--", "0.4", "share of the test rows"),
)


def draw_bounds(report: Report[GuaranteeSettings], curve: pd.DataFrame) -> None:
    target = load(report.request.require_dataset()).target_names[0]
    with report.figure("bounds", size=(6.4, 4.4)) as drawing:
        ax = drawing.ax
        for model, column, style, colour, label in CURVES:
            ax.plot(curve[f"error, {model} model"], curve[column], style, color=colour, label=label)
        ax.set_xlabel(f"error t ({target})")
        ax.set_ylabel("share of predictions off by more than t")
        ax.set_ylim(-0.02, 1.02)
        drawing.legend("below", columns=3)
        drawing.data = curve


def draw_predictions(report: Report[GuaranteeSettings], frame: pd.DataFrame, split: str) -> None:
    """Draw the first rows' predictions with their intervals and the widest proved range.

    Args:
        report: its sheet.
        frame: the table of predictions.
        split: which split conformal interval the answer names, `spread` or `conformal`.
    """
    shown, data = frame.head(MOST_DRAWN), load(report.request.require_dataset())
    places = np.arange(len(shown))
    with report.figure("predictions", size=(7.0, 4.4)) as drawing:
        ax = drawing.ax
        for shift, name, colour, label in (
            (-0.2, "jackknife", BLUE, "jackknife+, test model"),
            (0.2, split, "0.5", "split conformal, test model"),
        ):
            low, high = shown[f"{name}_low"], shown[f"{name}_high"]
            seen = np.isfinite(low) & np.isfinite(high)
            label += "" if seen.any() else ": unbounded"
            ax.vlines(places[seen] + shift, low[seen], high[seen], color=colour, label=label)
        for widest in tolerances_of(data, report.settings)[-1:]:
            low, high = (shown[f"proved_{end}_{widest:g}"] for end in ("low", "high"))
            label = f"proved, {'numbers' if data.level_inputs else 'inputs'} off by up to {widest:g} sd"
            ax.vlines(places, low, high, color=VERMILION, linewidth=3, label=label)
        ax.plot(places, shown["prediction"], "o", color="black", markersize=4, label="prediction, kept model")
        ax.plot(places, shown["prediction_judged"], "x", color="0.3", markersize=5, label="prediction, test model")
        named = shown.columns[0]  # row or line
        ax.set_xlabel(named)
        ax.set_xticks(places[:: max(1, len(places) // 10)], shown[named][:: max(1, len(places) // 10)])
        ax.set_ylabel(data.target_names[0])
        drawing.legend("below", columns=2)
        drawing.data = shown


def draw_bands(report: Report[GuaranteeSettings], bands: Sequence[Record]) -> None:
    """Draw estimate and band of each model along the input that the target follows most closely."""
    import pandas as pd

    data, q = load(report.request.require_dataset()), report.settings.excluded
    column, frames = input_number(data, ""), []
    with report.figure("bands", columns=len(bands), size=(5.0 * len(bands), 4.2), sharey=True) as drawing:
        for ax, record in zip(drawing.axes, bands, strict=True):
            low, high = (record.arrays[f"pointwise_{end}_{q}"] for end in ("lower", "upper"))
            seen = np.isfinite(low) & np.isfinite(high)
            x, label = record.arrays["x"], f"band, {100 * (1 - q / report.settings.m):g} %"
            ax.fill_between(x, low, high, where=seen, color=BLUE, alpha=0.3, linewidth=0, label=label)
            ax.plot(x, record.arrays["estimate"], color=VERMILION, label="estimate")
            ax.set_title(f"{MODELS[str(record.axes['model'])].title}. Other inputs at their median")
            frames.append(pd.DataFrame({"model": record.axes["model"], "x": x, "lower": low, "upper": high}))
        drawing.name_axes(data.input_names[column], data.target_names[0])
        drawing.legend("below", columns=2)
        drawing.data = pd.concat(frames, ignore_index=True)


def draw_certified(report: Report[GuaranteeSettings], record: Record) -> None:
    import pandas as pd

    arrays = record.arrays
    frame = pd.DataFrame({name: arrays[name] for name in ("tolerances", "certified", "certified_bounds")})
    with report.figure("certified", size=(6.0, 4.2)) as drawing:
        ax = drawing.ax
        ax.plot(frame["tolerances"], frame["certified"], "o--", color=BLUE, label="share of the test rows")
        ax.plot(frame["tolerances"], frame["certified_bounds"], "s-", color=VERMILION, label="proved for new rows")
        ax.set_xlabel("each number off by up to (standard deviations)")
        ax.set_ylabel("certified accuracy (share of rows)")
        ax.set_ylim(-0.02, 1.02)
        drawing.legend("below", columns=2)
        drawing.data = frame


def draw_accuracy(report: Report[GuaranteeSettings], record: Record) -> None:
    """Draw test rows: what the test model predicts against what was true, with conformal intervals."""
    import pandas as pd

    dataset = report.request.require_dataset()
    data, model = load(dataset), unpacked(record.arrays)
    assert isinstance(model, SavedRegression)  # the rows' task keeps no other
    rows = judged_rows(dataset, learning_of(report.request))[1][:MOST_TESTED]
    found, true = model.predict(data.X[rows]), data.y[rows, 0]
    frame = pd.DataFrame({"predicted": found.judged, "true": true, "low": found.conformal[:, 0]})
    frame["high"] = found.conformal[:, 1]
    with report.figure("headline", size=(5.0, 4.4)) as drawing:
        ax = drawing.ax
        seen = frame[np.isfinite(frame["low"])]
        label = f"conformal interval of {100 * report.settings.coverage:g} %"
        ax.vlines(seen["predicted"], seen["low"], seen["high"], color="0.8", label=label)
        ax.plot(frame["predicted"], frame["true"], "o", color=BLUE, markersize=4, label="test row")
        ends = [frame[["predicted", "true"]].min().min(), frame[["predicted", "true"]].max().max()]
        ax.plot(ends, ends, "--", color=LIMIT, label="predicted is true")
        ax.set_xlabel(f"predicted {data.target_names[0]}, test model")
        ax.set_ylabel(f"true {data.target_names[0]}")
        drawing.legend("below", columns=3)
        drawing.data = frame


def draw_widths(report: Report[GuaranteeSettings], record: Record) -> None:
    """Draw the half width of the model's own intervals against the error, each row left out in turn."""
    import pandas as pd

    model = unpacked(record.arrays)
    assert isinstance(model, SavedRegression)  # the rows' task keeps no other
    errors, half = left_out(model)
    frame, target = pd.DataFrame({"half width": half, "error": errors}), model.target
    with report.figure("widths", size=(5.0, 4.4)) as drawing:
        ax = drawing.ax
        ax.plot(half, errors, "o", color=BLUE, markersize=4, label="row, left out in turn")
        ends = [half.min(initial=np.inf), half.max(initial=0.0)]
        ax.plot(ends, ends, "--", color=LIMIT, label="error as large as the half width")
        ax.set_xlabel(f"half width of the model's own {100 * model.coverage:g} % interval ({target})")
        ax.set_ylabel(f"error ({target})")
        drawing.legend("below", columns=2)
        drawing.data = frame


def draw_reliability(report: Report[GuaranteeSettings], record: Record) -> None:
    """Draw of the test rows how often the predicted class is right: by its probability, and among the surest rows."""
    import pandas as pd

    probabilities, truth = record.arrays["test_probabilities"], record.arrays["test_classes"]
    surest = probabilities.max(axis=1)
    order = np.argsort(-surest, kind="stable")
    right = (np.argmax(probabilities, axis=1) == truth)[order].astype(float)
    bins = np.array_split(np.arange(len(right)), max(1, min(MOST_BINS, len(right) // LEAST_IN_BIN)))
    with report.figure("headline", columns=2, size=(8.0, 4.2)) as drawing:
        _reliability(drawing.axes[0], surest[order], right, bins)
        ax, kept = drawing.axes[1], np.arange(1, len(right) + 1)
        ax.plot(kept / len(right), np.cumsum(right) / kept, color=BLUE, label="test rows")
        ax.set_xlabel("share of rows, the surest first")
        ax.set_ylabel("share of right ones")
        ax.set_ylim(-0.02, 1.02)
        drawing.legend("below", columns=3)
        drawing.data = pd.DataFrame({"probability": surest[order], "right": right})


def _reliability(ax: Axes, surest: FloatArray, right: FloatArray, bins: Sequence[FloatArray]) -> None:
    """Draw the share of right rows in bins of about equally many."""
    stated = [surest[each].mean() for each in bins]
    ax.plot([0.0, 1.0], [0.0, 1.0], "--", color=LIMIT, label="probabilities are true")
    ax.plot(stated, [right[each].mean() for each in bins], "o-", color=BLUE, label="test rows")
    ax.set_xlim(min(stated) - 0.05, 1.02)
    ax.set_xlabel("probability of the predicted class")
    ax.set_ylabel("share that is right")
    ax.set_ylim(-0.02, 1.02)
