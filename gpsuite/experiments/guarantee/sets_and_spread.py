"""Details of intervals that follow the spread, and of sets of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee.guarantees import short
from gpsuite.experiments.guarantee.tasks import GuaranteeSettings

if TYPE_CHECKING:
    import pandas as pd


def spread_sentences(record: Record, settings: GuaranteeSettings, data: Dataset) -> Iterator[str]:
    """Yield what the line of the interval does not say: which one to take, and how wide the others are."""
    level, narrow, wide = (
        f"{100 * settings.coverage:g} %",
        record.metrics["spread_narrow"],
        record.metrics["spread_wide"],
    )
    if narrow is None:
        which = "rows of new groups" if data.clusters is not None else "test rows"
        yield f"Spread: too few {which} for an interval of {level}: {int(record.number('rows'))}."
    elif wide is None:
        yield f"Some spread intervals of test rows have no end. The others are {short(float(narrow))} wide or more."
    if narrow is not None and data.weights is not None:
        yield f"The spread interval holds where new rows are as likely as {data.weight_name} says."
        yield "The other guarantees are about rows like these."
    elif narrow is not None and record.metrics["interval"] == "spread":
        yield "The spread interval is taken: on training rows left out in turn, it is narrower than one width for all."
    elif narrow is not None:
        yield "The conformal interval is taken: on training rows left out in turn, it is narrower than the spread one."
    if record.metrics["jackknife_spread_width"] is not None:
        width = short(record.number("jackknife_spread_width"))
        yield f"Jackknife+ has a second interval, which follows the spread (jackknife_spread), of median width {width}."


def set_sentences(record: Record, settings: GuaranteeSettings) -> Iterator[str]:
    """Yield what the lines of the sets do not say: how many hold one class, and the classes without a threshold."""
    level, confidence = (f"{100 * share:g} %" for share in (settings.coverage, 1 - settings.delta))
    if record.metrics["threshold"] is None:
        yield f"Sets: too few test rows for sets of {level}: {int(record.number('rows'))}. class_set holds every class."
    else:
        yield f"class_set holds a single class on {100 * record.number('single'):.3g} % of the test rows."
    table = class_table(record)
    for _, row in table[~np.isfinite(table["threshold"])].iterrows():
        if not row["test rows"]:
            yield f"No test row is of class {row['class']}: it is in every class_set_each."
            continue
        yield f"Class {row['class']} is in every class_set_each: too few test rows for a threshold, {row['test rows']}."
        wrong = f"{100 * row['wrong at most']:.3g} %"
        yield f"With probability {confidence}, at most {wrong} of its rows are predicted as another class."


def class_table(record: Record) -> pd.DataFrame:
    """Return one row per class. See `run.run_class_sets`."""
    import pandas as pd

    arrays = record.arrays
    return pd.DataFrame(
        {
            "class": str(record.metrics["labels"]).split("\n"),
            "test rows": arrays["class_rows"],
            "predicted as another": arrays["class_wrong"],
            "wrong at most": arrays["class_bounds"],
            "threshold": arrays["class_thresholds"],
            "set misses at most": arrays["class_missed"],
            "share of sets with it": arrays["class_named"],
        }
    )
