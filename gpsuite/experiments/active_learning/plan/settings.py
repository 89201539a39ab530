"""Settings of active_learning/plan."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import require

MOST_PER_PLAN = 100


LONGEST_STEP = 1e6


CHOICES = {
    "queries": ("partial", "full"),
    "when_nothing_is_safe": ("stop", "safest"),
    "mixing": ("free", "identity"),
    "kernel": ("matern52", "squared_exponential"),
}


@dataclass
class PlanSettings:
    """Settings of a measurement plan.

    Attributes:
        measurements: how many to propose.
        delta: a proposal must be safe with probability above 1 - delta.
        step: while the safety value has hardly varied, no input of a proposal lies more than this many measured ranges
            outside its measured range.
        queries: `partial`: one output per measurement; `full`: all outputs.
        when_nothing_is_safe: `stop` as infeasible, or propose one measurement at the `safest` candidate.
        mixing: `free`: correlated outputs (linear model of coregionalisation); `identity`: independent ones.
        kernel: of the latent processes and of the safety model.
        particles: of the posterior of the hyperparameters, at most: large tables get fewer, never below 32.
        moves: trajectories per particle after each resampling.
        leapfrog: steps per trajectory.
    """

    measurements: int = 3
    delta: float = 0.05
    step: float = 0.15
    queries: str = "partial"
    when_nothing_is_safe: str = "stop"
    mixing: str = "free"
    kernel: str = "matern52"
    particles: int = 128
    moves: int = 3
    leapfrog: int = 10

    def check(self) -> None:
        """Refuse impossible values."""
        fits = 1 <= self.measurements <= MOST_PER_PLAN
        require(fits, "measurements", self.measurements, f"must be from 1 to {MOST_PER_PLAN}")
        require(0.0 < self.delta < 1.0, "delta", self.delta, "must lie between 0 and 1")
        require(
            0.0 <= self.step <= LONGEST_STEP, "step", self.step, f"must lie between 0 and {LONGEST_STEP:g}"
        )
        for name, valid in CHOICES.items():
            value = getattr(self, name)
            require(value in valid, name, value, f"valid: {', '.join(valid)}")
        for name, least in (("particles", 2), ("moves", 1), ("leapfrog", 1)):
            require(getattr(self, name) >= least, name, getattr(self, name), f"must be {least} or more")
