"""Judgement of numbers: estimates with named intervals, tests, paired views. Numpy and scipy only."""
