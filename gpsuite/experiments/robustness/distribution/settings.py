"""Settings of robustness/distribution_*."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.robustness.shared.probability_change import SearchSettings
from gpsuite.experiments.robustness.shared.settings import Radius
from gpsuite.experiments.settings import filled, unique


@dataclass
class DistributionSettings(SearchSettings):
    """Settings of the distribution of delta.

    Attributes:
        radii: of the boxes (L-infinity), in units of the scaled inputs; the first is held against the paper.
    """

    radii: Annotated[list[Radius], filled, unique]
