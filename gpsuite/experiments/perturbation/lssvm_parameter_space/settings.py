"""Settings of perturbation/lssvm_parameter_space."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.base import require
from gpsuite.experiments.perturbation.shared.linear import LinearSettings


@dataclass
class ParameterSpaceSettings(LinearSettings):
    """Settings of the parameter space.

    Attributes:
        segments: from sampled members to the estimate, tested for star-convexity: half of them of the linear model,
            half of kernel ridge; shared out over draws and q.
    """

    segments: int = 100_000

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        require(self.segments >= 1, "segments", self.segments, "must be 1 or more")
