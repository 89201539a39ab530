"""Settings of robustness/bounds_1d."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, at_least, filled, one_of, unique, within

BOUNDS = {"rkhs_taylor": "RKHS–Taylor bound", "paper": "paper's bound"}


DOMAIN = (-3.0, 3.0)


FREQUENCY, NOISE = 1.5, 0.3  # the label is the sign of sin(1.5 x) + 0.3 N(0, 1)


@dataclass
class Bounds1DSettings:
    """Settings of the one-dimensional picture: labels sign(sin(1.5 x) + 0.3 N(0, 1)), x uniform on [-3, 3].

    Attributes:
        rows: training points.
        evaluations: of the marginal likelihood in training.
        low: lower end of the region T.
        high: upper end.
        bounds: names of bounds.
        grid_points: at which the bounding functions are checked and drawn.
        levels: how often all boxes are halved after the whole region.
    """

    rows: Annotated[int, at_least(4)]
    evaluations: Count
    low: float
    high: float
    bounds: Annotated[list[Annotated[str, one_of(BOUNDS)]], filled, unique]
    grid_points: Annotated[int, at_least(3)]
    levels: Annotated[int, within(1, 12)]

    def check(self) -> None:
        """Refuse a region that is empty or leaves the domain."""
        require(self.low < self.high, "high", self.high, f"must be above low={self.low:g}")
        inside = DOMAIN[0] <= self.low and self.high <= DOMAIN[1]
        require(inside, "low", self.low, f"the region [low, high] must lie in the domain {list(DOMAIN)}")
