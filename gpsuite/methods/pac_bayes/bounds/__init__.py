"""PAC-Bayesian bounds: the inverse kl, forms to certify and to minimise, the hyperparameter grid."""
