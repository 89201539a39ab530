"""One thread for TensorFlow in this room's tests, and no compilation where it would cost more than it saves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tensorflow as tf

from gpsuite.models.tensorflow_setup import configure

configure(1)


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """Run TensorFlow's functions step by step: a fit of a few steps takes less time than its compilation."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
