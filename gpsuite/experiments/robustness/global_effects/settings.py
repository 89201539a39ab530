"""Settings of robustness/explain_synthetic2d and explain_spam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.settings import ClassifierSettings
from gpsuite.experiments.settings import Count, Positive, at_least, filled, increasing, unique


@dataclass
class GlobalEffectsSettings(ClassifierSettings):
    """Settings of Fig. 6 of Blaas et al. 2020.

    Attributes:
        evaluations: of the marginal likelihood in training.
        gammas: lengths of the one-sided intervals, in scaled inputs, increasing.
        points: test points that are averaged over.
        draws: random choices of training and test rows.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both ends of all intervals of one length.
    """

    evaluations: Count
    gammas: Annotated[list[Positive], filled, unique, increasing]
    points: Count
    draws: Count
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse more points than test rows."""
        super().check()
        require(self.points <= self.test_rows, "points", self.points, f"must be 1 to {self.test_rows}")
