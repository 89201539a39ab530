"""Settings of the experiments on safe active learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, get_args

from gpsuite.experiments.active_learning.shared.repetition_data import OFFERS
from gpsuite.experiments.settings import Count, Positive, Share, at_least, one_of
from gpsuite.methods.active_learning.inference import Kind
from gpsuite.methods.active_learning.pipelines import Kernel
from gpsuite.methods.active_learning.safety import WhenNothingIsSafe

INFERENCES: tuple[Kind, ...] = get_args(Kind)


WHEN_NOTHING_IS_SAFE: tuple[WhenNothingIsSafe, ...] = get_args(WhenNothingIsSafe)


KERNELS: tuple[Kernel, ...] = get_args(Kernel)


FORMS = ("code", "paper")


@dataclass
class RepetitionSettings:
    """Settings of repetitions of safe active learning.

    Attributes:
        repetitions: independent repetitions, the same data for every pipeline.
        iterations: models per repetition; the first has the starting data only, each further one a query more.
        initial: values measured at the beginning, all outputs together.
        delta: a query must be safe with a probability above 1 - delta.
        inference: of the hyperparameters: smc, hmc, map or ml.
        particles: of sequential Monte Carlo.
        offers: what a pool row can be asked for: all its outputs, one after the other (`pairs`, the paper), or one
            output, after which it leaves the pool (`one_output`, the authors' code).
        when_nothing_is_safe: `stop` with status infeasible, or query the `safest` point.
    """

    repetitions: Count
    iterations: Count
    initial: Count
    delta: Share
    inference: Annotated[str, one_of(INFERENCES)]
    particles: Annotated[int, at_least(2)]
    offers: Annotated[str, one_of(OFFERS)]
    when_nothing_is_safe: Annotated[str, one_of(WHEN_NOTHING_IS_SAFE)]


@dataclass
class ActiveSettings(RepetitionSettings):
    """Settings of every experiment on learning curves.

    Attributes:
        precision_step: precision of the safety model is tabulated at every so many values from the start.
        thresholds: errors whose first number of values is asked for.
    """

    precision_step: Count
    thresholds: list[Positive]

    def points(self, last: int) -> list[int]:
        """Return the N_sum of the precision tables, up to `last`."""
        return list(range(self.initial, last + 1, self.precision_step))
