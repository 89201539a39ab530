"""Bounds of the class probability over boxes by one level function: models of degree 3 of mean and variance.

What is kept per posterior (`posterior_products`), its restriction to the free inputs (`posterior_slice`), local
cubic models of mean and variance (`squared_exponential` with its `_rests` and, for few inputs, `_few`; `matern` with
`kernel_sums`), their combination for a level of the class probability (`level`), its maximum over a box
(`concave_relaxation`), the bound made of these (`level_bound`), and the search that uses it (`level_search`, `newton`).

Equation: derived, level function
"""
