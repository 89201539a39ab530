"""Settings of robustness/runtime_mnist38."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.free_inputs import check_words
from gpsuite.experiments.robustness.shared.settings import (
    ClassifierSettings,
    Radius,
)
from gpsuite.experiments.settings import Count, Positive, at_least, filled, increasing, one_of, unique
from gpsuite.methods.robustness.verdict import bound_names

OURS = "rkhs_taylor"


@dataclass
class RuntimeSettings(ClassifierSettings):
    """Settings of Fig. 7.

    Attributes:
        features: rule that chooses the free pixels: sift, gradient or shortest.
        evaluations: of the marginal likelihood in training.
        dimensions: numbers of free pixels, at the last of `tolerances`.
        gammas: radii of the L-infinity balls, pixel values from 0 to 1.
        tolerances: epsilon, increasing; all of them with `tolerance_dimension` free pixels.
        tolerance_dimension: one of `dimensions`.
        points: test points with our bound.
        boxes: limit per search with our bound.
        reference: bound set beside ours.
        reference_points: test points with it.
        reference_seconds: limit per search with it, or null.
        reference_boxes: limit per search with it.
    """

    features: str
    evaluations: Count
    dimensions: Annotated[list[int], filled, unique, increasing]
    gammas: Annotated[list[Radius], filled, unique, increasing]
    tolerances: Annotated[list[Positive], filled, unique, increasing]
    tolerance_dimension: int
    points: Count
    boxes: Annotated[int, at_least(0)]
    reference: Annotated[str, one_of(bound_names)]
    reference_points: Count
    reference_seconds: Positive | None
    reference_boxes: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse unknown pixels, a dimension that is not run, and more points than test rows."""
        super().check()
        check_words([f"{self.features}{count}" for count in self.dimensions], max(self.dimensions))
        known = self.tolerance_dimension in self.dimensions
        require(known, "tolerance_dimension", self.tolerance_dimension, f"must be one of {self.dimensions}")
        for name in ("points", "reference_points"):
            value = getattr(self, name)
            require(value <= self.test_rows, name, value, f"must be 1 to {self.test_rows}")

    def cells(self) -> Iterator[tuple[float, int, float]]:
        """Yield gamma, dimension and tolerance of every cell."""
        last = self.tolerances[-1]
        for gamma in self.gammas:
            for dimension in self.dimensions:
                yield gamma, dimension, last
            for tolerance in self.tolerances[:-1]:
                yield gamma, self.tolerance_dimension, tolerance
