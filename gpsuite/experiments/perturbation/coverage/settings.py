"""Settings of perturbation/coverage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.data.generators.regression import NOISES
from gpsuite.experiments.base import require
from gpsuite.experiments.perturbation.shared.coverage_models import BREAKS, GROUPS, MODELS
from gpsuite.experiments.perturbation.shared.linear import drawn_together
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, filled, one_of, unique

pair_of_level = Rule(
    lambda level: len(level) == 2 and 0 < level[0] < level[1],
    "must be pairs [q, m] with 0 < q < m; the confidence is 1 - q/m",
)
distinct_levels = Rule(lambda levels: len(set(map(tuple, levels))) == len(levels), "has a pair twice")


@dataclass
class CoverageSettings:
    """Settings of the coverage study.

    Attributes:
        models: to test.
        noises: a cell exists for every group that leaves the noise's distribution alone.
        groups: what the noise is perturbed by.
        breaks: assumptions to violate, to show what follows.
        rows: data in each simulated data set.
        noise_scale: factor of the noise.
        designs: sets of inputs and true coefficients per cell, each with an equal share of the repetitions.
        repetitions: simulated data sets per cell.
        levels: pairs [q, m]: the confidence is 1 - q/m.
    """

    models: Annotated[list[Annotated[str, one_of(MODELS)]], filled, unique]
    noises: Annotated[list[Annotated[str, one_of(NOISES)]], unique]
    groups: Annotated[list[Annotated[str, one_of(GROUPS)]], filled, unique]
    breaks: Annotated[list[Annotated[str, one_of(BREAKS)]], unique]
    rows: Annotated[int, at_least(6)]
    noise_scale: Positive
    designs: Count
    repetitions: Annotated[int, drawn_together]
    levels: Annotated[list[Annotated[list[int], pair_of_level]], filled, distinct_levels]

    def check(self) -> None:
        """Refuse designs without a repetition."""
        enough = self.repetitions >= self.designs
        allowed = f"must be at least the number of designs, {self.designs}"
        require(enough, "repetitions", self.repetitions, allowed)

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
