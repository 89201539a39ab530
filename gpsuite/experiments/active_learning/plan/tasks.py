"""The task of active_learning/plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.params import INLINE
from gpsuite.methods.active_learning.pipelines import Kernel, Mixing, Queries
from gpsuite.methods.active_learning.safety import WhenNothingIsSafe


@dataclass(frozen=True, kw_only=True)
class PlannerParams:
    """What is asked of the planner, whatever it starts from: the seed, and as every other field, `PlanSettings`."""

    seed: int
    measurements: int
    delta: float
    step: float
    queries: Queries
    when_nothing_is_safe: WhenNothingIsSafe
    mixing: Mixing
    kernel: Kernel
    particles: int
    moves: int
    leapfrog: int
    kind: str = "active_learning_plan"


@dataclass(frozen=True)
class PlanTask:
    """One plan for a table as it stands.

    Attributes:
        asked: of the planner.
        state: of the planner that it continues, as text; None: cold.
        parent: key of the record that holds this state; empty: cold.
        question: what identifies data and parameters, whatever the plan starts from.
    """

    asked: PlannerParams = field(metadata=INLINE)
    state: str | None
    parent: str
    question: str
