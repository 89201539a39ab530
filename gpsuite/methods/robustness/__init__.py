"""Certified ranges of a classifier's latent mean, variance and class probability over boxes and balls."""
