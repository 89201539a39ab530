"""Tests of exact coverage on counts of ranks, and the statistics of perturbation/coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.significance import binomial_p, bonferroni_p, chi_square_p, holm

STRICT = 0.001  # level of the tests of coverage: the published one of 99.9 %


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Counts of ranks of one cell and m.

    Attributes:
        model: key of `MODELS`.
        noise: key of `NOISES`.
        group: key of `GROUPS`.
        broken: key of `BREAKS`; empty where coverage must be exact.
        counts: [m], how often the rank was 1..m.
        excluded: q of each level, ascending.
    """

    model: str
    noise: str
    group: str
    broken: str
    counts: IntArray
    excluded: Sequence[int]

    @property
    def m(self) -> int:
        """Number of compared values."""
        return len(self.counts)

    @property
    def total(self) -> int:
        """Number of repetitions."""
        return int(self.counts.sum())

    def inside(self, q: int) -> int:
        """Return in how many repetitions the true coefficients were in the region."""
        return int(self.counts[: self.m - q].sum())

    def p_value(self, q: int) -> float:
        """Return the p value of the exact two-sided binomial test of coverage 1 - q/m."""
        return binomial_p(self.inside(q), self.total, (self.m - q) / self.m)

    def bins(self) -> tuple[IntArray, FloatArray]:
        """Return counts between the levels and their expected values."""
        edges = [0, *sorted(self.m - q for q in self.excluded), self.m]
        widths = np.diff(edges)
        return np.add.reduceat(self.counts, edges[:-1]), self.total * widths / self.m


def pooled_p_value(cells: Sequence[RankCounts]) -> tuple[float, int]:
    """Return the p value and degrees of freedom of one chi^2 test of all counts between levels; cells independent."""
    return chi_square_p(cell.bins() for cell in cells)


def uniformity_p_value(cells: Sequence[RankCounts]) -> tuple[float, int]:
    """Return the p value and degrees of freedom of one chi^2 test of all ranks being uniform on 1..m."""
    return chi_square_p((cell.counts, np.full(cell.m, cell.total / cell.m)) for cell in cells)


def not_rejected(p_values: Sequence[float], level: float) -> list[bool]:
    """Return which hypotheses Holm's procedure keeps at a family-wise level."""
    return [not rejected for rejected in holm(p_values, level)]


def departs(cells: Sequence[RankCounts]) -> bool:
    """Return whether any level's coverage has a p value below 0.1 % over the number of levels."""
    return _together(cells) < STRICT


def statistics(
    cells: Sequence[RankCounts], needed: Mapping[str, str], accepted: int, tried: int
) -> list[Statistic]:
    """Return the statistics that conf/paper names.

    Args:
        cells: of all models, exact and broken.
        needed: names in `RankCounts.broken` that the statement about the assumptions is about -> the assumption.
        accepted: inadmissible q that were not refused.
        tried: how many were tried.
    """
    found = [Statistic("violations_inadmissible_q", accepted, n=tried)]
    exact = [cell for cell in cells if not cell.broken]
    if exact:
        found += _exactness(exact)
    broken = _grouped([cell for cell in cells if cell.broken in needed])
    if broken:
        found.append(claim("share_departures_when_broken", [departs(group) for group in broken]))
    return found


def _exactness(cells: Sequence[RankCounts]) -> list[Statistic]:
    stated = not_rejected([cell.p_value(q) for cell in cells for q in cell.excluded], STRICT)
    noises = _grouped(cells, ("noise", "model"))
    smallest = [_together(group) for group in noises]
    pooled, freedom = pooled_p_value(cells)
    uniform, more = uniformity_p_value(cells)
    repetitions = sum(cell.total for cell in cells)
    return [
        claim("share_coverage_as_stated", stated),
        Statistic("coverage_pooled_p_value", pooled, n=repetitions, note=f"{freedom} degrees of freedom"),
        claim("share_noises_with_exact_coverage", not_rejected(smallest, STRICT)),
        Statistic("rank_uniformity_p_value", uniform, n=repetitions, note=f"{more} degrees of freedom"),
    ]


def _together(cells: Sequence[RankCounts]) -> float:
    """Return the p value of all levels together."""
    return bonferroni_p([cell.p_value(q) for cell in cells for q in cell.excluded])


def _grouped(cells: Sequence[RankCounts], by: Sequence[str] = ("broken", "model")) -> list[list[RankCounts]]:
    groups: dict[tuple[str, ...], list[RankCounts]] = {}
    for cell in cells:
        groups.setdefault(tuple(getattr(cell, name) for name in by), []).append(cell)
    return list(groups.values())
