"""Settings of active_learning/plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.settings import Count, Rule, Share, at_least, one_of, within

MOST_PER_PLAN = 100


LONGEST_STEP = 1e6


in_reach = Rule(lambda step: 0.0 <= step <= LONGEST_STEP, f"must lie between 0 and {LONGEST_STEP:g}")


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

    measurements: Annotated[int, within(1, MOST_PER_PLAN)]
    delta: Share
    step: Annotated[float, in_reach]
    queries: Annotated[str, one_of(("partial", "full"))]
    when_nothing_is_safe: Annotated[str, one_of(("stop", "safest"))]
    mixing: Annotated[str, one_of(("free", "identity"))]
    kernel: Annotated[str, one_of(("matern52", "squared_exponential"))]
    particles: Annotated[int, at_least(2)]
    moves: Count
    leapfrog: Count
