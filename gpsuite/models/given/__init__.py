"""Models that were trained elsewhere, GPflow's and scikit-learn's, as the posteriors that bounds are found for."""
