"""Settings of experiments on draws from multi-output Gaussian processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.data.generators.gp_samples import Process
from gpsuite.experiments.active_learning.shared.generated_data import GpData, Samples
from gpsuite.experiments.active_learning.shared.plan import Source, repetition_seed
from gpsuite.experiments.active_learning.shared.settings import FORMS, ActiveSettings, RepetitionSettings
from gpsuite.experiments.base import require
from gpsuite.experiments.settings import at_least, one_of
from gpsuite.seeds import derived_seed

SECONDS = 0.4  # of one iteration at the published sizes


PUBLISHED_SEED = 123  # of the draws; another generator than the authors' makes other draws of it


@dataclass
class GpRepetitions(RepetitionSettings):
    """Settings of repetitions on draws from one random process: repetition k works on draw k.

    Attributes:
        form: of the generator's kernel: exp(-r^2 / 2 l^2) (`code`, the authors') or exp(-r^2 / l) (`paper`).
        draws: number of draws; the threshold of the safety value is a quantile of all of them together.
        pool_rows: pool rows of each draw.
        test_rows: test rows of each draw.
        outputs: P.
        pool_members: hyperparameter vectors used for predictions; 0 uses all.
    """

    form: Annotated[str, one_of(FORMS)]
    draws: int
    pool_rows: Annotated[int, at_least(20)]
    test_rows: Annotated[int, at_least(5)]
    outputs: Annotated[int, at_least(2)]
    pool_members: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse fewer draws than repetitions."""
        enough, least = self.draws >= self.repetitions, self.repetitions
        require(enough, "draws", self.draws, f"must be at least the number of repetitions, {least}")

    def samples(self, seed: int, process: Process = "lmc") -> Samples:
        """Return the draws of a linear model of coregionalisation, or of a convolution; seed: the request's."""
        return Samples(
            seed=PUBLISHED_SEED if seed == 0 else derived_seed(seed, "gp_samples"),
            draws=self.draws,
            n_train=self.pool_rows,
            n_test=self.test_rows,
            n_outputs=self.outputs,
            form=self.form,
            process=process,
        )

    def source(self, seed: int, process: Process = "lmc") -> Source:
        """Return the data of the repetitions; seed: the request's."""
        samples, name = self.samples(seed, process), "gp_samples"

        def data(repetition: int) -> GpData:
            return GpData(
                seed=repetition_seed(seed, name, repetition),
                initial=self.initial,
                offers=self.offers,
                draw=repetition,
                samples=samples,
            )

        seconds = SECONDS * self.pool_rows / 2000
        return Source(name, data, self.outputs, seconds, pool_members=self.pool_members or None)


@dataclass
class GpSamplesSettings(GpRepetitions, ActiveSettings):
    """Settings of learning curves on draws from one random process."""
