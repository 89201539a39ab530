"""Explanations of a classifier at a point: what moving one input alone does, and the local linear model of LIME."""
