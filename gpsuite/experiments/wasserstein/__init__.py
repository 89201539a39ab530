"""The wasserstein family: Gaussian Wasserstein inference for classification and regression (Wild et al. 2022)."""

from gpsuite.experiments.wasserstein import images, methods, regression, toy_bands

__all__ = ["images", "methods", "regression", "toy_bands"]
