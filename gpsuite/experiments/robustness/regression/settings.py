"""Settings of robustness/regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.settings import ChosenPoints
from gpsuite.experiments.settings import Count, Positive, at_least, between, filled, increasing, unique


@dataclass
class RegressionSettings(ChosenPoints):
    """Settings of proved prediction ranges on any dataset with one target.

    Attributes:
        train_rows: training rows; fewer where the test rows leave no more.
        test_rows: test rows.
        evaluations: of the marginal likelihood in training.
        uncertain: names of the inputs that are known within so much only; empty: all.
        within: how much, one amount per name of `uncertain` in the input's own units; empty: `radius` for each.
        radius: how much, in standard deviations of the input over the training rows.
        quantiles: levels of the predictive quantiles, beside the mean.
        points: test rows; empty: the first `count`.
        count: how many, if `points` is empty.
        tolerance: largest gap between attained and proved value, in standard deviations of the target.
        boxes: limit for all searches of a point; 0 gives no bound.
        certificates: whether to write a certificate for every point.
        certificate_boxes: limit per claim when a certificate is made; it then claims as much as it can prove.
        samples: points of each region at which the model itself is asked, to check the ranges.
    """

    train_rows: Annotated[int, at_least(2)]
    test_rows: Count
    evaluations: Count
    uncertain: Annotated[list[str], unique]
    within: list[Positive]
    radius: Positive
    quantiles: Annotated[list[Annotated[float, between(0, 1)]], filled, unique, increasing]
    points: Annotated[list[int], unique]
    count: Count
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]
    certificates: bool
    certificate_boxes: Count
    samples: Count

    def check(self) -> None:
        """Refuse amounts that belong to no input and test rows that there are not."""
        fits = len(self.within) in (0, len(self.uncertain))
        require(fits, "within", self.within, f"one amount per input of uncertain={self.uncertain} is needed")
        self.refuse_absent_points()
