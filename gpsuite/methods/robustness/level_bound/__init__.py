"""Bounds of the class probability over boxes by one level function: degree-3 models of mean and variance.

What is kept per posterior (`posterior_products`), its restriction to the free inputs (`posterior_slice`), local
cubic models of mean and variance (`squared_exponential`, `matern`), their combination for a level of the class
probability (`level`), its maximum over a box (`concave_relaxation`), and the search that uses it (`level_search`).
"""
