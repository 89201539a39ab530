"""Settings of pac_bayes/loss_exp."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.data.catalogue import dataset_names, shipped_conf_dir
from gpsuite.errors import unknown_name
from gpsuite.experiments.base import require
from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings, check_epsilon


@dataclass
class ExponentialSettings(SplitSettings):
    """Settings of the comparison of losses.

    Attributes:
        epsilon: width of both losses, in standard deviations of the target.
        inducing: numbers M of inducing inputs; the paper's claims are decided at the largest.
        single_lengthscale: datasets whose inputs share a lengthscale although `model` has one per input.
    """

    epsilon: float = 0.6
    inducing: list[int] = field(default_factory=lambda: [500])
    single_lengthscale: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        check_epsilon("epsilon", self.epsilon)
        inducing, known = self.inducing, dataset_names(shipped_conf_dir())
        require(bool(inducing), "inducing", inducing, "needs at least one number")
        require(min(inducing) >= 1, "inducing", inducing, "must be 1 or more")
        require(len(set(inducing)) == len(inducing), "inducing", inducing, "has a number twice")
        for name in self.single_lengthscale:
            if name not in known:
                raise unknown_name("single_lengthscale", name, known)
