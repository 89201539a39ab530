"""The active learning family: safe active learning for multi-output Gaussian processes (Li et al. 2022)."""

from gpsuite.experiments.active_learning import (
    convergence,
    convolution,
    engine,
    gp_samples,
    methods,
    observation_ablation,
    plan,
    toy,
)

__all__ = [
    "convergence",
    "convolution",
    "engine",
    "gp_samples",
    "methods",
    "observation_ablation",
    "plan",
    "toy",
]
