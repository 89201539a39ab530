"""Settings of wasserstein/toy_bands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.settings import Count, Positive, at_least, filled, increasing
from gpsuite.experiments.wasserstein.shared.training_settings import TrainingSettings


@dataclass
class ToySettings(TrainingSettings):
    """Settings of the one-dimensional example.

    Attributes:
        repetitions: data sets.
        rows: of each; their inputs leave a gap in the middle.
        noise_scale: standard deviation of the noise, in units of y.
        distance_rows: points on which the distance's estimates are compared.
        distance_draws: random pairs of kernels, and random choices of X_S for each size.
        chosen_sizes: sizes of X_S.
        network_widths: of random networks whose covariance is compared with its limit.
        networks: random networks of each width.
    """

    repetitions: Count
    rows: Annotated[int, at_least(20)]
    noise_scale: Positive
    distance_rows: Annotated[int, at_least(10)]
    distance_draws: Count
    chosen_sizes: Annotated[list[Count], filled, increasing]
    network_widths: Annotated[list[Count], increasing]
    networks: Annotated[int, at_least(3)]
