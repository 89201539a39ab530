"""Settings of active_learning/observation_ablation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from gpsuite.experiments.active_learning.shared.generated_data import UNEQUAL_NOISE, UNEQUAL_VARIANCE
from gpsuite.experiments.active_learning.shared.gp_settings import GpRepetitions
from gpsuite.experiments.active_learning.shared.repetition_data import PAIRS
from gpsuite.experiments.active_learning.toy.settings import ToyRepetitions
from gpsuite.experiments.settings import check_settings, filled, one_of

TOY, GP_SAMPLES = "toy", "gp_samples"


INEQUALITIES = (UNEQUAL_NOISE, UNEQUAL_VARIANCE)


@dataclass
class ToySizes:
    """Sizes of the runs on sine and sigmoid; see `ToyRepetitions`.

    Attributes:
        form: of the sigmoid: paper or code.
        pool_rows: rows of the pool.
        state_iteration: after how many queries the state is drawn.
        iterations: queries per run.
        initial: rows to begin with.
    """

    form: str
    pool_rows: int
    state_iteration: int
    iterations: int
    initial: int


@dataclass
class GpSizes:
    """Sizes of the runs on draws from a multi-output GP; see `GpRepetitions`.

    Attributes:
        form: of the generator's kernel: paper or code.
        draws: functions drawn.
        pool_rows: rows of a pool.
        test_rows: rows to measure errors on.
        outputs: of the process.
        pool_members: pools per draw.
        iterations: queries per run.
        initial: rows to begin with.
    """

    form: str
    draws: int
    pool_rows: int
    test_rows: int
    outputs: int
    pool_members: int
    iterations: int
    initial: int


@dataclass
class AblationSettings:
    """Settings of the ablation: what both datasets share, and the sizes of each.

    Attributes:
        sources: which of toy and gp_samples to run on.
        repetitions: per dataset, the same data for every pipeline.
        delta: a query must be safe with a probability above 1 - delta.
        inference: of the hyperparameters.
        particles: of sequential Monte Carlo.
        when_nothing_is_safe: `stop`, or query the `safest` point.
        unequal: also toy runs whose first output has 10 times the `noise` or the `variance`.
        toy: its sizes.
        gp_samples: its sizes.
    """

    sources: Annotated[list[Annotated[str, one_of((TOY, GP_SAMPLES))]], filled]
    repetitions: int
    delta: float
    inference: str
    particles: int
    when_nothing_is_safe: str
    unequal: list[Annotated[str, one_of(INEQUALITIES)]]
    toy: ToySizes
    gp_samples: GpSizes

    def check(self) -> None:
        """Refuse what the runs on either dataset refuse."""
        check_settings(self.toy_settings())
        check_settings(self.gp_settings())

    def toy_settings(self) -> ToyRepetitions:
        """Return the settings of the runs on sine and sigmoid, those of active_learning/toy: they share records."""
        return ToyRepetitions(**self._shared(), **vars(self.toy))

    def gp_settings(self) -> GpRepetitions:
        """Return the settings of the runs on draws from a GP: those of active_learning/gp_samples."""
        return GpRepetitions(**self._shared(), **vars(self.gp_samples))

    def _shared(self) -> dict[str, Any]:
        names = ("repetitions", "delta", "inference", "particles", "when_nothing_is_safe")
        return {"offers": PAIRS, **{name: getattr(self, name) for name in names}}
