"""Settings of pac_bayes/epsilon_boston."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings
from gpsuite.experiments.settings import Positive, filled, unique


@dataclass
class EpsilonSettings(SplitSettings):
    """Settings of the scan over accuracy goals.

    Attributes:
        epsilons: half-widths of the 0-1 band, in standard deviations of the target.
    """

    epsilons: Annotated[list[Positive], filled, unique]
