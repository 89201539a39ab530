"""Params of the image experiments' tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import MethodOptions
from gpsuite.experiments.params import LEFT_OUT
from gpsuite.experiments.wasserstein.shared.training_settings import TrainingParams


@dataclass(frozen=True, kw_only=True)
class Outside:
    """A dataset whose images the classifier has never seen.

    Attributes:
        name: of the dataset.
        content: hash of what it holds.
        prepared: where it is found.
    """

    name: str
    content: str
    prepared: PreparedDataset = field(metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class ImageTask:
    """A classifier trained and tested once; settings as `ImageSettings`.

    Attributes:
        method: which classifier.
        training: how.
        seed: of rows, noise and training: the same for every method of a repetition.
        label_noise: share of training labels replaced.
        outside: other datasets.
    """

    method: MethodOptions
    training: TrainingParams
    seed: int
    label_noise: float
    test_share: float
    train_rows: int
    test_rows: int
    outside_rows: int
    convolution: bool
    epsilon: float
    dropout: float
    members: int
    draws: int
    bins: int
    shifts: tuple[float, ...]
    outside: tuple[Outside, ...]
    kind: str = "wasserstein_image"
