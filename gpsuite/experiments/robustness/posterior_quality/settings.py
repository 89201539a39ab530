"""Settings of robustness/posterior_quality."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.probability_change import DeltaSettings
from gpsuite.experiments.robustness.shared.settings import check_distinct

ADVICE = "a method of this run whose trained hyperparameters HMC is run for"


@dataclass
class PosteriorQualitySettings(DeltaSettings):
    """Settings of the study over datasets; scaling, features, radii and tolerance are each dataset's (`studies`).

    Attributes:
        gammas: how many of each dataset's radii are run for the comparison of delta between datasets.
        hmc_evaluations: evaluations in training of the classifiers that HMC is run for, one of `evaluations`.
        hmc_trained_by: methods at whose hyperparameters HMC is run; the first decides the claims.
        chains: HMC chains.
        burn_in: draws thrown away per chain.
        samples: draws kept per chain.
    """

    gammas: int = 2
    hmc_evaluations: int = 10
    hmc_trained_by: list[str] = field(default_factory=lambda: ["laplace", "ep"])
    chains: int = 4
    burn_in: int = 1000
    samples: int = 5000

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        known = self.hmc_evaluations in self.evaluations
        require(
            known, "hmc_evaluations", self.hmc_evaluations, f"must be one of evaluations={self.evaluations}"
        )
        require(1 <= self.gammas <= 3, "gammas", self.gammas, "must be 1, 2 or 3")
        check_distinct("hmc_trained_by", self.hmc_trained_by)
        for name, least in (("chains", 2), ("burn_in", 10), ("samples", 10)):
            require(getattr(self, name) >= least, name, getattr(self, name), f"must be {least} or more")
