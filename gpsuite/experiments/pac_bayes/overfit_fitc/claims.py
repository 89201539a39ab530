"""What App. E of Reeb et al. 2018 says about FITC's overfitting, as statistics that decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpsuite.experiments.pac_bayes.overfit_fitc.settings import OVERFITTER, PAC
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd


def claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return the shares of data sets in which FITC learns less noise, has the larger gap, both, and predicts worse.

    Args:
        frame: one row per method and repetition with noise_std, gap and gibbs_risk_test; nothing without both methods.
    """
    if not {PAC, OVERFITTER} <= set(frame["method"]):
        return []
    metrics = ["noise_std", "gap", "gibbs_risk_test"]
    wide = frame.pivot(index="repetition", columns="method", values=metrics)
    pair = wide[[(metric, name) for metric in metrics for name in (PAC, OVERFITTER)]].dropna()
    if not len(pair):
        return []
    less_noise = pair["noise_std", OVERFITTER] < pair["noise_std", PAC]
    larger_gap = pair["gap", OVERFITTER] > pair["gap", PAC]
    shares = {
        "share_only_fitc_overfits": less_noise & larger_gap,
        "share_fitc_learns_less_noise": less_noise,
        "share_fitc_has_larger_gap": larger_gap,
        "share_fitc_has_larger_test_risk": pair["gibbs_risk_test", OVERFITTER] > pair["gibbs_risk_test", PAC],
    }
    return [
        Statistic(name, float(held.mean()), n=len(pair), note=f"{int(held.sum())} of {len(pair)} data sets")
        for name, held in shares.items()
    ]
