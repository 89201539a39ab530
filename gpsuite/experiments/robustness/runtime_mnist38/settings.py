"""Settings of robustness/runtime_mnist38."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.free_inputs import check_words
from gpsuite.experiments.robustness.shared.settings import (
    ClassifierSettings,
    check_distinct,
    check_positive,
    check_radius,
)
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

    features: str = "sift"
    evaluations: int = 10
    dimensions: list[int] = field(default_factory=lambda: list(range(1, 11)))
    gammas: list[float] = field(default_factory=lambda: [0.125, 0.25])
    tolerances: list[float] = field(default_factory=lambda: [0.005, 0.01, 0.015, 0.02, 0.025])
    tolerance_dimension: int = 5
    points: int = 50
    boxes: int = 100000
    reference: str = "paper"
    reference_points: int = 5
    reference_seconds: float | None = 10.0
    reference_boxes: int = 100000

    def check(self) -> None:
        """Refuse values of the right type that are impossible."""
        super().check()
        for name in ("dimensions", "gammas", "tolerances"):
            values = getattr(self, name)
            check_distinct(name, values)
            require(sorted(values) == values, name, values, "must increase")
        check_words([f"{self.features}{count}" for count in self.dimensions], max(self.dimensions))
        known = self.tolerance_dimension in self.dimensions
        require(known, "tolerance_dimension", self.tolerance_dimension, f"must be one of {self.dimensions}")
        for gamma in self.gammas:
            check_radius("gammas", gamma)
        for tolerance in self.tolerances:
            check_positive("tolerances", tolerance)
        require(self.evaluations >= 1, "evaluations", self.evaluations, "must be 1 or more")
        require(
            self.reference in bound_names(), "reference", self.reference, f"valid: {', '.join(bound_names())}"
        )
        for name in ("points", "reference_points"):
            value = getattr(self, name)
            require(1 <= value <= self.test_rows, name, value, f"must be 1 to {self.test_rows}")
        for name in ("boxes", "reference_boxes"):
            require(getattr(self, name) >= 0, name, getattr(self, name), "must be 0 or more")
        seconds = self.reference_seconds
        require(seconds is None or seconds > 0, "reference_seconds", seconds, "must be above 0")

    def cells(self) -> Iterator[tuple[float, int, float]]:
        """Yield gamma, dimension and tolerance of every cell."""
        last = self.tolerances[-1]
        for gamma in self.gammas:
            for dimension in self.dimensions:
                yield gamma, dimension, last
            for tolerance in self.tolerances[:-1]:
                yield gamma, self.tolerance_dimension, tolerance
