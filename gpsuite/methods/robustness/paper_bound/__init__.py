"""The bound of Blaas et al. 2020, the baseline.

Equation: Blaas et al. 2020, App. C, App. D
"""
