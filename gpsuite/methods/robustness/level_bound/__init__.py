"""Bounds of the class probability over boxes by one level function: models of degree 3 of mean and variance.

In order of use: the posterior restricted to the free inputs (`posterior_slice`), local cubic models of mean and
variance (`squared_exponential`, `matern`, `composite`), their combination for a level of the class probability
(`level`), the bound made of these (`level_bound`), and the search that uses it (`level_search`).

Equation: derived, level function
"""
