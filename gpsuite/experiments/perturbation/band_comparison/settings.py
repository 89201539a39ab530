"""Settings of perturbation/band_comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.data.generators.regression import NOISES
from gpsuite.experiments.perturbation.band_comparison.peers import CENTRES, PEERS
from gpsuite.experiments.perturbation.shared.linear import check_levels
from gpsuite.experiments.settings import Count, Positive, at_least, filled, one_of, unique


@dataclass
class BandSettings:
    """Settings of the comparison: truths are combinations of 8 kernels with standard normal coefficients.

    Attributes:
        bands: to compare.
        noises: what is added to the true function.
        noise_scale: factor of the noise.
        data_sets: number of simulated data sets per cell, the same for every band.
        rows: data in each.
        q: the level is 1 - q/m.
        m: number of compared values.
        points: of the grid on which bands are judged.
        draws: rays of the members' band; samples of the bootstrap.
        evaluations: of the likelihood in training a Gaussian process.
    """

    bands: Annotated[list[Annotated[str, one_of(PEERS)]], filled, unique]
    noises: Annotated[list[Annotated[str, one_of(NOISES)]], filled, unique]
    noise_scale: Positive
    data_sets: Count
    rows: Annotated[int, at_least(2 * len(CENTRES))]
    q: int
    m: int
    points: Annotated[int, at_least(2)]
    draws: Annotated[int, at_least(10)]
    evaluations: Count

    def check(self) -> None:
        """Refuse a q that is not below m."""
        check_levels(self.m, [self.q], "q")
