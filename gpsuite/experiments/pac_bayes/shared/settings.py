"""Settings of every experiment that fits and certifies GPs on splits of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import require

SCALINGS = ("all", "train")


LEAST_TRAINING_ROWS = 8  # Maurer's theorem, behind the bounds' ln(2 sqrt(n)/delta), is stated for n >= 8


@dataclass
class SplitSettings:
    """Settings of experiments on repeated random splits.

    Attributes:
        repetitions: number of random train-test splits.
        delta: allowed probability that the bound fails.
        test_share: share of rows kept for testing.
        scaling: mean and standard deviation taken over all rows (the published protocol) or the training rows.
        max_evaluations: limit on objective evaluations per training.
    """

    repetitions: int = 10
    delta: float = 0.01
    test_share: float = 0.2
    scaling: str = "all"
    max_evaluations: int = 1000

    def check(self) -> None:
        """Refuse values of the right type that are impossible."""
        require(self.repetitions >= 1, "repetitions", self.repetitions, "must be 1 or more")
        require(0 < self.delta < 1, "delta", self.delta, "must lie between 0 and 1")
        require(0 < self.test_share < 1, "test_share", self.test_share, "must lie between 0 and 1")
        require(self.scaling in SCALINGS, "scaling", self.scaling, f"valid: {', '.join(SCALINGS)}")
        require(self.max_evaluations >= 1, "max_evaluations", self.max_evaluations, "must be 1 or more")


def check_epsilon(key: str, value: float) -> None:
    """Refuse an accuracy goal that is not a positive number."""
    require(0 < value < float("inf"), key, value, "must be a number above 0")
