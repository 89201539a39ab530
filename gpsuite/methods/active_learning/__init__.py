"""Choice of the next safe measurement: active learning with multi-output GPs.

Equation: Li et al. 2022, Algorithm 1
"""

from __future__ import annotations

from gpsuite.methods.active_learning.acquisition import Pipeline
from gpsuite.methods.active_learning.exploration import Explorer, Planner, Step, explore
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner, NothingToMeasureError, Plan, Proposal
from gpsuite.methods.active_learning.plan.optimum import Recommendation
from gpsuite.methods.active_learning.plan.safety import SafetyGuard
from gpsuite.methods.active_learning.problem import ExplorationProblem, Monitor, Pool, SafetyLimit
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

__all__ = [
    "ExplorationProblem",
    "Explorer",
    "InferenceSettings",
    "MeasurementPlanner",
    "Monitor",
    "NothingToMeasureError",
    "Observations",
    "Pipeline",
    "Plan",
    "Planner",
    "Pool",
    "Proposal",
    "Recommendation",
    "SMCSettings",
    "SafetyGuard",
    "SafetyLimit",
    "Step",
    "explore",
]
