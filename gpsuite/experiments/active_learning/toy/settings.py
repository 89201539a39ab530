"""Settings of active_learning/toy."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.data.generators.sin_sigmoid import STEEPNESS
from gpsuite.errors import unknown_name
from gpsuite.experiments.active_learning.shared.generated_data import EQUAL
from gpsuite.experiments.active_learning.shared.plan import Source
from gpsuite.experiments.active_learning.shared.settings import INFERENCES, ActiveSettings
from gpsuite.experiments.base import require

SECONDS = 0.03  # of one iteration


@dataclass
class ToySettings(ActiveSettings):
    """Settings of the toy problem.

    Attributes:
        form: of the sigmoid, 1 / (1 + exp(-s x)): s = 2 (`paper`), or s = 1 (`code`, the authors').
        pool_rows: points of the grid that is pool and test set.
        state_iteration: of which model the state is drawn, counted from 1.
        compared: other kinds of inference, run with AL_MOGP for `compared_iterations`.
        compared_iterations: models per repetition of these.
        hmc_repetitions: repetitions of every pipeline with the paper's HMC.
        hmc_iterations: models per repetition of these: each takes 23,800 gradients for the outputs and for safety.
        prior_factors: multiples of all hyperparameters whose priors AL_MOGP is run with beside the published ones.
        cost_sizes: numbers of values at which the likelihood is timed.
    """

    form: str = "paper"
    pool_rows: int = 200
    state_iteration: int = 15
    compared: list[str] = field(default_factory=lambda: ["map", "ml"])
    compared_iterations: int = 11
    hmc_repetitions: int = 2
    hmc_iterations: int = 6
    prior_factors: list[float] = field(default_factory=lambda: [0.5, 2.0])
    cost_sizes: list[int] = field(default_factory=lambda: [50, 100, 200, 400])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        if self.form not in STEEPNESS:
            raise unknown_name("form", self.form, STEEPNESS)
        for kind in self.compared:
            if kind not in INFERENCES:
                raise unknown_name("compared", kind, INFERENCES)
        for name, least in (("pool_rows", 10), ("state_iteration", 1), ("compared_iterations", 1),
            ("hmc_iterations", 1),
                            ("hmc_repetitions", 0)):  # fmt: skip
            require(getattr(self, name) >= least, name, getattr(self, name), f"must be {least} or more")
        for factor in self.prior_factors:
            admissible = 0 < factor < float("inf") and factor != 1.0
            require(
                admissible, "prior_factors", factor, "must be above 0, and not 1: that is the published prior"
            )
        for size in self.cost_sizes:
            require(size >= 4, "cost_sizes", size, "must be 4 or more")

    def source(self) -> Source:
        """Return the data of the repetitions."""
        params = {"form": self.form, "pool_rows": self.pool_rows, "unequal": EQUAL}
        return Source("toy", params, 2, SECONDS, state_iteration=self.state_iteration)
