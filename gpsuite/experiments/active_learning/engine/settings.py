"""Settings of active_learning/engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.active_learning.shared.engine_data import OUTPUTS, PUBLISHED_STARTS, EngineData
from gpsuite.experiments.active_learning.shared.plan import Source, repetition_seed
from gpsuite.experiments.active_learning.shared.settings import ActiveSettings
from gpsuite.experiments.settings import Count, at_least
from gpsuite.seeds import derived_seed

SECONDS = 0.5  # of one iteration at a pool of 10,000 rows


@dataclass
class EngineSettings(ActiveSettings):
    """Settings of the engine.

    Attributes:
        pool_rows: rows of each repetition's pool, sampled from all training rows, unsafe ones included.
        test_rows: rows sampled from the test files to evaluate predictions on.
        pool_members: hyperparameter vectors used for predictions; 0 uses all.
        saturation_rows: numbers of random training rows the sparse multi-output GP is given.
        saturation_repetitions: random sets of rows of each size.
        fit_rows: rows its hyperparameters are fitted to.
        inducing: inducing (input, output) pairs.
        starts: of the search for its hyperparameters.
    """

    pool_rows: Annotated[int, at_least(2)]
    test_rows: Annotated[int, at_least(2)]
    pool_members: Annotated[int, at_least(0)]
    saturation_rows: list[Annotated[int, at_least(2)]]
    saturation_repetitions: Annotated[int, at_least(0)]
    fit_rows: Annotated[int, at_least(2)]
    inducing: Annotated[int, at_least(2)]
    starts: Count

    def source(self, seed: int) -> Source:
        """Return the data of the repetitions; seed: the request's."""
        start_seed = PUBLISHED_STARTS if seed == 0 else derived_seed(seed, "engine", "start")

        def data(repetition: int) -> EngineData:
            return EngineData(
                seed=repetition_seed(seed, "engine", repetition),
                initial=self.initial,
                offers=self.offers,
                pool_rows=self.pool_rows,
                test_rows=self.test_rows,
                repetition=repetition,
                start_seed=start_seed,
            )

        seconds = SECONDS * (0.8 + 0.2 * (self.pool_rows + self.test_rows) / 14_000)
        return Source("engine", data, len(OUTPUTS), seconds, self.pool_members or None)
