"""Settings of every experiment on trained classifiers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, between, one_of
from gpsuite.models.classification.training import SEARCH_RANGE

AGREEMENT = 1e-3  # trained for some steps only, then searched up to a tolerance: last bits grow


SCALINGS = ("none", "all", "train", "pixels")


two_or_none = Rule(
    lambda names: len(names) in (0, 2) and len(set(names)) == len(names),
    "name two different labels, or none: classes=[A,B]",
)
up_to_ten = Rule(
    lambda names: len(names) in (0, *range(2, 11)) and len(set(names)) == len(names),
    "name two to ten different labels, or none: classes=[A,B,C]",
)
in_search_range = Rule(
    lambda value: SEARCH_RANGE[0] < value <= SEARCH_RANGE[1],
    f"must be above {SEARCH_RANGE[0]:g} and at most {SEARCH_RANGE[1]:g}",
)
Radius = Annotated[float, Rule(lambda value: 0 <= value < math.inf, "a radius must be a number of 0 or more")]


class ChosenPoints:
    """Settings that name test rows: those in `points`, or the first `count`."""

    test_rows: int
    points: list[int]
    count: int

    def refuse_absent_points(self) -> None:
        """Refuse test rows that there are not."""
        last = self.test_rows - 1
        for point in self.points:
            require(0 <= point <= last, "points", point, f"the test rows are numbered 0 to {last}")
        require(self.count <= self.test_rows, "count", self.count, f"must be 1 to {self.test_rows}")

    @property
    def chosen_points(self) -> list[int]:
        """The test rows that are taken."""
        return self.points or list(range(self.count))


@dataclass
class TrainingSettings:
    """Settings of classifiers trained on random rows of a dataset.

    Attributes:
        train_rows: training rows; fewer where the test rows leave no more.
        test_rows: test rows.
        classes: two labels of a dataset with more, the negative class first; empty: the dataset's own two.
        start_variance: kernel variance that training starts from.
        start_lengthscale: lengthscale that training starts from, in median distances of the training inputs.
        largest_variance: end of the search for the variance; the evidence of separable data may rise without end.
    """

    train_rows: Annotated[int, at_least(2)]
    test_rows: Count
    classes: Annotated[list[str], two_or_none]
    start_variance: Positive
    start_lengthscale: Annotated[
        float, between(1e-3, 1e3)
    ]  # from farther off the search would leave its range
    largest_variance: Annotated[float, in_search_range]

    def check(self) -> None:
        """Refuse a start outside the search."""
        low = SEARCH_RANGE[0]
        reached = low <= self.start_variance <= self.largest_variance
        limits = f"must lie between {low:g} and largest_variance={self.largest_variance:g}"
        require(reached, "start_variance", self.start_variance, limits)


@dataclass
class ClassifierSettings(TrainingSettings):
    """Settings of experiments that train classifiers.

    Attributes:
        scaling: of the inputs. none; all, train: each input to mean 0 and deviation 1 over all or the training rows;
            pixels: one map of all inputs from their smallest and largest value to [0, 1], the perturbations' domain.
    """

    scaling: Annotated[str, one_of(SCALINGS)]
