"""Names of the family's classifiers and regressions, without what they are made of. No TensorFlow.

Equation: none, names
"""

CLASSIFIER_NAMES = (
    "gwi",
    "gwi_kernel",
    "gwi_softmax",
    "gwi_nngp",
    "gwi_bernoulli",
    "svgp",
    "svgp_softmax",
    "map",
    "temperature",
    "mc_dropout",
    "ensemble",
    "mean_field",
    "laplace",
)
REGRESSOR_NAMES = ("gwi", "gwi_kernel", "gwi_nngp", "svgp", "exact_gp")
