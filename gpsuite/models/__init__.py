"""The shared GPflow layer: kernels, exact and sparse regression, training, prediction, storage.

Nothing is imported here, so that `gpsuite.models.config` and `gpsuite.models.linalg` stay free of TensorFlow.
"""
