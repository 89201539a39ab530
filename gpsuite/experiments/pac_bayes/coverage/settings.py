"""Settings of pac_bayes/coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.settings import Count, Positive, Share, at_least, filled

TRUTH, DOMAIN = "sin_2x", (-2.0, 2.0)


@dataclass
class CoverageSettings:
    """Settings of the simulation: y = sin(2x) + noise_scale N(0, 1), x uniform on [-2, 2].

    Attributes:
        simulations: number of simulated data sets.
        batch: data sets per task.
        rows: training rows of each data set.
        epsilon: half-width of the 0-1 band, in units of y.
        noise_scale: standard deviation of the noise.
        deltas: allowed probabilities of failure; the first is the one trained with.
        max_evaluations: limit on objective evaluations per training.
        power_simulations: data sets of noise per number of rows, in the settings where a wrong bound fails.
    """

    simulations: Count
    batch: Count
    rows: Annotated[int, at_least(5)]
    epsilon: Positive
    noise_scale: Positive
    deltas: Annotated[list[Share], filled]
    max_evaluations: Count
    power_simulations: Count
