"""Tables of perturbation/lssvm_parameter_space: areas, and checks of the shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Record
from gpsuite.experiments.perturbation.lssvm_parameter_space.claims import total
from gpsuite.experiments.perturbation.shared.linear import confidence_text

if TYPE_CHECKING:
    import pandas as pd


def area_table(records: Sequence[Record], m: int) -> pd.DataFrame:
    """Return mean areas by q, over the draws in which they are finite, with the range of the ratios."""
    import pandas as pd

    rows = []
    for q in dict.fromkeys(int(record.axes["q"]) for record in records):
        areas = {
            name: np.array([record.number(name) for record in records if record.axes["q"] == q])
            for name in ("region_area", "ellipsoid_area", "asymptotic_area")
        }
        row: dict[str, object] = {"p": confidence_text(q, m), "draws": len(areas["region_area"])}
        row["region_area"] = float(np.mean(areas["region_area"]))
        for name in ("ellipsoid", "asymptotic"):
            ratio = areas[f"{name}_area"] / areas["region_area"]
            row[f"{name}_over_region"] = float(np.mean(ratio))
            row[f"{name} smallest"], row[f"{name} largest"] = float(ratio.min()), float(ratio.max())
        rows.append(row)
    return pd.DataFrame(rows)


def check_table(records: Sequence[Record], m: int) -> pd.DataFrame:
    """Return counts of segments, violations and rays by model and q."""
    import pandas as pd

    groups = dict.fromkeys((str(record.axes["model"]), int(record.axes["q"])) for record in records)
    rows = []
    for model, q in groups:
        own = [record for record in records if (record.axes["model"], record.axes["q"]) == (model, q)]
        rows.append(
            {
                "model": model,
                "p": confidence_text(q, m),
                "segments": total(own, "segments"),
                "segments that leave": total(own, "star_violations"),
                "members outside the ellipsoid": total(own, "outside_ellipsoid")
                if model == "lssvm"
                else None,
                "share of unbounded rays": float(np.mean([r.number("unbounded_share") for r in own])),
                "share of returning rays": float(np.mean([r.number("returning_share") for r in own])),
            }
        )
    return pd.DataFrame(rows)
