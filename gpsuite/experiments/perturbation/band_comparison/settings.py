"""Settings of perturbation/band_comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpsuite.data.generators.noises import NOISES
from gpsuite.errors import unknown_name
from gpsuite.experiments.base import require
from gpsuite.experiments.perturbation.band_comparison.peers import CENTRES, PEERS


@dataclass
class BandSettings:
    """Settings of the comparison: truths are combinations of 8 kernels with standard normal coefficients.

    Attributes:
        bands: keys of `PEERS`.
        noises: keys of `NOISES`.
        noise_scale: factor of the noise.
        data_sets: number of simulated data sets per cell, the same for every band.
        rows: data in each.
        q: the level is 1 - q/m.
        m: number of compared values.
        points: of the grid on which bands are judged.
        draws: rays of the members' band; samples of the bootstrap.
        evaluations: of the likelihood in training a Gaussian process.
    """

    bands: list[str] = field(default_factory=lambda: list(PEERS))
    noises: list[str] = field(default_factory=lambda: ["laplace", "heteroscedastic"])
    noise_scale: float = 0.3
    data_sets: int = 200
    rows: int = 100
    q: int = 10
    m: int = 100
    points: int = 101
    draws: int = 2000
    evaluations: int = 200

    def check(self) -> None:
        """Refuse impossible values."""
        known: tuple[tuple[str, Mapping[str, Any]], ...] = (("bands", PEERS), ("noises", NOISES))
        for key, names in known:
            values: list[str] = getattr(self, key)
            require(bool(values), key, values, "needs at least one name")
            require(len(set(values)) == len(values), key, values, "has a name twice")
            for value in values:
                if value not in names:
                    raise unknown_name(key, value, names)
        require(
            0 < self.q < self.m, "q", self.q, f"must lie in 0 < q < m={self.m}; the confidence is 1 - q/m"
        )
        require(
            0 < self.noise_scale < float("inf"), "noise_scale", self.noise_scale, "must be a number above 0"
        )
        least = {"data_sets": 1, "rows": 2 * len(CENTRES), "points": 2, "draws": 10, "evaluations": 1}
        for name, smallest in least.items():
            require(getattr(self, name) >= smallest, name, getattr(self, name), f"must be {smallest} or more")
