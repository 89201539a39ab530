"""Gaussian Wasserstein inference (Wild, Hu & Sejdinovic 2022): variational inference between Gaussian measures.

Equation: Wild et al. 2022, App. A.6
"""
