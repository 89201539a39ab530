"""Settings of the image experiments: digits, mnist, fashion_mnist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, Rule, Share, at_least, filled, not_negative, unique
from gpsuite.experiments.wasserstein.shared.training_settings import TrainingSettings

below_one = Rule(lambda share: 0.0 <= share < 1.0, "must be 0 or more and below 1")


@dataclass
class ImageSettings(TrainingSettings):
    """Settings of classification of images; the first dataset is learned, the others are out of distribution.

    Attributes:
        repetitions: random splits, or random choices of training rows and seeds where the dataset has its split.
        test_share: share of rows kept for testing where the dataset has no split of its own.
        train_rows: training rows, validation rows among them; 0 takes all.
        test_rows: test rows at most.
        outside_rows: rows of each other dataset at most.
        convolution: whether the network's hidden layers are convolutions.
        epsilon: of robust max.
        dropout: probability of leaving a unit out.
        members: networks of the ensemble.
        draws: of weights or of dropout in a prediction.
        bins: of the calibration error.
        shifts: standard deviations of noise added to the test images, in units of the largest grey level.
        label_noise: shares of training labels replaced by another class; 0 first.
        noise_methods: methods that learn from noisy labels too.
    """

    repetitions: Count
    test_share: Share
    train_rows: Annotated[int, at_least(0)]
    test_rows: Count
    outside_rows: Count
    convolution: bool
    epsilon: Share
    dropout: Annotated[float, not_negative]
    members: Annotated[int, at_least(2)]
    draws: Count
    bins: Count
    shifts: Annotated[list[Annotated[float, not_negative]], unique]
    label_noise: Annotated[list[Annotated[float, below_one]], filled, unique]
    noise_methods: Annotated[list[str], unique]

    def check(self) -> None:
        """Refuse noise levels that leave out clean labels, and dropout of everything."""
        require(self.label_noise[0] == 0.0, "label_noise", self.label_noise, "the first level must be 0")
        require(self.dropout < 1.0, "dropout", self.dropout, "must be below 1")
