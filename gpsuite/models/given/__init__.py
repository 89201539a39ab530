"""Models that were trained elsewhere, by GPflow or scikit-learn, as posteriors that can be bounded."""
