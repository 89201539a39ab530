"""Settings of pac_bayes/epsilon_boston."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.base import require
from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings, check_epsilon


@dataclass
class EpsilonSettings(SplitSettings):
    """Settings of the scan over accuracy goals.

    Attributes:
        epsilons: half-widths of the 0-1 band, in standard deviations of the target.
    """

    epsilons: list[float] = field(default_factory=lambda: [0.2, 0.4, 0.6, 0.8, 1.0])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        require(bool(self.epsilons), "epsilons", self.epsilons, "needs at least one value")
        require(len(set(self.epsilons)) == len(self.epsilons), "epsilons", self.epsilons, "has a value twice")
        for value in self.epsilons:
            check_epsilon("epsilons", value)
