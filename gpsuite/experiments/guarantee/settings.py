"""Settings of guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.pac_bayes.tasks import LEAST_TRAINING_ROWS
from gpsuite.experiments.perturbation.linear_models import check_levels
from gpsuite.experiments.settings import Count, Positive, Share, at_least, filled, increasing, unique


@dataclass
class GuaranteeSettings:
    """Settings of every guarantee that applies to a table.

    Attributes:
        accuracy: an error that matters, in the target's own units; null: `epsilon` standard deviations.
        epsilon: the same in standard deviations of the target.
        widths: further errors at which the share of worse predictions is bounded, in standard deviations.
        delta: allowed probability that a bound fails; each bound is paid for all errors together.
        coverage: of the intervals.
        test_share: share of rows that test bounds, intervals and checks are taken on.
        preparation: share of rows that choose scale, centre and each input's lengthscale of a certified regression, and
            nothing else; more until they hold two targets, up to twice as many until all numbers vary.
        most_rows: that a model is trained on, shared out among the classes where there are three or more; of more, the
            others are test rows.
        max_evaluations: of a training's objective.
        tolerances: how far each number may be off, in standard deviations: proved ranges and certified accuracies.
        count: rows whose predictions are bounded: the first new ones, else test rows.
        points: test rows on which a classifier's certified accuracies are taken.
        boxes: limit for the searches of one row.
        tolerance: largest gap between attained and proved value: standard deviations of a target, or probability.
        m: compared values behind the band of the function.
        excluded: q of the band; its confidence is 1 - q/m.
        centres: basis functions of the band's kernel model.
        band_rows: most rows behind a band, at random.
    """

    accuracy: Positive | None
    epsilon: Positive
    widths: Annotated[list[Positive], filled, unique, increasing]
    delta: Share
    coverage: Share
    test_share: Share
    preparation: Share
    most_rows: Annotated[int, at_least(LEAST_TRAINING_ROWS)]
    max_evaluations: Count
    tolerances: Annotated[list[Positive], filled, unique, increasing]
    count: Count
    points: Count
    boxes: Count
    tolerance: Positive
    m: Annotated[int, at_least(2)]
    excluded: Count
    centres: Count
    band_rows: Annotated[int, at_least(10)]

    def check(self) -> None:
        """Refuse a q that is not below m."""
        check_levels(self.m, [self.excluded], "excluded")
