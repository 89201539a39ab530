"""Settings of pac_bayes/coverage."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.base import require
from gpsuite.experiments.pac_bayes.shared.settings import check_epsilon

TRUTH, DOMAIN = "sin_2x", (-2.0, 2.0)


@dataclass
class CoverageSettings:
    """Settings of the simulation: y = sin(2x) + noise_scale N(0, 1), x uniform on [-2, 2].

    Attributes:
        simulations: number of simulated data sets.
        batch: data sets per task.
        rows: training rows of each data set.
        epsilon: half-width of the 0-1 band, in units of y.
        noise_scale: standard deviation of the noise.
        deltas: allowed probabilities of failure; the first is the one trained with.
        max_evaluations: limit on objective evaluations per training.
        power_simulations: data sets of noise per number of rows, in the settings where a wrong bound fails.
    """

    simulations: int = 2000
    batch: int = 50
    rows: int = 60
    epsilon: float = 0.5
    noise_scale: float = 0.3
    deltas: list[float] = field(default_factory=lambda: [0.01, 0.1, 0.5])
    max_evaluations: int = 1000
    power_simulations: int = 400

    def check(self) -> None:
        """Refuse impossible values."""
        for name in ("simulations", "batch", "max_evaluations", "power_simulations"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
        require(self.rows >= 5, "rows", self.rows, "must be 5 or more")
        check_epsilon("epsilon", self.epsilon)
        check_epsilon("noise_scale", self.noise_scale)
        require(bool(self.deltas), "deltas", self.deltas, "needs at least one value")
        for delta in self.deltas:
            require(0 < delta < 1, "deltas", delta, "must lie between 0 and 1")
