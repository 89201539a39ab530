"""Proved ranges of a regression's predictive mean and quantiles over a region of inputs.

Equation: derived, level function
Equation: derived, search with the level bound
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.level_bound.level_search import Root, level_search, root_model
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice, posterior_slice
from gpsuite.methods.robustness.regression.quantile import QuantileLevel, QuantileScore
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.latent import LatentPosterior

MEAN = 0.5  # the median of a normal distribution is its mean


@dataclass(frozen=True)
class QuantileRange:
    """The range of one predictive quantile over a region, in the units of the model's targets.

    Attributes:
        level: of the quantile, in (0, 1); `MEAN` for the predictive mean.
        centre: the quantile at the region's centre.
        lowest_proved: no point of the region has less; minus infinity if nothing is known.
        lowest: surely attained; infinity if nothing is.
        highest: surely attained; minus infinity if nothing is.
        highest_proved: no point has more.
        lowest_point: [d] free inputs where `lowest` is attained, or None.
        highest_point: likewise.
        status: "closed" if both ends are known up to the tolerance, else why not.
        boxes: bounded by both searches.
        minimum: the search of the smallest value, in the quantile's own sign.
        maximum: that of the largest.
    """

    level: float
    centre: float
    lowest_proved: float
    lowest: float
    highest: float
    highest_proved: float
    lowest_point: FloatArray | None
    highest_point: FloatArray | None
    status: str
    boxes: int
    minimum: Extremum
    maximum: Extremum

    @property
    def largest_change(self) -> float:
        """How far the quantile can be from that at the centre at most: proved."""
        return max(self.highest_proved - self.centre, self.centre - self.lowest_proved)


def prediction_range(
    latent: LatentPosterior,
    noise: float,
    region: Region,
    levels: Sequence[float],
    tolerance: float,
    budget: Budget,
) -> list[QuantileRange]:
    """Bound predictive quantiles mean + z sqrt(variance + noise) over a region from both sides.

    Args:
        latent: posterior of the latent function.
        noise: variance of the observation noise, above 0.
        region: a box around a point.
        levels: of the quantiles, each in (0, 1).
        tolerance: largest gap between attained and proved value, in units of the targets.
        budget: boxes and seconds for all searches; each has an equal share of what is left.

    Raises:
        ValueError: for a level outside (0, 1), noise that is not above 0, or a ball for a region.
        UnsoundBoundError: if a point attains more than the bounds allow.
    """
    if region.norm != "box" or not noise > 0.0 or not all(0.0 < level < 1.0 for level in levels):
        raise ValueError("a box, noise above 0 and levels between 0 and 1 are needed")
    form = posterior_slice(latent, region.centre, region.free)
    forms = {1: form, -1: negated(form)}
    roots: dict[int, Root | None] = {1: None, -1: None}
    found, left = [], 2 * len(levels)
    for level in levels:
        z = 0.0 if level == MEAN else float(ndtri(level))
        ends = {}
        for sign in (-1, 1):
            bound = LevelBound(forms[sign], QuantileLevel(QuantileScore(sign * z, noise)))
            if not budget.exhausted and roots[sign] is None:
                roots[sign] = root_model(bound, region)
            own = replace(budget.part(left), observer=budget.observer)
            ends[sign] = level_search(bound, region, tolerance, own, root=roots[sign])
            budget.spend(boxes=ends[sign].boxes)
            left -= 1
        mean, variance = form.moments(region.start[None])
        centre = QuantileScore(z, noise).value(
            form.variance * mean, form.variance * np.maximum(variance, 0.0)
        )
        found.append(_joined(level, float(centre[0]), ends[-1], ends[1]))
    return found


def negated(form: PosteriorSlice) -> PosteriorSlice:
    """Return the slice of minus the latent function; nothing is rounded."""
    return replace(form, alpha=-form.alpha, floor=-form.ceiling, ceiling=-form.floor)


def _joined(level: float, centre: float, mirrored: Extremum, maximum: Extremum) -> QuantileRange:
    """Join the search of the negated function with that of the function itself."""
    tree = replace(mirrored.tree, bound=-mirrored.tree.bound)
    minimum = replace(mirrored, sign=-1, inner=-mirrored.inner, outer=-mirrored.outer, tree=tree)
    status = next((each.reason for each in (minimum, maximum) if each.status != "closed"), "closed")
    return QuantileRange(
        level=level,
        centre=centre,
        lowest_proved=minimum.outer,
        lowest=np.inf if minimum.witness is None else minimum.inner,
        highest=-np.inf if maximum.witness is None else maximum.inner,
        highest_proved=maximum.outer,
        lowest_point=minimum.witness,
        highest_point=maximum.witness,
        status=status,
        boxes=minimum.boxes + maximum.boxes,
        minimum=minimum,
        maximum=maximum,
    )
