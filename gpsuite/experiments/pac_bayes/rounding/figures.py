"""The figure of pac_bayes/rounding: what each grid changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.base import Report
from gpsuite.experiments.pac_bayes.rounding.run import AGAINST_PAPER
from gpsuite.experiments.pac_bayes.rounding.settings import RoundingSettings
from gpsuite.experiments.pac_bayes.shared.tables import summarise_splits
from gpsuite.reporting.palette import LIMIT, numbered_style
from gpsuite.reporting.panels import panel

if TYPE_CHECKING:
    import pandas as pd


# the figure's panels: metric -> label of the vertical axis and title
PANELS = {
    "bound_kl": ("upper bound B_kl (probability)", "the bound, its grid paid for"),
    AGAINST_PAPER: ("difference of B_kl, paired by split", "the bound against 2 decimals"),
    "bound_change": (
        "|B_kl after − before rounding|",
        "rounding alone, same penalty:\nmedian and range over splits",
    ),
}


def draw(report: Report[RoundingSettings], frame: pd.DataFrame) -> None:
    """Draw bound, its difference to two decimals and the effect of rounding alone.

    The first two with 95 % t intervals; of the last, positive and spread over decades, median and range.
    """
    sizes = frame.assign(bound_change=frame["bound_change"].abs())
    by = ["method", "epsilon", "decimals"]
    tidy = _with_range(summarise_splits(sizes, by, list(PANELS)), sizes, by)
    lines = tidy.assign(
        line=[f"{name} {goal}" for name, goal in zip(tidy["method"], tidy["epsilon"], strict=True)]
    )
    named = lines[["line", "method", "epsilon"]].drop_duplicates().itertuples(index=False, name=None)
    titles = {line: f"{report.titles[method]}, ε = {goal:g}" for line, method, goal in named}
    styles = {line: numbered_style(number) for number, line in enumerate(titles)}
    with report.figure("rounding", columns=len(PANELS), size=(13, 4.2)) as drawing:
        for ax, (name, (label, title)) in zip(drawing.axes, PANELS.items(), strict=True):
            part = lines[lines["metric"] == name]
            panel(ax, part, "decimals", titles, by="line", error="interval", apart=0.06, styles=styles)
            ax.set_xticks(sorted(part["decimals"].unique()))
            ax.set_xlabel("decimals of ln(variance), ln(lengthscale)")
            ax.set_ylabel(label)
            ax.set_title(title)
        drawing.axes[1].axhline(0.0, color=LIMIT, linewidth=0.8)
        drawing.axes[2].set_yscale("log")
        drawing.legend("above", columns=4, title="mean and 95 % t interval over splits")
        drawing.data = tidy


def _with_range(tidy: pd.DataFrame, sizes: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows with median and range over the splits, not mean and t interval, for the effect of rounding."""
    tidy, grouped = tidy.copy(), sizes.groupby(by)["bound_change"]
    own = tidy["metric"] == "bound_change"
    keys = list(tidy.loc[own, by].itertuples(index=False, name=None))
    for column, values in (
        ("mean", grouped.median()),
        ("interval_low", grouped.min()),
        ("interval_high", grouped.max()),
    ):
        tidy.loc[own, column] = values.reindex(keys).to_numpy()
    tidy.loc[own, "interval"] = "median and range"
    return tidy
