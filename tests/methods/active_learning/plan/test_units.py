"""Units of plans: what varies little far from 0 varies."""

from __future__ import annotations

import numpy as np

from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner, Plan
from gpsuite.methods.active_learning.plan.safety import Units
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from tests.arrays import Array

FACTOR, OFFSET = 2.0**-13, 2.0**30  # nothing is rounded by them here


def asked(X: Array, z: Array, candidates: Array, limit: float = 0.0) -> Plan:
    smc = SMCSettings(particles=64)
    planner = MeasurementPlanner(SafetyLimit(limit, "below"), np.random.default_rng(0), smc=smc)
    planner.tell(X, np.sin(2.0 * np.arange(len(X))), z)
    return planner.ask(candidates)


def test_a_small_spread_at_a_large_offset_is_a_spread() -> None:
    """Time stamps in nanoseconds, say: candidates far out were called safe."""
    rng = np.random.default_rng(0)
    X, candidates = (np.round(rng.uniform(-e, e, (n, 1)) * 512) / 512 for e, n in ((1, 12), (3, 40)))
    z, unsafe = np.round((X[:, 0] ** 2 - 1.5) * 512) / 512, candidates[:, 0] ** 2 > 1.5
    near = asked(X, z, candidates)
    far = asked(X * FACTOR + OFFSET, z, candidates * FACTOR + OFFSET)
    assert near.safe.any() and not (near.safe & unsafe).any()
    np.testing.assert_allclose(far.probability_safe, near.probability_safe, atol=1e-3)
    far = asked(X, z * FACTOR + OFFSET, candidates, OFFSET)
    np.testing.assert_allclose(far.probability_safe, near.probability_safe, atol=0.05)


def test_the_rounding_of_equal_values_is_no_spread() -> None:
    X = np.full((7, 1), 0.1) * np.arange(1, 8)[:, None] / np.arange(1, 8)[:, None]
    found = Units.of(X, X, np.full((7, 1), 0.3), np.linspace(-1.0, 0.0, 7), SafetyLimit(1.0, "below"))
    assert np.ptp(X) > 0.0
    assert found.x_scale[0] > 0.09 and found.y_scale[0] > 0.29
