"""Groups of perturbations, norms of perturbed gradients, and their ranks."""
