"""Settings of robustness/posterior_quality."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.paper_protocol import Study
from gpsuite.experiments.robustness.shared.probability_change import DeltaSettings, SearchSettings
from gpsuite.experiments.settings import at_least, filled, unique, within

ADVICE = "a method of this run whose trained hyperparameters HMC is run for"


@dataclass
class PosteriorQualitySettings(DeltaSettings):
    """Settings of the study over datasets; scaling, features, radii and tolerance are each dataset's (`Study`).

    Attributes:
        gammas: how many of each dataset's radii are run for the comparison of delta between datasets.
        hmc_evaluations: evaluations in training of the classifiers that HMC is run for, one of `evaluations`.
        hmc_trained_by: methods at whose hyperparameters HMC is run; the distances are those of the first, and
            which method is closer is asked at all.
        chains: HMC chains.
        burn_in: draws thrown away per chain.
        samples: draws kept per chain.
    """

    gammas: Annotated[int, within(1, 3)]
    hmc_evaluations: int
    hmc_trained_by: Annotated[list[str], filled, unique]
    chains: Annotated[int, at_least(2)]
    burn_in: Annotated[int, at_least(10)]
    samples: Annotated[int, at_least(10)]

    def check(self) -> None:
        """Refuse HMC for classifiers that are not trained."""
        super().check()
        known, allowed = (
            self.hmc_evaluations in self.evaluations,
            f"must be one of evaluations={self.evaluations}",
        )
        require(known, "hmc_evaluations", self.hmc_evaluations, allowed)

    def on(self, study: Study) -> SearchSettings:
        """Return how delta is searched on one dataset."""
        shared = {each.name: getattr(self, each.name) for each in fields(DeltaSettings)}
        return SearchSettings(
            scaling=study.scaling, features=study.features, tolerance=study.tolerance, **shared
        )
