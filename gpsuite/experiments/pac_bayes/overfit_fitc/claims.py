"""What App. E of Reeb et al. 2018 says about FITC's overfitting, as statistics that decide it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.pac_bayes.overfit_fitc.settings import OVERFITTER, PAC
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import proportion
from gpsuite.statistics.paired import Paired

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
    paired = Paired(frame, ["repetition"])
    differences = np.array([paired(metric, OVERFITTER) - paired(metric, PAC) for metric in metrics])
    noise, gap, risk = differences[:, np.isfinite(differences).all(axis=0)]
    if not len(noise):
        return []
    shares = {
        "share_only_fitc_overfits": (noise < 0) & (gap > 0),
        "share_fitc_learns_less_noise": noise < 0,
        "share_fitc_has_larger_gap": gap > 0,
        "share_fitc_has_larger_test_risk": risk > 0,
    }
    return [
        Statistic.of(
            name, proportion(int(held.sum()), len(held)), note=f"{held.sum()} of {len(held)} data sets"
        )
        for name, held in shares.items()
    ]
