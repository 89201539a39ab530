"""Settings of active_learning/engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.errors import UserError
from gpsuite.experiments.active_learning.shared.plan import Source
from gpsuite.experiments.active_learning.shared.settings import ActiveSettings
from gpsuite.experiments.base import Request
from gpsuite.experiments.settings import Count, at_least

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

    def source(self, request: Request) -> Source:
        """Return the data of the repetitions.

        Raises:
            UserError: without a dataset.
        """
        if request.dataset is None:
            raise UserError("dataset: active_learning/engine needs gengine1", key="dataset")
        params = {"pool_rows": self.pool_rows, "test_rows": self.test_rows}
        seconds = SECONDS * (self.pool_rows + self.test_rows) / 14_000
        return Source("engine", params, 2, seconds, request.dataset, self.pool_members or None)
