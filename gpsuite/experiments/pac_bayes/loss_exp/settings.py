"""Settings of pac_bayes/loss_exp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.data.catalogue import dataset_names, shipped_conf_dir
from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings
from gpsuite.experiments.settings import Count, Positive, filled, one_of, unique


def shipped_datasets() -> list[str]:
    """Return the names of all shipped datasets."""
    return list(dataset_names(shipped_conf_dir()))


@dataclass
class ExponentialSettings(SplitSettings):
    """Settings of the comparison of losses.

    Attributes:
        epsilon: width of both losses, in standard deviations of the target.
        inducing: numbers M of inducing inputs; the paper's claims are decided at the largest.
        single_lengthscale: datasets whose inputs share a lengthscale although `model` has one per input.
    """

    epsilon: Positive
    inducing: Annotated[list[Count], filled, unique]
    single_lengthscale: list[Annotated[str, one_of(shipped_datasets)]]
