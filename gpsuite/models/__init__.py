"""The shared GPflow layer: kernels, exact and sparse regression, training, prediction, storage.

This module imports nothing, so `gpsuite.models.config` and `gpsuite.models.linalg` do not load TensorFlow.
"""
