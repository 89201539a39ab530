"""Scores of probabilistic predictions: classification, out-of-distribution detection, regression."""
