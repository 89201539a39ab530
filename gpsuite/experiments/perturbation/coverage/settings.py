"""Settings of perturbation/coverage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpsuite.data.generators.noises import NOISES
from gpsuite.errors import unknown_name
from gpsuite.experiments.base import require
from gpsuite.experiments.perturbation.shared.coverage_models import ALL, BREAKS, GROUPS, MODELS
from gpsuite.experiments.perturbation.shared.linear import check_drawn_together


@dataclass
class CoverageSettings:
    """Settings of the coverage study.

    Attributes:
        models: keys of `MODELS`.
        noises: keys of `NOISES`; a cell exists for every group that leaves the noise's distribution alone.
        groups: keys of `GROUPS`.
        breaks: keys of `BREAKS`: what is shown of violated assumptions.
        rows: data in each simulated data set.
        noise_scale: factor of the noise.
        designs: sets of inputs and true coefficients per cell, each with an equal share of the repetitions.
        repetitions: simulated data sets per cell.
        levels: pairs [q, m]: the confidence is 1 - q/m.
    """

    models: list[str] = field(default_factory=lambda: list(ALL))
    noises: list[str] = field(default_factory=lambda: list(NOISES))
    groups: list[str] = field(default_factory=lambda: list(GROUPS))
    breaks: list[str] = field(default_factory=lambda: list(BREAKS))
    rows: int = 15
    noise_scale: float = 0.5
    designs: int = 4
    repetitions: int = 20_000
    levels: list[list[int]] = field(default_factory=lambda: [[1, 20], [2, 20], [10, 20], [15, 20], [18, 20]])

    def check(self) -> None:
        """Refuse impossible values."""
        known: tuple[tuple[str, Mapping[str, Any]], ...] = (
            ("models", MODELS),
            ("noises", NOISES),
            ("groups", GROUPS),
            ("breaks", BREAKS),
        )
        for key, names in known:
            values: list[str] = getattr(self, key)
            require(len(set(values)) == len(values), key, values, "has a name twice")
            for value in values:
                if value not in names:
                    raise unknown_name(key, value, names)
        require(bool(self.models), "models", self.models, "needs at least one name")
        require(bool(self.groups), "groups", self.groups, "needs at least one name")
        require(self.rows >= 6, "rows", self.rows, "must be 6 or more")
        scaled = 0 < self.noise_scale < float("inf")
        require(scaled, "noise_scale", self.noise_scale, "must be a number above 0")
        require(self.designs >= 1, "designs", self.designs, "must be 1 or more")
        enough = self.repetitions >= self.designs
        require(
            enough, "repetitions", self.repetitions, f"must be at least the number of designs, {self.designs}"
        )
        check_drawn_together(self.repetitions)
        self._check_levels()

    def _check_levels(self) -> None:
        require(bool(self.levels), "levels", self.levels, "needs at least one pair [q, m]")
        for level in self.levels:
            admissible = len(level) == 2 and 0 < level[0] < level[1]
            require(
                admissible, "levels", level, "must be pairs [q, m] with 0 < q < m; the confidence is 1 - q/m"
            )
        distinct = len({tuple(level) for level in self.levels}) == len(self.levels)
        require(distinct, "levels", self.levels, "has a pair twice")

    @property
    def compared(self) -> dict[int, list[int]]:
        """M -> its q, both ascending."""
        grid: dict[int, list[int]] = {}
        for q, m in sorted(self.levels, key=lambda level: (level[1], level[0])):
            grid.setdefault(m, []).append(q)
        return grid


def suits(noise: str, group: str) -> bool:
    """Return whether a group leaves the distribution of a noise alone (assumption A3)."""
    law = NOISES[noise]
    needs = {
        "signs": law.signs,
        "permutations": law.permutations,
        "signed_permutations": law.signs and law.permutations,
    }
    return needs[group]
