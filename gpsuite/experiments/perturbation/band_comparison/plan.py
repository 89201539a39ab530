"""Tasks of perturbation/band_comparison: blocks of simulated data sets of each band."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.perturbation.band_comparison.peers import PEERS
from gpsuite.experiments.perturbation.band_comparison.settings import BandSettings
from gpsuite.seeds import derived_seed

VERSION = 2  # CV+ with the parts of its own rows


@dataclass(frozen=True)
class BandTask:
    """One band on every simulated data set under one noise.

    Attributes:
        band: key of `PEERS`.
        noise: key of `NOISES`.
        seed: of data and bands.
        noise_scale: as every other field, of `BandSettings`.
    """

    band: str
    noise: str
    seed: int
    noise_scale: float
    data_sets: int
    rows: int
    q: int
    m: int
    points: int
    draws: int
    evaluations: int
    kind: str = "perturbation_band"


def plan(request: Request[BandSettings]) -> list[Task[BandTask]]:
    """Return one task per noise and band."""
    return [
        _task(request, noise, band) for noise in request.settings.noises for band in request.settings.bands
    ]


def _task(request: Request[BandSettings], noise: str, band: str) -> Task[BandTask]:
    settings = request.settings
    params = BandTask(
        band=band,
        noise=noise,
        seed=derived_seed(request.seed, "bands", noise),
        noise_scale=settings.noise_scale,
        data_sets=settings.data_sets,
        rows=settings.rows,
        q=settings.q,
        m=settings.m,
        points=settings.points,
        draws=settings.draws,
        evaluations=settings.evaluations,
    )
    return request.task(
        params,
        label=f"{PEERS[band].title}  {noise}",
        axes={"noise": noise, "band": band},
        version=VERSION,
        cost=(0.055 if band.startswith("gp_") else 0.01) * settings.data_sets,
    )
