"""Settings of pac_bayes/predictive_snelson."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, Positive, Share

GOALS = ("small", "middle", "large")


PAC = "kl_pac_sgp"


@dataclass
class Goals:
    """One number for each of the three plots of Fig. 1, from left to right.

    Attributes:
        small: of the left plot.
        middle: of the middle plot.
        large: of the right plot.
    """

    small: Positive
    middle: Positive
    large: Positive


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

    epsilons: Goals
    inducing: Count
    starts: Count
    published_kl_over_n: Goals
    scan_epsilons: list[Positive]
    scan_inducing: list[Count]
    delta: Share
    max_evaluations: Count

    def check(self) -> None:
        """Refuse goals that do not rise."""
        goals = self.epsilons
        rising = goals.small < goals.middle < goals.large
        require(rising, "epsilons.middle", goals.middle, "must lie between epsilons.small and epsilons.large")
