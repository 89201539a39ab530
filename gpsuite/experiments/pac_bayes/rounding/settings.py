"""Settings of pac_bayes/rounding."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.base import require
from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings, check_epsilon

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

    epsilons: list[float] = field(default_factory=lambda: [0.2, 0.6, 1.0])
    decimals: list[int] = field(default_factory=lambda: [0, 1, 2, 3])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        for name, values in (("epsilons", self.epsilons), ("decimals", self.decimals)):
            require(bool(values), name, values, "needs at least one value")
            require(len(set(values)) == len(values), name, values, "has a value twice")
        for epsilon in self.epsilons:
            check_epsilon("epsilons", epsilon)
        for decimals in self.decimals:
            require(
                0 <= decimals <= MAX_DECIMALS, "decimals", decimals, f"must lie between 0 and {MAX_DECIMALS}"
            )
