"""Tasks of perturbation/band_comparison: blocks of simulated data sets of each band."""

from __future__ import annotations

from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.perturbation.band_comparison.peers import PEERS
from gpsuite.experiments.perturbation.band_comparison.settings import BandSettings
from gpsuite.seeds import derived_seed

VERSION = 1


def plan(request: Request) -> list[Task]:
    """Return one task per noise and band."""
    settings: BandSettings = request.settings
    names = ("noise_scale", "data_sets", "rows", "q", "m", "points", "draws", "evaluations")
    return [
        Task(
            experiment=request.experiment,
            label=f"{PEERS[band].title}  {noise}",
            axes={"noise": noise, "band": band},
            params={
                "kind": "perturbation_band",
                "band": band,
                "noise": noise,
                "seed": derived_seed(request.seed, "bands", noise),
                "available": not PEERS[band].missing,  # so that installing a package adds its bands
                **{name: getattr(settings, name) for name in names},
            },
            version=VERSION,
            cost=(0.2 if band.startswith("gp_") else 0.05) * settings.data_sets,
        )
        for noise in settings.noises
        for band in settings.bands
    ]
