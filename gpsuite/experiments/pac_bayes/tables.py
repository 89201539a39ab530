"""Records of fits as data frames: the metrics, their names, and their tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Request, frame_of
from gpsuite.experiments.pac_bayes.fits import TEST_OVER_TRAINING
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.tables import mean_and_error, summarise_groups
from gpsuite.statistics.estimates import Estimate, corrected_mean

if TYPE_CHECKING:
    import pandas as pd


METRICS = (
    "bound_kl",
    "bound_sqrt",
    "gibbs_risk_train",
    "gibbs_risk_test",
    "bayes_risk_test",
    "mse_test",
    "nll_test",
    "kl_over_n",
    "noise_variance",
)
OWN_UNITS = ("rmse_test_own_units",)


# further certificates of the same posterior
CERTIFICATES = (
    "lower_kl",
    "bound_bayes",
    "test_bound_gibbs",
    "test_bound_bayes",
    "bound_kl_exp",
    "gibbs_risk_test_exp",
)


# what c, the argument of the bound, is made of
PENALTY = ("kl_over_n", "log_theta_per_point", "confidence_per_point")


# for methods that train from several starts
STARTS = ("start_spread",)


# the five panels of Fig. 2, in the paper's order
PANELS = ("bound_kl", "gibbs_risk_train", "gibbs_risk_test", "mse_test", "kl_over_n")


def records_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per record: axes and metrics, numbers as floats (NaN if a number is missing)."""
    frame = frame_of(records)
    numbers = [*METRICS, *OWN_UNITS, *CERTIFICATES, *STARTS, "log_theta", "confidence", "n_train"]
    for name in frame.columns.intersection(numbers):
        frame[name] = frame[name].astype(float)  # a missing number (None) becomes NaN
    for part in ("log_theta", "confidence"):
        frame[f"{part}_per_point"] = frame[part] / frame["n_train"]
    return frame


def summarise_splits(frame: pd.DataFrame, by: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """Return `summarise_groups`, its intervals corrected: random splits of the same rows are alike.

    The standard errors are the papers', s/sqrt(n).
    """
    ratio = float((frame["n_test"] / frame["n_train"]).mean()) if "n_test" in frame else TEST_OVER_TRAINING

    def over_splits(values: Sequence[float]) -> Estimate:
        return corrected_mean(values, ratio, correct_error=False)

    return summarise_groups(frame, by, metrics, over_splits)


def summarise_fits(frame: pd.DataFrame, by: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """Return `summarise_splits`, and `STARTS` for the groups whose methods train from several starts."""
    import pandas as pd

    tidy = summarise_splits(frame, by, metrics)
    present = [name for name in STARTS if name in frame]
    several = frame.dropna(subset=present, how="any") if present else frame.iloc[:0]
    return tidy if several.empty else pd.concat([tidy, summarise_splits(several, by, present)], ignore_index=True)


def wide_table(tidy: pd.DataFrame, by: Sequence[str], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per group with `mean ± s.e.` cells, one column per metric."""
    import pandas as pd

    rows = []
    for key, group in tidy.groupby(list(by), sort=False):
        row = dict(zip(by, key, strict=True))
        for _, line in group.iterrows():
            row[metric(line["metric"]).heading] = mean_and_error(line["mean"], line["standard_error"])
        row["splits"] = int(group["n"].max())
        rows.append(row)
    table = pd.DataFrame(rows)
    if table.isna().any(axis=None):  # not every group has every metric
        table = table.fillna(mean_and_error(math.nan, None))[[*table.columns.drop("splits"), "splits"]]
    order = {name: number for number, name in enumerate(titles)}
    ranked = table.assign(_rank=table["method"].map(order))
    others = [name for name in by if name != "method"]
    sorted_table = ranked.sort_values([*others, "_rank"]).drop(columns="_rank")
    sorted_table["method"] = sorted_table["method"].map(dict(titles))
    return sorted_table


def timing_table(records: Sequence[Record], by: Sequence[str], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return CPU seconds, evaluations and CPU seconds per evaluation, means over the splits of each group."""
    import pandas as pd

    rows = [
        {
            **{axis: record.axes[axis] for axis in by},
            "CPU seconds": record.timing.get("cpu_seconds", float("nan")),
            "evaluations": record.number("evaluations"),
            "peak memory (MB)": record.timing.get("peak_memory_mb", float("nan")),
        }
        for record in records
    ]
    table = pd.DataFrame(rows).groupby(list(by), sort=False).mean().reset_index()
    table["CPU seconds per evaluation"] = table["CPU seconds"] / table["evaluations"]
    table["method"] = table["method"].map(dict(titles))
    return table.round(4)


def dataset_statistics(request: Request[object]) -> list[Statistic]:
    """Return the size of the dataset that was used."""
    data = request.dataset
    if data is None:
        return []
    # a table of the user's own does not say it. A shipped one does where its files are not
    inputs = data.spec["n_inputs"] if "n_inputs" in data.spec else load(data).X.shape[1]
    return [Statistic("dataset_rows", data.rows), Statistic("dataset_inputs", inputs)]
