"""Settings of perturbation/lssvm_parameter_space."""

from __future__ import annotations

from dataclasses import dataclass

from gpsuite.experiments.perturbation.shared.linear import LinearSettings
from gpsuite.experiments.settings import Count


@dataclass
class ParameterSpaceSettings(LinearSettings):
    """Settings of the parameter space.

    Attributes:
        segments: from sampled members to the estimate, tested for star-convexity: half of them of the linear model,
            half of kernel ridge; shared out over draws and q.
    """

    segments: Count
