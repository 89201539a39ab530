"""A tiny problem of safe active learning and its exploration, shared by tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.active_learning.acquisition import PIPELINES, Pipeline
from gpsuite.methods.active_learning.exploration import Explorer, Step, explore
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.problem import ExplorationProblem, Monitor, Oracle, Pool, SafetyLimit
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

LIMIT = 0.6
AL = PIPELINES["AL_MOGP"]
SMALL = InferenceSettings(smc=SMCSettings(particles=12, moves=2, leapfrog=3))


@dataclass(frozen=True)
class Truth:
    """Measured values at the rows of a pool: outputs [n, P] and safety values [n]."""

    Y: FloatArray
    z: FloatArray

    @property
    def oracle(self) -> Oracle:
        """Gives the values as they stand."""

        def measured(row: int, p: int | None) -> tuple[float | FloatArray, float]:
            return self.Y[row] if p is None else float(self.Y[row, p]), float(self.z[row])

        return measured


def outputs(x: FloatArray, n_outputs: int) -> FloatArray:
    return np.stack([np.sin(3.0 * x + p) + 0.5 * p for p in range(n_outputs)], axis=1)


def safety_value(x: FloatArray) -> FloatArray:
    return np.exp(-0.5 * x**2)


def tiny(
    n_outputs: int = 2,
    *,
    n: int = 15,
    side: str = "above",
    available: BoolArray | None = None,
    limit: float = LIMIT,
    delta: float = 0.2,
    seed: int = 0,
) -> tuple[ExplorationProblem, Truth]:
    """Return a problem on a grid of [-2, 2], safe about within [-1, 1], and what measurements give.

    With side `below`, safety values and limit have the opposite sign.
    """
    rng = np.random.default_rng(seed)
    sign = 1.0 if side == "above" else -1.0
    x = np.linspace(-2.0, 2.0, n)
    truth = Truth(
        outputs(x, n_outputs) + 0.1 * rng.standard_normal((n, n_outputs)),
        sign * (safety_value(x) + 0.02 * rng.standard_normal(n)),
    )
    start = rng.uniform(-0.8, 0.8, 4)
    p = np.arange(4) % n_outputs
    test = np.linspace(-0.9, 0.9, 5)
    problem = ExplorationProblem(
        pool=Pool(x[:, None], np.ones((n, n_outputs), dtype=bool) if available is None else available),
        outputs=Observations(start[:, None], p, outputs(start, n_outputs)[range(4), p]),
        safety=Observations(start[:, None], np.zeros(4, dtype=np.int64), sign * safety_value(start)),
        limit=SafetyLimit(sign * limit, side),
        delta=delta,
        monitors={"test": Monitor(test[:, None], outputs(test, n_outputs)), "pool": Monitor(x[:1, None])},
    )
    return problem, truth


def run(
    problem: ExplorationProblem,
    truth: Truth,
    pipeline: Pipeline = AL,
    *,
    seed: int = 7,
    iterations: int = 6,
    **options: Any,
) -> tuple[Explorer, list[Step]]:
    """Explore to the end; return the explorer and its steps."""
    options.setdefault("settings", SMALL)
    resume = options.pop("resume", None)
    explorer = explore(problem, pipeline, truth.oracle, np.random.default_rng(seed), iterations, **options)
    if resume is not None:
        explorer.restore(resume)
    return explorer, list(explorer)
