"""Settings of pac_bayes/inducing_*."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings
from gpsuite.experiments.settings import Count, Positive, filled, unique


@dataclass
class InducingSettings(SplitSettings):
    """Settings of the scan over numbers of inducing inputs.

    Attributes:
        epsilon: half-width of the 0-1 band, in standard deviations of the target.
        inducing: numbers M of inducing inputs.
        other_kernel: methods trained also with the kernel that `model` does not name: ARD or a single lengthscale.
        other_kernel_inducing: the numbers M at which they are.
    """

    epsilon: Positive
    inducing: Annotated[list[Count], filled, unique]
    other_kernel: list[str]
    other_kernel_inducing: list[int]
