"""Tables of robustness/safety: one row a point, shares of verdicts, what changes, seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Record

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = (
    "row",
    "label",
    "predicted",
    "correct",
    "probability",
    "verdict",
    "min_proved",
    "min_attained",
    "max_attained",
    "max_proved",
    "gap",
    "attacked",
    "attack_succeeds",
    "chosen_by",
    "free_inputs",
    "probabilities_proved",
    "boxes",
    "certified_min",
    "certified_max",
    "certificate_decides",
    "uncertified",
    "why",
)


VERDICTS = ("safe", "unsafe", "unknown", "timeout")


def point_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per method and point; columns that no record has are left out."""
    import pandas as pd

    present = [name for name in COLUMNS if any(name in record.metrics for record in records)]
    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            **{name: record.metrics.get(name) for name in present},
            "status": record.status,
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def is_safe(record: Record) -> bool:
    """Return whether a point is classified rightly, and stays so."""
    return bool(record.metrics["correct"]) and record.metrics["verdict"] == "safe"


def is_certified(record: Record) -> bool:
    """Return whether that is proved: by probabilities that are, as those of two classes, or by its certificate."""
    metrics = record.metrics
    proved = bool(metrics.get("probabilities_proved", True)) or bool(metrics.get("certificate_decides"))
    return proved and is_safe(record)


def summary_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return per method the number of points with each verdict, and certified and attacked accuracy."""
    import pandas as pd

    rows = []
    for method, title in titles.items():
        own = [record for record in records if record.axes["method"] == method]
        if not own:
            continue
        counted = Counter(str(record.metrics["verdict"]) for record in own)
        right = [bool(record.metrics["correct"]) for record in own]
        kept = [hit and not record.metrics["attack_succeeds"] for hit, record in zip(right, own, strict=True)]
        rows.append(
            {
                "method": title,
                "points": len(own),
                **{name: counted[name] for name in VERDICTS},
                "accuracy": float(np.mean(right)),
                "accuracy under attack": float(np.mean(kept)),
                "certified accuracy": float(np.mean([is_certified(record) for record in own])),
                "mean gap": float(np.mean([record.number("gap") for record in own])),
                "mean boxes": float(np.mean([record.number("boxes") for record in own])),
            }
        )
    return pd.DataFrame(rows)


def change_table(
    records: Sequence[Record], titles: Mapping[str, str], input_names: Sequence[str]
) -> pd.DataFrame:
    """Return the counterexamples as changes of the point's inputs, in the dataset's own units."""
    import pandas as pd

    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            "input": input_names[column],
            "change": float(record.arrays["change"][column]),
        }
        for record in records
        if "change" in record.arrays
        for column in np.flatnonzero(record.arrays["change"])
    ]
    return pd.DataFrame(rows, columns=["method", "point", "input", "change"])


def timing_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return seconds of both searches, one row per method and point."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "method": titles[str(record.axes["method"])],
                "point": record.axes["point"],
                "search seconds": record.number("search_seconds"),
                "CPU seconds, certificate and training included": record.timing.get("cpu_seconds"),
            }
            for record in records
        ]
    )
