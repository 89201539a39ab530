"""Settings of the experiments on safe active learning."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.errors import unknown_name
from gpsuite.experiments.active_learning.shared.repetition_data import OFFERS
from gpsuite.experiments.base import require

INFERENCES = ("smc", "hmc", "map", "ml")


WHEN_NOTHING_IS_SAFE = ("stop", "safest")


KERNELS = ("matern52", "squared_exponential")


FORMS = ("code", "paper")


SOURCES = ("toy", "gp_samples", "engine")


@dataclass
class ActiveSettings:
    """Settings of every experiment on learning curves.

    Attributes:
        repetitions: independent repetitions, the same data for every pipeline.
        iterations: models per repetition; the first has the starting data only, each further one a query more.
        initial: values measured at the beginning, all outputs together.
        delta: a query must be safe with a probability above 1 - delta.
        inference: of the hyperparameters: smc, hmc, map or ml.
        particles: of sequential Monte Carlo.
        offers: what a pool row can be asked for: all its outputs, one after the other (`pairs`, the paper), or one
            output, after which it leaves the pool (`one_output`, the authors' code).
        when_nothing_is_safe: `stop` with status infeasible, or query the `safest` point.
        precision_step: precision of the safety model is tabulated at every so many values from the start.
        thresholds: errors whose first number of values is asked for.
    """

    repetitions: int = 30
    iterations: int = 31
    initial: int = 12
    delta: float = 0.05
    inference: str = "smc"
    particles: int = 128
    offers: str = "pairs"
    when_nothing_is_safe: str = "stop"
    precision_step: int = 10
    thresholds: list[float] = field(default_factory=lambda: [0.4])

    def check(self) -> None:
        """Refuse impossible values."""
        for name in ("repetitions", "iterations", "initial", "precision_step"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
        require(0 < self.delta < 1, "delta", self.delta, "must lie between 0 and 1")
        require(self.particles >= 2, "particles", self.particles, "must be 2 or more")
        for value in self.thresholds:
            require(0 < value < float("inf"), "thresholds", value, "must be a number above 0")
        for name, valid in (
            ("inference", INFERENCES),
            ("offers", OFFERS),
            ("when_nothing_is_safe", WHEN_NOTHING_IS_SAFE),
        ):
            if getattr(self, name) not in valid:
                raise unknown_name(name, getattr(self, name), valid)

    def points(self, last: int) -> list[int]:
        """Return the N_sum of the precision tables, up to `last`."""
        return list(range(self.initial, last + 1, self.precision_step))
