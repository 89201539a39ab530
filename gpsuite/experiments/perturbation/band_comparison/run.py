"""A block of simulated data sets: width and coverage of one band."""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.regression import draw_noise
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.experiments.perturbation.band_comparison.peers import (
    CENTRES,
    DOMAIN,
    PEERS,
    RESPONSE,
    Sample,
    features,
)
from gpsuite.experiments.perturbation.band_comparison.plan import BandTask
from gpsuite.seeds import stream


def run(task: Task[BandTask], shared: SharedWork) -> Outcome:
    """Compute a band on every data set; record its mean width and where it holds its target."""
    params = task.params
    peer = PEERS[params.band]
    widths, held = [], []
    for number in range(params.data_sets):
        sample, target = _simulated(params, number, peer.target)
        lower, upper = peer.compute(sample, stream(params.seed, "band", number, peer.title))
        widths.append(float(np.mean(upper - lower)))
        held.append((lower <= target) & (target <= upper))
    inside = np.array(held)
    arrays = {"width": np.array(widths), "share": inside.mean(axis=1), "everywhere": inside.all(axis=1)}
    headline = f"width {arrays['width'].mean():.3g}, everywhere {arrays['everywhere'].mean():.2f}"
    return Outcome({"data_sets": len(inside)}, arrays=arrays, headline=headline)


def _simulated(params: BandTask, number: int, target: str) -> tuple[Sample, FloatArray]:
    """Return a data set, and on the grid the true function or new responses."""
    rng = stream(params.seed, "data", number)
    X = rng.uniform(-DOMAIN, DOMAIN, (params.rows, 1))
    grid = np.linspace(-DOMAIN, DOMAIN, params.points)[:, None]
    truth = rng.standard_normal(len(CENTRES))
    noise, new = (
        draw_noise(rng, params.noise, len(x), inputs=x[:, 0], scale=params.noise_scale) for x in (X, grid)
    )
    y, f = features(X) @ truth + noise, features(grid) @ truth
    sample = Sample(X, y, grid, params.q, params.m, params.draws, params.evaluations)
    return sample, f + new if target == RESPONSE else f
