"""Settings of experiments on draws from multi-output Gaussian processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.active_learning.shared.plan import Source
from gpsuite.experiments.active_learning.shared.settings import FORMS, ActiveSettings, RepetitionSettings
from gpsuite.experiments.base import Request, require
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

    def source(self, request: Request, process: str = "lmc") -> Source:
        """Return the data of the repetitions: draws of a linear model of coregionalisation, or of a convolution."""
        samples = {
            "seed": PUBLISHED_SEED if request.seed == 0 else derived_seed(request.seed, "gp_samples"),
            "draws": self.draws,
            "n_train": self.pool_rows,
            "n_test": self.test_rows,
            "n_outputs": self.outputs,
            "form": self.form,
            "process": process,
        }
        seconds = SECONDS * self.pool_rows / 2000
        members = self.pool_members or None
        return Source("gp_samples", {"samples": samples}, self.outputs, seconds, pool_members=members)


@dataclass
class GpSamplesSettings(GpRepetitions, ActiveSettings):
    """Settings of learning curves on draws from one random process."""
