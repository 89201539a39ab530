"""Settings of robustness/explain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from gpsuite.experiments.robustness.safety.settings import increasing_pair
from gpsuite.experiments.robustness.shared.settings import ChosenPoints, ClassifierSettings, up_to_ten
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, unique

falling = Rule(
    lambda values: len(values) >= 2 and all(low < high for high, low in pairwise(values)),
    "two or more falling numbers",
)


@dataclass
class ExplainSettings(ClassifierSettings, ChosenPoints):
    """Settings of explanations on any dataset.

    Attributes:
        classes: two to ten labels, of two the negative class first; empty: the dataset's own.
        evaluations: of the marginal likelihood in training.
        radius: how far each input moves alone, up and down, in scaled inputs.
        domain: lowest and highest value of every input, in the dataset's own units; empty: each input's own range.
        points: test rows to explain; empty: the first `count`.
        count: how many, if `points` is empty.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both ends of all intervals of a point; 0 gives the trivial range.
        check_points: points at which the effect is held against the gradient.
        check_radii: falling radii of that check, in scaled inputs.
    """

    classes: Annotated[list[str], up_to_ten]
    evaluations: Count
    radius: Positive
    domain: Annotated[list[float], increasing_pair]
    points: Annotated[list[int], unique]
    count: Count
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]
    check_points: Annotated[int, at_least(0)]
    check_radii: Annotated[list[Positive], falling]

    def check(self) -> None:
        """Refuse test rows that there are not."""
        super().check()
        self.refuse_absent_points()
