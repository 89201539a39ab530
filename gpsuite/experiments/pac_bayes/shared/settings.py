"""Settings of every experiment that fits and certifies GPs on splits of a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.settings import Count, Share, one_of

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

    repetitions: Count
    delta: Share
    test_share: Share
    scaling: Annotated[str, one_of(SCALINGS)]
    max_evaluations: Count
