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
        radii: of the boxes (L-infinity), in units of the scaled inputs; sizes are held against the paper at the
            first, and at all of them which method is the more robust one.
    """

    radii: Annotated[list[Radius], filled, unique]
