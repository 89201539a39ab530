"""Explanations of a classifier at a point: effects of moving one input at a time, and LIME's local linear model."""
