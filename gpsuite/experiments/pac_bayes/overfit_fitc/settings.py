"""Settings of pac_bayes/overfit_fitc."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.pac_bayes.shared.settings import LEAST_TRAINING_ROWS
from gpsuite.experiments.settings import Count, Positive, Share, at_least

PAC, OVERFITTER = "kl_pac_sgp", "fitc"


@dataclass
class OverfitSettings:
    """Settings of the overfitting study: draws of a GP on [0, input_range] with noise, or rows of a dataset.

    Attributes:
        repetitions: number of data sets.
        rows: training rows of each.
        test_rows: further rows of each; of a dataset all the rest is used.
        inducing: number M of inducing inputs of every method.
        epsilon: accuracy goal, in standard deviations of the target.
        signal_std: standard deviation of the drawn functions.
        lengthscale: of the drawn functions.
        noise_std: standard deviation of the noise.
        input_range: inputs are uniform on [0, input_range].
        delta: allowed probability that a bound fails.
        max_evaluations: limit on objective evaluations per training.
    """

    repetitions: Count
    rows: Annotated[int, at_least(LEAST_TRAINING_ROWS)]
    test_rows: Count
    inducing: Count
    epsilon: Positive
    signal_std: Positive
    lengthscale: Positive
    noise_std: Positive
    input_range: Positive
    delta: Share
    max_evaluations: Count

    def check(self) -> None:
        """Refuse more inducing inputs than rows."""
        enough = self.rows >= self.inducing
        require(enough, "rows", self.rows, f"must be at least inducing={self.inducing}")
