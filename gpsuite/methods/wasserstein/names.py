"""Names of the family's classifiers and regressions, without what they are made of. No TensorFlow.

Equation: none, names
"""

GP_CLASSIFIER_NAMES = (
    "gwi",
    "gwi_kernel",
    "gwi_softmax",
    "gwi_nngp",
    "gwi_bernoulli",
    "svgp",
    "svgp_softmax",
)
NETWORK_CLASSIFIER_NAMES = ("map", "temperature", "mc_dropout", "ensemble", "mean_field", "laplace")
REGRESSOR_NAMES = ("gwi", "gwi_kernel", "gwi_nngp", "svgp", "exact_gp")
