"""Tables of local safety: curves of the displayed points, certified and attacked accuracy, one row per point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import BoolArray
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.safety_curves.display import DisplayedPoint
from gpsuite.experiments.robustness.safety_curves.run import ATTACKS, VERDICTS
from gpsuite.methods.robustness.decision import binary_contest

if TYPE_CHECKING:
    import pandas as pd


POINT_COLUMNS = (
    "row",
    "label",
    "correct",
    "probability",
    "chosen_by",
    "free_inputs",
    "safe_gamma",
    "cross_gamma",
    "gpfgs_gamma",
    "gpjm_gamma",
    "strong_gamma",
    "monotone",
    "linear_r2",
    "largest_gap",
    "boxes",
)


def curve_table(shown: Sequence[DisplayedPoint], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return the displayed points' curves, one row per radius."""
    import pandas as pd

    frames = []
    for each in shown:
        record, arrays = each.record, each.record.arrays
        columns = {name: arrays[name] for name in ("gamma", "inner", "outer", *ATTACKS)}
        frame = pd.DataFrame(columns).assign(verdict=[VERDICTS[code] for code in arrays["verdict"]])
        frame.insert(0, "point", record.axes["point"])
        frame.insert(0, "method", titles[str(record.axes["method"])])
        frame.insert(0, "features", record.axes["features"])
        frames.append(frame.assign(boxes=arrays["boxes"]))
    return pd.concat(frames, ignore_index=True)


def accuracy_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return per panel and radius which share of points stays right: proved, under each attack, not refuted."""
    import pandas as pd

    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((str(record.axes["features"]), str(record.axes["method"])), []).append(record)
    rows = []
    for (features, method), members in groups.items():
        correct = np.array([bool(member.metrics["correct"]) for member in members])
        verdict = np.array([member.arrays["verdict"] for member in members])
        missed = {name: ~np.array([_crossed(member, name) for member in members]) for name in ATTACKS}
        for step, gamma in enumerate(members[0].arrays["gamma"]):
            right = {name: correct & values[:, step] for name, values in missed.items()}
            rows.append(
                {
                    "features": features,
                    "method": titles[method],
                    "gamma": float(gamma),
                    "certified": float(np.mean(correct & (verdict[:, step] == VERDICTS.index("safe")))),
                    **{f"under {name}": float(values.mean()) for name, values in right.items()},
                    "not proved unsafe": float(
                        np.mean(correct & (verdict[:, step] != VERDICTS.index("unsafe")))
                    ),
                    **{name: int(np.sum(verdict[:, step] == code)) for code, name in enumerate(VERDICTS)},
                    "points": len(members),
                }
            )
    return pd.DataFrame(rows)


def _crossed(record: Record, name: str) -> BoolArray:
    return np.asarray(binary_contest(int(record.number("sign"))).crossed(record.arrays[name]))


def point_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per test point."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "features": record.axes["features"],
                "method": titles[str(record.axes["method"])],
                "point": record.axes["point"],
                **{name: record.metrics[name] for name in POINT_COLUMNS},
                "status": record.status,
            }
            for record in records
        ]
    )


def timing_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return mean and largest seconds and boxes of a search, per panel and radius."""
    import pandas as pd

    rows = [
        {
            "features": record.axes["features"],
            "method": titles[str(record.axes["method"])],
            "gamma": float(gamma),
            "seconds": float(seconds),
            "boxes": int(boxes),
        }
        for record in records
        for gamma, seconds, boxes in zip(
            *(record.arrays[name] for name in ("gamma", "seconds", "boxes")), strict=True
        )
    ]
    grouped = pd.DataFrame(rows).groupby(["features", "method", "gamma"], sort=False)
    table = grouped.agg(
        mean_seconds=("seconds", "mean"),
        largest_seconds=("seconds", "max"),
        mean_boxes=("boxes", "mean"),
        points=("boxes", "size"),
    )
    return table.reset_index()
