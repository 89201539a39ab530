"""Certificates of several classes and of regression: latent functions of one kernel with a joint posterior."""
