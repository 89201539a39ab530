"""Settings of perturbation/region."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.errors import unknown_name
from gpsuite.experiments.base import require
from gpsuite.experiments.perturbation.shared.coverage_models import GROUPS

MODELS = {"krr_sparse": "kernel ridge, few centres", "lssvm_linear": "LS-SVM, linear"}


@dataclass
class RegionSettings:
    """Settings of confidence regions on any dataset.

    Attributes:
        models: keys of `MODELS`.
        group: what the noise is assumed invariant under, a key of `coverage_models.GROUPS`.
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

    models: list[str] = field(default_factory=lambda: list(MODELS))
    group: str = "signs"
    m: int = 100
    excluded: list[int] = field(default_factory=lambda: [50, 10, 5])
    centres: int = 8
    lengthscale: float | None = None
    penalty: float = 1e-3
    C: float = 1.0
    preparation: float = 0.2
    rows: int = 0
    along: str = ""
    points: int = 101
    rays: int = 2000

    def check(self) -> None:
        """Refuse impossible values."""
        require(bool(self.models), "models", self.models, "needs at least one name")
        for model in self.models:
            if model not in MODELS:
                raise unknown_name("models", model, MODELS)
        if self.group not in GROUPS:
            raise unknown_name("group", self.group, GROUPS)
        require(self.m >= 2, "m", self.m, "must be 2 or more")
        require(bool(self.excluded), "excluded", self.excluded, "needs at least one q")
        for q in self.excluded:
            require(
                0 < q < self.m, "excluded", q, f"must lie in 0 < q < m={self.m}; the confidence is 1 - q/m"
            )
        for name in ("models", "excluded"):
            values = getattr(self, name)
            require(len(set(values)) == len(values), name, values, "has a value twice")
        for name in ("penalty", "C", "lengthscale"):
            value = getattr(self, name)
            require(value is None or 0 < value < float("inf"), name, value, "must be a number above 0")
        require(0 < self.preparation < 1, "preparation", self.preparation, "must lie between 0 and 1")
        require(self.rows >= 0, "rows", self.rows, "must be 0 (all) or more")
        for name, least in (("centres", 1), ("points", 2), ("rays", 1)):
            require(getattr(self, name) >= least, name, getattr(self, name), f"must be {least} or more")
