"""Sparse posteriors: algebra, objectives with gradients, certificates' rounding, training."""
