"""Settings of active_learning/toy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from gpsuite.data.generators.sin_sigmoid import STEEPNESS
from gpsuite.experiments.active_learning.shared.generated_data import EQUAL, TOY_OUTPUTS, ToyData
from gpsuite.experiments.active_learning.shared.plan import Source, repetition_seed
from gpsuite.experiments.active_learning.shared.settings import INFERENCES, ActiveSettings, RepetitionSettings
from gpsuite.experiments.params import choice
from gpsuite.experiments.settings import Count, Rule, at_least, one_of

SECONDS = 0.045  # of one iteration


factor_of_priors = Rule(
    lambda factor: 0 < factor < math.inf and factor != 1.0,
    "must be above 0, and not 1: that is the published prior",
)


@dataclass
class ToyRepetitions(RepetitionSettings):
    """Settings of repetitions on sine and sigmoid.

    Attributes:
        form: of the sigmoid, 1 / (1 + exp(-s x)): s = 2 (`paper`), or s = 1 (`code`, the authors').
        pool_rows: points of the grid that is pool and test set.
        state_iteration: of which model the state is drawn, counted from 1.
    """

    form: Annotated[str, one_of(STEEPNESS)]
    pool_rows: Annotated[int, at_least(10)]
    state_iteration: Count

    def source(self, seed: int, unequal: str = EQUAL) -> Source:
        """Return the data of the repetitions; seed: the request's."""

        def data(repetition: int) -> ToyData:
            return ToyData(
                seed=repetition_seed(seed, "toy", repetition),
                initial=self.initial,
                offers=self.offers,
                form=choice(self.form, STEEPNESS),
                pool_rows=self.pool_rows,
                unequal=unequal,
            )

        return Source("toy", data, TOY_OUTPUTS, SECONDS, state_iteration=self.state_iteration)


@dataclass
class ToySettings(ToyRepetitions, ActiveSettings):
    """Settings of the toy problem.

    Attributes:
        compared: other kinds of inference, run with AL_MOGP for `compared_iterations`.
        compared_iterations: models per repetition of these.
        hmc_repetitions: repetitions of every pipeline with the paper's HMC.
        hmc_iterations: models per repetition of these: each takes 23,800 gradients for the outputs and for safety.
        prior_factors: multiples of all hyperparameters whose priors AL_MOGP is run with beside the published ones.
        cost_sizes: numbers of values at which the likelihood is timed.
    """

    compared: list[Annotated[str, one_of(INFERENCES)]]
    compared_iterations: Count
    hmc_repetitions: Annotated[int, at_least(0)]
    hmc_iterations: Count
    prior_factors: list[Annotated[float, factor_of_priors]]
    cost_sizes: list[Annotated[int, at_least(4)]]
