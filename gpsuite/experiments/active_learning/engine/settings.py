"""Settings of active_learning/engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.errors import UserError
from gpsuite.experiments.active_learning.shared.plan import Source
from gpsuite.experiments.active_learning.shared.settings import ActiveSettings
from gpsuite.experiments.base import Request, require

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

    iterations: int = 60
    initial: int = 48
    pool_rows: int = 10_000
    test_rows: int = 4_000
    pool_members: int = 64
    saturation_rows: list[int] = field(default_factory=lambda: [250, 500, 1000, 2000, 4000, 8000])
    saturation_repetitions: int = 3
    fit_rows: int = 500
    inducing: int = 1200
    starts: int = 2
    thresholds: list[float] = field(default_factory=lambda: [1.0])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        least = {"pool_members": 0, "saturation_repetitions": 0, "starts": 1}
        for name in (*least, "pool_rows", "test_rows", "fit_rows", "inducing"):
            smallest = least.get(name, 2)
            require(getattr(self, name) >= smallest, name, getattr(self, name), f"must be {smallest} or more")
        for rows in self.saturation_rows:
            require(rows >= 2, "saturation_rows", rows, "must be 2 or more")

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
