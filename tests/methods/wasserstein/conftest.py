"""One thread for TensorFlow in this room's tests."""

from __future__ import annotations

from gpsuite.models.tensorflow_setup import configure

configure(1)
