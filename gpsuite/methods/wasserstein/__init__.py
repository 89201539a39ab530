"""Gaussian Wasserstein inference (Wild, Hu & Sejdinovic 2022): variational inference between Gaussian measures."""
