"""Tables of predicted rows: whole in predictions.csv, and the first rows as they are shown."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee.saved import SavedRegression, unpacked
from gpsuite.experiments.guarantee.tasks import GuaranteeSettings, tolerances_of

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5  # rows in an answer
OUTSIDE = "outside_training_range"
INTERVALS = {"spread": "spread", "jackknife+": "jackknife", "conformal": "conformal"}  # guarantee -> columns
DIGITS = 3  # of numbers in texts


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


def with_unread(frame: pd.DataFrame, unread: Mapping[int, str]) -> pd.DataFrame:
    """Return the table of predictions by `row` with the rows that are not predicted, and the column that says why."""
    if not unread:
        return frame
    every = sorted({*frame["row"], *unread})
    whole = frame.set_index("row").reindex(every).rename_axis("row").reset_index()
    return whole.assign(not_predicted=[unread.get(row, "") for row in every])


def number_predictions(record: Record, settings: GuaranteeSettings, data: Dataset) -> pd.DataFrame:
    import pandas as pd

    ends = [f"{name}_{end}" for name in ("gp", "conformal", "jackknife") for end in ("low", "high")]
    names = ["prediction", *ends[:2], "prediction_judged", *ends[2:]]
    frame = pd.DataFrame({**row_numbers(record, data), **{name: record.arrays[name] for name in names}})
    _add_ranges(frame, record.arrays["ranges"], tolerances_of(data, settings))
    frame[OUTSIDE] = record.arrays["outside"]
    return frame


def class_predictions(record: Record, settings: GuaranteeSettings, data: Dataset) -> pd.DataFrame:
    import pandas as pd

    labels, arrays = str(record.metrics["labels"]).split("\n"), record.arrays
    probabilities, inputs = arrays["probabilities"], data.input_names
    count, own = len(probabilities), np.argmax(probabilities, axis=1)
    frame = pd.DataFrame({**row_numbers(record, data), "predicted": [labels[number] for number in own]})
    for place, name in enumerate(labels):
        frame[f"p_{name}"] = probabilities[:, place]
    _add_ranges(frame, arrays["ranges"], tolerances_of(data, settings))
    decisive = ["" if np.isnan(row).any() else inputs[np.argmax(np.abs(row))] for row in arrays["effects"]]
    frame["decisive_input"] = decisive + [""] * (count - len(decisive))
    frame[OUTSIDE] = arrays["outside"]
    return frame


def _add_ranges(frame: pd.DataFrame, ranges: FloatArray, tolerances: Sequence[float]) -> None:
    """Add the columns of the proved ranges [B', K, 2] of the first rows, empty for the others."""
    for place, tolerance in enumerate(tolerances):
        for end, word in enumerate(("low", "high")):
            values = np.full(len(frame), np.nan)
            values[: len(ranges)] = ranges[:, place, end]
            frame[f"proved_{word}_{tolerance:g}"] = values


def shown_rows(frame: pd.DataFrame, promised: Collection[str]) -> list[list[str]]:
    """Return a table of predictions as texts, its first line the heading: prediction, interval, and what is unusual.

    An interval is next to the prediction of the judged model that it is about.
    Numbers have the places that give the interval's width three significant digits. Its ends are rounded outwards.

    Args:
        frame: one row per prediction.
        promised: names of guarantees that hold. The first of `INTERVALS` among them that is bounded is shown.
    """
    if "prediction" in frame:
        heading, rows = _number_cells(frame, [name for each, name in INTERVALS.items() if each in promised])
    else:
        shares = frame.filter(regex="^p_").max(axis=1)
        heading = [frame.columns[0], "predicted", "probability"]
        pairs = zip(frame["predicted"], shares, strict=True)
        rows = [["", ""] if math.isnan(share) else [name, f"{share:.{DIGITS}g}"] for name, share in pairs]
    told = [_unusual(each) for each in frame.to_dict("records")]
    table = [[f"{number}", *row] for number, row in zip(frame.iloc[:, 0], rows, strict=True)]
    if any(told):
        return [[*heading, "note"], *([*row, note] for row, note in zip(table, told, strict=True))]
    return [heading, *table]


def _number_cells(frame: pd.DataFrame, intervals: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    bounded = [name for name in intervals if np.isfinite(frame[f"{name}_low"]).any()]
    ends = [f"{bounded[0]}_low", f"{bounded[0]}_high"] if bounded else []
    name, rows = "prediction_judged" if bounded else "prediction", []
    for prediction, *interval in frame[[name, *ends]].to_numpy():
        places = _places(interval[1] - interval[0] if interval else prediction)
        sides = (-1, 1) if interval else ()
        cells = [_rounded(end, places, side) for end, side in zip(interval, sides, strict=True)]
        rows.append(["" if math.isnan(prediction) else f"{prediction:.{places}f}", *cells])
    return [frame.columns[0], name, *ends], rows


def _places(size: float) -> int:
    """Return the decimals that give a number of this size three significant digits."""
    if not math.isfinite(size) or size == 0.0:
        return DIGITS
    return max(0, DIGITS - 1 - math.floor(math.log10(abs(size))))


def _rounded(value: float, places: int, side: int) -> str:
    if not math.isfinite(value):
        return "" if math.isnan(value) else f"{value:g}"
    whole = (math.ceil if side > 0 else math.floor)(value * 10.0**places)
    return f"{whole / 10.0**places:.{places}f}"


def _unusual(row: Mapping[Any, Any]) -> str:
    if row.get("not_predicted"):
        return "not predicted"
    return "outside training range" if row[OUTSIDE] is True else ""


def left_out(model: SavedRegression) -> tuple[FloatArray, FloatArray]:
    """Return errors and half widths of the kept model's own intervals, each row left out in turn, in original units.

    With the same hyperparameters, by Rasmussen and Williams 2006, equations 5.10 to 5.12. Copies do not count: a
    row left out would be predicted from its copy.
    """
    kept, scale = model.model, float(model.arrays["target_scale"][0])
    different = _without_copies(np.column_stack([kept.X, model.arrays["y"]]))
    precision = np.sum(kept.root[:, 0] ** 2, axis=0)[different]
    half = float(ndtri(0.5 + model.coverage / 2)) / np.sqrt(precision)
    return scale * np.abs(kept.alpha[0][different]) / precision, scale * half


def _without_copies(table: FloatArray) -> IntArray:
    _, first, copies = np.unique(table, axis=0, return_index=True, return_counts=True)
    return np.asarray(first[copies == 1])


def own_intervals_held(record: Record) -> tuple[int, int]:
    """Return how many targets the kept model's intervals hold, each row left out in turn, and of how many."""
    model = unpacked(record.arrays, ())
    assert isinstance(model, SavedRegression)  # the rows' task keeps no other
    errors, half = left_out(model)
    return int(np.count_nonzero(errors <= half)), len(errors)
