"""The bound of Blaas et al. 2020 (App. C, D), the baseline.

Equation: Blaas et al. 2020, App. C, App. D
"""
