"""Settings of perturbation/region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.perturbation.shared.coverage_models import GROUPS
from gpsuite.experiments.perturbation.shared.linear import check_levels
from gpsuite.experiments.settings import (
    Count,
    Positive,
    Rule,
    Share,
    at_least,
    between,
    filled,
    one_of,
    unique,
)

MODELS = {"krr_sparse": "kernel ridge, few centres", "lssvm_linear": "LS-SVM, linear"}


@dataclass
class RegionSettings:
    """Settings of confidence regions on any dataset.

    Attributes:
        models: what the function may be: kernel ridge with few centres, linear.
        group: what the noise is assumed invariant under.
        m: number of compared values.
        excluded: q of each region; the confidence is 1 - q/m.
        centres: number of basis functions of the sparse kernel model.
        lengthscale: of its Gaussian kernel, in standard deviations of the inputs; null: median distance.
        penalty: of kernel ridge.
        C: weight of the residuals of the LS-SVM.
        preparation: share of rows that choose scales, offset, lengthscale and centres, and are used for nothing else.
        rows: most rows taken, at random; 0: all.
        along: input along which bands are drawn; empty: the one that follows the target most closely.
        points: of the drawn curve.
        rays: directions from the estimate along which members are looked for.
    """

    models: Annotated[list[Annotated[str, one_of(MODELS)]], filled, unique]
    group: Annotated[str, one_of(GROUPS)]
    m: Annotated[int, at_least(2)]
    excluded: Annotated[list[int], filled, unique]
    centres: Count
    lengthscale: Positive | None
    penalty: Annotated[float, between(1e-100, 1e100)]  # beyond, squares of what they divide overflow
    C: Annotated[float, between(1e-100, 1e100)]
    preparation: Share
    rows: Annotated[int, Rule(lambda rows: rows >= 0, "must be 0 (all) or more")]
    along: str
    points: Annotated[int, at_least(2)]
    rays: Count

    def check(self) -> None:
        """Refuse a q that is not below m."""
        check_levels(self.m, self.excluded, "excluded")
