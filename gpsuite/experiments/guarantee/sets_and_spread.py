"""What a run says of intervals that follow the spread, and of sets of classes."""

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
    """Yield what the intervals promise, and how wide they are on the test rows."""
    level, rows, target = f"{100 * settings.coverage:g} %", int(record.number("rows")), data.target_names[0]
    which = f"{rows} rows of new groups" if data.clusters is not None else f"{rows} test rows"
    if record.metrics["spread_narrow"] is None:
        yield f"Split conformal, following the spread: {which} are too few for an interval of {level}."
    else:
        narrow, wide = record.number("spread_narrow"), record.metrics["spread_wide"]
        least = short(narrow)
        range_of = (
            f"{least} wide or more, some have no end" if wide is None else f"{least} to {short(float(wide))} wide"
        )
        yield (
            f"Split conformal, following the spread: a new {target} lies in its interval (columns spread_low, "
            f"spread_high) with probability {level}. On the test rows it is {range_of}."
        )
        if data.weights is not None:
            yield f"  It holds where new rows are as likely as {data.weight_name} says. The other guarantees do not."
        elif record.metrics["interval"] == "spread":
            yield "  Take it for new rows: on training rows left out in turn, it is narrower than one width for all."
        else:
            yield "  Take conformal_low and conformal_high instead: on training rows, one width for all is narrower."
    if record.metrics["jackknife_spread_width"] is not None:
        yield (
            f"Jackknife+, following the spread: the same of jackknife_spread_low and jackknife_spread_high, "
            f"{short(record.number('jackknife_spread_width'))} wide in the middle."
        )


def set_sentences(record: Record, settings: GuaranteeSettings, data: Dataset) -> Iterator[str]:
    """Yield what the sets of classes promise of all rows, and of the rows of each class."""
    level, missed = f"{100 * settings.coverage:g} %", f"{100 * (1 - settings.coverage):.3g} %"
    rows, table = int(record.number("rows")), class_table(record)
    if record.metrics["threshold"] is None:
        yield f"Sets of classes: {rows} test rows are too few for sets of {level}; every set holds all classes."
    else:
        yield (
            f"Sets of classes: the true {data.target_names[0]} of a new row is in its set (column class_set) with "
            f"probability {level}. A set holds {record.number('set_size'):.3g} classes on average, one class in "
            f"{100 * record.number('single'):.3g} % of the test rows."
        )
    held = table[np.isfinite(table["threshold"])]
    if len(held):
        names = ", ".join(held["class"])
        yield (
            f"Per class: of new rows that truly are {' or '.join(held['class'])}, at most {missed} are missed by their "
            f"sets (column class_set_each), for each class."
            if len(held) > 1
            else f"Per class: of new rows that truly are {names}, at most {missed} are missed by column class_set_each."
        )
    confidence = f"{100 * (1 - settings.delta):g} %"
    for _, row in table[~np.isfinite(table["threshold"])].iterrows():
        if row["test rows"]:
            yield (
                f"  Class {row['class']} has {row['test rows']} test rows, too few for a threshold: every set has it. "
                f"With probability {confidence}, at most {100 * row['wrong at most']:.3g} % of its rows are predicted "
                "as another class."
            )
        else:
            yield f"  No test row is of class {row['class']}: it is in every set."


def class_table(record: Record) -> pd.DataFrame:
    """Return one row per class; see `run.run_class_sets`."""
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
