"""Tables of robustness/distribution_*: delta, its ratio Laplace / EP, models and trainings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpsuite.experiments.robustness.shared.probability_change_claims import (
    EP,
    LAPLACE,
    by_classifier,
    ratio_of_medians,
)
from gpsuite.reporting.tables import estimate_text
from gpsuite.statistics.estimates import mean

if TYPE_CHECKING:
    import pandas as pd


BY = ["method", "evaluations", "radius"]


METRICS = ["delta", "delta_proved", "deviation", "deviation_proved"]


MODEL = [
    "variance",
    "variance_at_end",
    "shortest_lengthscale",
    "longest_lengthscale",
    "log_marginal_likelihood",
    "test_accuracy",
]


def delta_table(frame: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Return median, quartiles and mean of delta, and the median of Definition 1, per radius, evaluations, method."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for (radius, evaluations, method), part in frame.groupby(["radius", "evaluations", "method"], sort=True):
        known = part[part["delta"].notna()]
        low, middle, high = known["delta"].quantile([0.25, 0.5, 0.75])
        centre = mean(known["delta"])
        rows.append(
            {
                "γ": radius,
                "evaluations": evaluations,
                "method": titles[str(method)],
                "median δ": middle,
                "quartiles": f"{low:.3g} to {high:.3g}",
                "mean δ": estimate_text(centre),
                "median by Definition 1": known["deviation"].median(),
                "largest gap": (known["delta_proved"] - known["delta"]).max(),
                "boxes": known["boxes"].mean(),
                "safe": (known["verdict"] == "safe").mean(),
                "points": len(known),
            }
        )
    return pd.DataFrame(rows)


def ratio_table(frame: pd.DataFrame, test_over_training: float) -> pd.DataFrame:
    """Return the ratio Laplace / EP of median delta per radius and evaluations, with its interval over draws."""
    import pandas as pd

    rows = []
    for radius, part in frame.groupby("radius", sort=True):
        deltas = by_classifier(part)
        for evaluations in deltas.levels("evaluations"):
            ratio = ratio_of_medians(deltas, evaluations, test_over_training)
            rows.append(
                {
                    "γ": radius,
                    "evaluations": evaluations,
                    "ratio": ratio.value,
                    "95 % from": ratio.low,
                    "to": ratio.high,
                    "draws": ratio.n,
                    "pairs": len(deltas.pair("delta", (LAPLACE, evaluations), (EP, evaluations))[0]),
                }
            )
    return pd.DataFrame(rows)


def model_table(frame: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Return hyperparameters, evidence and accuracy of every trained classifier."""
    by = ["evaluations", "draw", "method"]
    return _readable(frame.groupby(by, sort=True)[MODEL].first().reset_index(), titles)


def training_table(frame: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Return median delta and the classifier per change of start or box, evaluations and method."""
    by = ["training", "evaluations", "method"]
    groups = frame.groupby(by, sort=False)
    table = groups[MODEL].first().join(groups["delta"].median().rename("median δ")).reset_index()
    return _readable(table, titles)


def _readable(table: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    ends = {True: "yes", False: "no"}
    return table.assign(
        method=table["method"].map(titles), variance_at_end=table["variance_at_end"].map(ends)
    )
