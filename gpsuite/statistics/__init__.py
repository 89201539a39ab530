"""Where numbers are judged: estimates with named intervals, tests, paired views; numpy and scipy only."""
