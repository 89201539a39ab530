"""Settings of robustness/bounds_1d."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.settings import check_distinct

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

    rows: int = 30
    evaluations: int = 20
    low: float = 0.0
    high: float = 1.0
    bounds: list[str] = field(default_factory=lambda: list(BOUNDS))
    grid_points: int = 401
    levels: int = 6

    def check(self) -> None:
        """Refuse impossible values."""
        require(self.rows >= 4, "rows", self.rows, "must be 4 or more")
        require(self.evaluations >= 1, "evaluations", self.evaluations, "must be 1 or more")
        require(self.low < self.high, "high", self.high, f"must be above low={self.low:g}")
        inside = DOMAIN[0] <= self.low and self.high <= DOMAIN[1]
        require(inside, "low", self.low, f"the region [low, high] must lie in the domain {list(DOMAIN)}")
        check_distinct("bounds", self.bounds)
        for name in self.bounds:
            require(name in BOUNDS, "bounds", name, f"valid: {', '.join(BOUNDS)}")
        require(self.grid_points >= 3, "grid_points", self.grid_points, "must be 3 or more")
        require(1 <= self.levels <= 12, "levels", self.levels, "must be 1 to 12")
