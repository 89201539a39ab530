"""What Sec. 3.1 and App. F of Reeb et al. 2018 say about the grid, as statistics that decide it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpsuite.experiments.pac_bayes.rounding.run import AGAINST_PAPER
from gpsuite.experiments.pac_bayes.rounding.settings import PAPER_DECIMALS
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import share

if TYPE_CHECKING:
    import pandas as pd


NEGLIGIBLE = 1e-4  # a change of the bound that nobody would notice
NEGLIGIBLE_MEAN = 0.05  # one of a predictive mean, in standard deviations of the target


def claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return the statistics of App. F.

    Args:
        frame: rows of `records_frame` of one method.
    """
    fine = frame[frame["decimals"] == PAPER_DECIMALS].dropna(subset=["bound_change", "mean_change"])
    if not len(fine):
        return []
    change = fine["bound_change"].abs()
    hardly = (change < NEGLIGIBLE) & (fine["mean_change"] < NEGLIGIBLE_MEAN)
    note = f"largest change of the predictive mean {fine['mean_change'].max():.2g} standard deviations of the target"
    return [
        Statistic("max_bound_change", float(change.max()), n=len(fine), note=note),
        Statistic.of("share_predictions_hardly_changed", share(hardly), note=note),
        *_coarser(frame),
    ]


def _coarser(frame: pd.DataFrame) -> Iterator[Statistic]:
    """Yield the smallest mean paired change of the bound from two decimals to fewer."""
    coarse = frame[frame["decimals"] < PAPER_DECIMALS].dropna(subset=[AGAINST_PAPER])
    means = coarse.groupby(["decimals", "epsilon"])[AGAINST_PAPER].mean().reset_index()
    if not len(means):
        return
    cells = means.to_dict("records")
    listed = (
        f"{cell['decimals']:g} decimals, ε {cell['epsilon']:g}: {cell[AGAINST_PAPER]:+.4f}" for cell in cells
    )
    lowest = float(means[AGAINST_PAPER].min())
    yield Statistic("min_bound_change_coarser_rounding", lowest, n=len(coarse), note="; ".join(listed))
