"""Settings of pac_bayes/rounding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings
from gpsuite.experiments.settings import Positive, filled, unique, within

PAPER_DECIMALS = 2


MAX_DECIMALS = 6


PAC = "kl_pac_gp"


@dataclass
class RoundingSettings(SplitSettings):
    """Settings of the rounding study.

    Attributes:
        epsilons: accuracy goals, in standard deviations of the target.
        decimals: decimals of the natural logarithms of variance and lengthscales, one grid each.
    """

    epsilons: Annotated[list[Positive], filled, unique]
    decimals: Annotated[list[Annotated[int, within(0, MAX_DECIMALS)]], filled, unique]
