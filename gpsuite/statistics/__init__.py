"""Where numbers are judged: estimates with named intervals, tests, paired views. Numpy and scipy only."""
