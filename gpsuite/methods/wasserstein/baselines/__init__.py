"""Classifiers that Gaussian Wasserstein inference is compared with, trained by the same loop."""
