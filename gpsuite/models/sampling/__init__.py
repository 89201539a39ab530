"""Posteriors of hyperparameters: priors, HMC, sequential Monte Carlo, optima, mixtures."""
