"""Regression: exact and sparse Gaussian processes, their training, prediction and storage."""
