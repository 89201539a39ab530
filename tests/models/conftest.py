"""One thread for TensorFlow, and a small problem, for all tests of the model layer."""

from __future__ import annotations

import pytest

from gpsuite.models.tensorflow_setup import configure
from tests.arrays import Array
from tests.models.regression_problems import make_problem

configure(1)


@pytest.fixture
def problem() -> tuple[Array, Array]:
    """Noisy sine of two inputs, X[25, 2] and Y[25, 1]."""
    return make_problem(0)
