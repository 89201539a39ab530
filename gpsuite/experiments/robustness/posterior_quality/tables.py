"""Tables of robustness/posterior_quality: distances to HMC, and its chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.posterior_quality.run import DISTANCES
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.tables import estimate_text
from gpsuite.statistics.estimates import corrected_mean

if TYPE_CHECKING:
    import pandas as pd


def distance_table(
    records: Sequence[Record], titles: dict[str, str], test_over_training: float
) -> pd.DataFrame:
    """Return one row per dataset, training method and approximation: mean distances over converged draws.

    Args:
        records: of the chains.
        titles: of the methods.
        test_over_training: test rows over training rows of a draw.
    """
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for dataset in dict.fromkeys(str(record.axes["dataset"]) for record in records):
        for trained_by in dict.fromkeys(str(record.axes["method"]) for record in records):
            own = [r for r in records if (r.axes["dataset"], r.axes["method"]) == (dataset, trained_by)]
            kept = [record for record in own if record.metrics.get("hmc_converged")]
            for method, title in titles.items():
                row: dict[str, Any] = {
                    "dataset": dataset,
                    "hyperparameters by": titles[trained_by],
                    "method": title,
                }
                for distance in DISTANCES:
                    heading = metric(distance, "robustness").heading
                    of_draws = [float(r.arrays[f"{distance}_{method}"].mean()) for r in kept]
                    row[heading] = estimate_text(corrected_mean(of_draws, test_over_training))
                rows.append({**row, "draws": f"{len(kept)} of {len(own)}"})
    return pd.DataFrame(rows)


def chain_table(records: Sequence[Record], titles: dict[str, str]) -> pd.DataFrame:
    """Return how the chains of every task went, and the hyperparameters they were run at."""
    import pandas as pd

    numbers = ("variance", "shortest_lengthscale", "r_hat", "ess", "acceptance")
    rows = [
        {
            "dataset": record.axes["dataset"],
            "hyperparameters by": titles[str(record.axes["method"])],
            "draw": record.axes["draw"],
            **{name: record.number(name) for name in numbers},
            "converged": "yes" if record.metrics.get("hmc_converged") else "no",
        }
        for record in records
    ]
    return pd.DataFrame(rows)
