"""Settings of pac_bayes/inducing_*."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.experiments.base import require
from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings, check_epsilon


@dataclass
class InducingSettings(SplitSettings):
    """Settings of the scan over numbers of inducing inputs.

    Attributes:
        epsilon: half-width of the 0-1 band, in standard deviations of the target.
        inducing: numbers M of inducing inputs.
        other_kernel: methods trained also with the kernel that `model` does not name: ARD or a single lengthscale.
        other_kernel_inducing: the numbers M at which they are.
    """

    epsilon: float = 0.6
    inducing: list[int] = field(default_factory=lambda: [100, 200, 300, 400, 500])
    other_kernel: list[str] = field(default_factory=list)
    other_kernel_inducing: list[int] = field(default_factory=lambda: [100, 200, 300, 400, 500])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        check_epsilon("epsilon", self.epsilon)
        require(bool(self.inducing), "inducing", self.inducing, "needs at least one number")
        require(min(self.inducing) >= 1, "inducing", self.inducing, "must be 1 or more")
        require(
            len(set(self.inducing)) == len(self.inducing), "inducing", self.inducing, "has a number twice"
        )
