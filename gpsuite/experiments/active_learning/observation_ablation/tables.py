"""Tables of active_learning/observation_ablation: areas under the curves, and what is queried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpsuite.experiments.active_learning.observation_ablation.claims import common_areas, query_shares
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.generated_data import EQUAL
from gpsuite.reporting.tables import estimate_text
from gpsuite.statistics.estimates import mean

if TYPE_CHECKING:
    import pandas as pd


UNEQUAL_LABELS = {
    EQUAL: "outputs alike",
    "noise": "first output: 10 times the noise variance",
    "variance": "first output: 10 times the variance",
}


def area_table(curves: Curves, names: Mapping[str, str]) -> pd.DataFrame:
    """Return the mean RMSE over the common range and at its end, one row per method."""
    import pandas as pd

    areas = common_areas(curves)
    rows = []
    for method, values in areas.items():
        area, curve = mean(values), curves.curve(method, "rmse")
        last = mean(curve.lines[:, -1])
        rows.append(
            {
                "method": names[method],
                "mean RMSE over N_sum": estimate_text(area),
                "last N_sum": int(curve.n_sum[-1]),
                "last RMSE": estimate_text(last),
                "repetitions": len(values),
            }
        )
    return pd.DataFrame(rows)


def share_table(unequal: Mapping[str, Curves]) -> pd.DataFrame:
    """Return the share of queries that went to each output, one row per inequality."""
    import pandas as pd

    rows = []
    for which, curves in unequal.items():
        shares = query_shares(curves)
        row: dict[str, object] = {"data": UNEQUAL_LABELS[which]}
        for p in range(shares.shape[1]):
            row[f"output {p + 1}"] = estimate_text(mean(shares[:, p]))
        rows.append({**row, "repetitions": len(shares)})
    return pd.DataFrame(rows)
