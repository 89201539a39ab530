"""Settings of active_learning/observation_ablation."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.errors import unknown_name
from gpsuite.experiments.active_learning.shared.generated_data import UNEQUAL_NOISE, UNEQUAL_VARIANCE
from gpsuite.experiments.active_learning.shared.gp_settings import GpSamplesSettings
from gpsuite.experiments.active_learning.shared.repetition_data import PAIRS
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.base import require

TOY, GP_SAMPLES = "toy", "gp_samples"


INEQUALITIES = (UNEQUAL_NOISE, UNEQUAL_VARIANCE)


@dataclass
class ToySizes:
    """Sizes of the runs on sine and sigmoid; see `ToySettings`."""

    form: str = "paper"
    pool_rows: int = 200
    iterations: int = 31
    initial: int = 12


@dataclass
class GpSizes:
    """Sizes of the runs on draws from a multi-output GP; see `GpSamplesSettings`."""

    form: str = "code"
    draws: int = 30
    pool_rows: int = 2000
    test_rows: int = 500
    outputs: int = 4
    iterations: int = 101
    initial: int = 40


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

    sources: list[str] = field(default_factory=lambda: [TOY, GP_SAMPLES])
    repetitions: int = 30
    delta: float = 0.05
    inference: str = "smc"
    particles: int = 128
    when_nothing_is_safe: str = "stop"
    unequal: list[str] = field(default_factory=lambda: list(INEQUALITIES))
    toy: ToySizes = field(default_factory=ToySizes)
    gp_samples: GpSizes = field(default_factory=GpSizes)

    def check(self) -> None:
        """Refuse impossible values."""
        require(bool(self.sources), "sources", self.sources, f"name at least one of {TOY}, {GP_SAMPLES}")
        for key, given, valid in (
            ("sources", self.sources, (TOY, GP_SAMPLES)),
            ("unequal", self.unequal, INEQUALITIES),
        ):
            for value in given:
                if value not in valid:
                    raise unknown_name(key, value, valid)
        self.toy_settings().check()
        self.gp_settings().check()

    def toy_settings(self) -> ToySettings:
        """Return the settings of the runs on sine and sigmoid, those of active_learning/toy: they share records."""
        return ToySettings(
            repetitions=self.repetitions,
            iterations=self.toy.iterations,
            initial=self.toy.initial,
            delta=self.delta,
            inference=self.inference,
            particles=self.particles,
            offers=PAIRS,
            when_nothing_is_safe=self.when_nothing_is_safe,
            form=self.toy.form,
            pool_rows=self.toy.pool_rows,
        )

    def gp_settings(self) -> GpSamplesSettings:
        """Return the settings of the runs on draws from a GP: those of active_learning/gp_samples."""
        return GpSamplesSettings(
            repetitions=self.repetitions,
            iterations=self.gp_samples.iterations,
            initial=self.gp_samples.initial,
            delta=self.delta,
            inference=self.inference,
            particles=self.particles,
            offers=PAIRS,
            when_nothing_is_safe=self.when_nothing_is_safe,
            form=self.gp_samples.form,
            draws=self.gp_samples.draws,
            pool_rows=self.gp_samples.pool_rows,
            test_rows=self.gp_samples.test_rows,
            outputs=self.gp_samples.outputs,
        )
