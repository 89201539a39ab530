"""Settings of pac_bayes/predictive_snelson."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.base import require
from gpsuite.experiments.pac_bayes.shared.settings import check_epsilon

GOALS = ("small", "middle", "large")


PAC = "kl_pac_sgp"


@dataclass
class Goals:
    """One number for each of the three plots of Fig. 1, from left to right."""

    small: float
    middle: float
    large: float


@dataclass
class PredictiveSettings:
    """Settings of the predictive distributions; nothing is standardised, so all widths are in units of y.

    Attributes:
        epsilons: accuracy goals of the three plots.
        inducing: number M of inducing inputs of every sparse method.
        starts: k-means clusterings to start from; the first of those whose objective ends lowest is kept.
        published_kl_over_n: what the paper prints for the three plots; the scan is held against it.
        scan_epsilons: accuracy goals at which kl-PAC-SGP is trained besides, to look for the lost settings.
        scan_inducing: numbers M of the same scan.
        delta: allowed probability that a bound fails.
        max_evaluations: limit on objective evaluations per start.
    """

    epsilons: Goals = field(default_factory=lambda: Goals(0.141, 0.282, 1.41))
    inducing: int = 8
    starts: int = 10
    published_kl_over_n: Goals = field(default_factory=lambda: Goals(0.097, 0.109, 0.031))
    scan_epsilons: list[float] = field(default_factory=lambda: [0.141, 0.282, 1.41])
    scan_inducing: list[int] = field(default_factory=lambda: [8])
    delta: float = 0.01
    max_evaluations: int = 1000

    def check(self) -> None:
        """Refuse impossible values."""
        goals = self.epsilons
        for name in GOALS:
            check_epsilon(f"epsilons.{name}", getattr(goals, name))
            check_epsilon(f"published_kl_over_n.{name}", getattr(self.published_kl_over_n, name))
        rising = goals.small < goals.middle < goals.large
        require(rising, "epsilons.middle", goals.middle, "must lie between epsilons.small and epsilons.large")
        for value in self.scan_epsilons:
            check_epsilon("scan_epsilons", value)
        for count in (self.inducing, *self.scan_inducing):
            require(count >= 1, "inducing and scan_inducing", count, "must be 1 or more")
        require(0 < self.delta < 1, "delta", self.delta, "must lie between 0 and 1")
        for name in ("starts", "max_evaluations"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
