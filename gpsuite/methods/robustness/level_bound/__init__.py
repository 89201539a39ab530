"""Bounds of the class probability over boxes by one level function: models of degree 3 of mean and variance.

In order of use: `posterior_slice` restricts the posterior to the free inputs. `squared_exponential`, `matern` and
`composite` give local cubic models of mean and variance. `level` combines them for a level of the class probability.
`level_bound` makes the bound, and `level_search` searches with it.

Equation: derived, level function
"""
