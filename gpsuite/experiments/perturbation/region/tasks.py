"""The kind of task of perturbation/region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RegionTask:
    """One model's regions at every level.

    Attributes:
        model: key of `MODELS`.
        along: number of the input along which bands are drawn.
        seed: of the choice of rows, centres, perturbations and rays.
        group: as every other field, of `RegionSettings`.
    """

    model: str
    along: int
    seed: int
    group: str
    m: int
    excluded: Sequence[int]
    centres: int
    lengthscale: float | None
    penalty: float
    C: float
    preparation: float
    rows: int
    points: int
    rays: int
    kind: str = "perturbation_region"
