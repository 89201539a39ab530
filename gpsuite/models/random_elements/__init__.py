"""Gaussian random elements: prior and variational Gaussian measures over functions, and likelihoods for them."""
