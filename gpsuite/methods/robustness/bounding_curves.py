"""Functions behind the bounds of one box: at every point of the box they bound the class probability on both sides.

A bound over a box is the extremum of such a function (Blaas et al. 2020, Fig. 1, the dashed curve). Branch and bound
needs only the extremum. These curves show where it comes from.

Equation: Blaas et al. 2020, Fig. 1
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.class_probability import BoundingFunction, probability_bounds
from gpsuite.methods.robustness.envelope import chord_line, distance_ranges, tangent_line
from gpsuite.methods.robustness.level_bound.cubic import MomentModel
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.operators import OperatorForm
from gpsuite.methods.robustness.paper_bound import PaperBound
from gpsuite.methods.robustness.search.regions import Boxes, measure
from gpsuite.models.classification.links import Link

Range = tuple[FloatArray, FloatArray]


def bounding_curves(bounding: BoundingFunction, link: Link, lo: FloatArray, hi: FloatArray, x: FloatArray) -> Range:
    """Return bounds of the class probability at points of one box, from the functions behind the box's bound.

    The RKHS-Taylor bound gives its cubic models of mean and variance with their remainders. The paper's bound gives the
    sum of tangents and chords for the mean, and the box's bounds for the variance. Neither is below the box's own
    bounds of mean and variance.

    Args:
        bounding: an RKHS-Taylor or paper bound.
        link: the classifier's link.
        lo: lower ends of the box, [d].
        hi: upper ends, [d].
        x: points of the box, [K, d].

    Raises:
        TypeError: for another kind of bound.
    """
    if isinstance(bounding, LevelBound):
        return probability_bounds(link, *_level_ranges(bounding, lo, hi, x))
    if isinstance(bounding, PaperBound):
        return probability_bounds(link, *_paper_ranges(bounding, lo, hi, x))
    raise TypeError(f"{bounding.name}: curves are known of the RKHS-Taylor and the paper's bound")


def _level_ranges(bounding: LevelBound, lo: FloatArray, hi: FloatArray, x: FloatArray) -> tuple[Range, Range]:
    centre, latent = bounding.latent_model(lo[None], hi[None])
    offset = (x - centre) / bounding.form.lengthscales
    return _follow(latent.mean, offset), _follow(latent.variance, offset)


def _follow(moment: MomentModel, offset: FloatArray) -> Range:
    """Return bounds of a moment at offsets [K, d] from the centre: model and remainders, within the box's range."""
    value = moment.model.at(offset)
    return np.maximum(value - moment.below, moment.low), np.minimum(value + moment.above, moment.high)


def _paper_ranges(bounding: PaperBound, lo: FloatArray, hi: FloatArray, x: FloatArray) -> tuple[Range, Range]:
    boxes, box = measure(bounding.form, lo[None], hi[None]), bounding.bounds(lo[None], hi[None])
    low, high = _envelope(bounding.form, boxes, x)
    count = np.ones(len(x))
    mean = np.maximum(low, box.mean_low), np.minimum(high, box.mean_high)
    return mean, (count * box.variance_low, count * box.variance_high)


def _envelope(form: OperatorForm, boxes: Boxes, x: FloatArray) -> Range:
    """Return the sums of tangents and chords at points [K, d], widened by the rounding of a sum of n terms."""
    _, nearest, farthest = distance_ranges(form, boxes.centre, boxes.radius)
    tangent, chord = (line(form.kernel, nearest, farthest) for line in (tangent_line, chord_line))
    q = form.squared_distances(x)
    below, above = (constant + slope * q for constant, slope in (tangent, chord))
    rising, falling = np.maximum(form.alpha, 0.0), np.minimum(form.alpha, 0.0)
    slack = 8.0 * len(form.alpha) * np.finfo(np.float64).eps * (np.abs(below) + np.abs(above)) @ np.abs(form.alpha)
    low = form.variance * (below @ rising + above @ falling - slack)
    high = form.variance * (above @ rising + below @ falling + slack)
    return np.asarray(low), np.asarray(high)
