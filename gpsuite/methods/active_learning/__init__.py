"""Safe active learning of multi-output Gaussian processes (Li, Rakitsch and Zimmer 2022)."""
