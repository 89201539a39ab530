"""Tasks of wasserstein/toy_bands."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import MethodOptions, Request, Task
from gpsuite.experiments.wasserstein.shared.training_settings import TrainingParams
from gpsuite.experiments.wasserstein.toy_bands.settings import ToySettings
from gpsuite.seeds import derived_seed

BANDS, DISTANCE, WIDTH = "bands", "distance", "width"
ACTIVATIONS = ("relu", "erf")


@dataclass(frozen=True, kw_only=True)
class BandTask:
    """One regression on one data set.

    Attributes:
        method: which regression.
        training: how.
        seed: of data and training.
        rows: of the data.
        noise_scale: of the noise.
    """

    method: MethodOptions
    training: TrainingParams
    seed: int
    rows: int
    noise_scale: float
    kind: str = "wasserstein_bands"


@dataclass(frozen=True, kw_only=True)
class DistanceTask:
    """Estimates of the distance on random pairs of kernels.

    Attributes:
        seed: of points, kernels and choices.
        rows: N.
        draws: pairs of kernels, and choices of X_S.
        chosen_sizes: N_S.
    """

    seed: int
    rows: int
    draws: int
    chosen_sizes: tuple[int, ...]
    kind: str = "wasserstein_distance"


@dataclass(frozen=True, kw_only=True)
class WidthTask:
    """Covariance of random networks against its limit.

    Attributes:
        seed: of networks and inputs.
        activation: relu or erf.
        widths: of the hidden layers.
        networks: of each width.
    """

    seed: int
    activation: str
    widths: tuple[int, ...]
    networks: int
    kind: str = "wasserstein_width"


def plan(request: Request[ToySettings]) -> list[Task[BandTask | DistanceTask | WidthTask]]:
    """Return one task per data set and method, one on the distance, one per activation on wide networks."""
    s = request.settings
    tasks: list[Task[BandTask | DistanceTask | WidthTask]] = [
        request.task(
            BandTask(
                method=options,
                training=s.work,
                seed=derived_seed(request.seed, "toy", repetition),
                rows=s.rows,
                noise_scale=s.noise_scale,
            ),
            label=f"{options.title}  data set {repetition}",
            axes={"part": BANDS, "method": name, "repetition": repetition},
            version=options.method.version,
            cost=5.0,
        )
        for repetition in range(s.repetitions)
        for name, options in request.methods.items()
    ]
    distance = DistanceTask(
        seed=derived_seed(request.seed, "distance"),
        rows=s.distance_rows,
        draws=s.distance_draws,
        chosen_sizes=tuple(s.chosen_sizes),
    )
    tasks.append(request.task(distance, label="estimates of the distance", axes={"part": DISTANCE}))
    for activation in ACTIVATIONS:
        width = WidthTask(
            seed=derived_seed(request.seed, "width", activation),
            activation=activation,
            widths=tuple(s.network_widths),
            networks=s.networks,
        )
        axes = {"part": WIDTH, "activation": activation}
        tasks.append(request.task(width, label=f"wide networks  {activation}", axes=axes))
    return tasks
