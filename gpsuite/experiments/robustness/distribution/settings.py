"""Settings of robustness/distribution_*."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.robustness.shared.probability_change import DeltaSettings, check_radii


@dataclass
class DistributionSettings(DeltaSettings):
    """Settings of the distribution of delta.

    Attributes:
        radii: of the boxes (L-infinity), in units of the scaled inputs; the first is held against the paper.
    """

    radii: list[float] = field(default_factory=lambda: [0.5])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        check_radii(self.radii)
