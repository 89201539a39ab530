"""Small data sets shared by this room's tests."""

from __future__ import annotations

import numpy as np
import pytest

from gpsuite.arrays import FloatArray


@pytest.fixture
def small_data() -> tuple[FloatArray, FloatArray]:
    """Return 150 points in 3 dimensions: more than one panel of the objective, the last one not full."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 3))
    return X, np.sin(X.sum(axis=1)) + 0.3 * rng.normal(size=150)
