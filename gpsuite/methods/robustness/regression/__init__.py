"""How far a regression's prediction moves over a region of inputs: its mean and its predictive quantiles, proved."""
