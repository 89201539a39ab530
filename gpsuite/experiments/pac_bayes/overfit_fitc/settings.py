"""Settings of pac_bayes/overfit_fitc."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import require
from gpsuite.experiments.pac_bayes.shared.settings import LEAST_TRAINING_ROWS, check_epsilon

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

    repetitions: int = 50
    rows: int = 100
    test_rows: int = 1000
    inducing: int = 8
    epsilon: float = 0.6
    signal_std: float = 0.88
    lengthscale: float = 0.61
    noise_std: float = 0.28
    input_range: float = 6.0
    delta: float = 0.01
    max_evaluations: int = 1000

    def check(self) -> None:
        """Refuse impossible values."""
        for name in ("repetitions", "test_rows", "inducing", "max_evaluations"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
        enough = self.rows >= max(LEAST_TRAINING_ROWS, self.inducing)
        require(
            enough,
            "rows",
            self.rows,
            f"must be at least {LEAST_TRAINING_ROWS}, and at least inducing={self.inducing}",
        )
        for name in ("epsilon", "signal_std", "lengthscale", "noise_std", "input_range"):
            check_epsilon(name, getattr(self, name))
        require(0 < self.delta < 1, "delta", self.delta, "must lie between 0 and 1")
