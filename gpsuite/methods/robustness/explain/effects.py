"""Effect of moving one input at a time on a class probability: proved ranges over one-sided intervals.

For input i and radius gamma, T+ = [x, x + gamma e_i] and T- = [x - gamma e_i, x]. The effect
Delta_i = (max over T+ - max over T-) + (min over T+ - min over T-) is positive if raising the input raises the
probability. For a linear probability of slope b it is 2 gamma b.

Equation: Blaas et al. 2020, App. G
Equation: Ribeiro et al. 2016, Eq. (2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.explain.lines import Lines, line_extrema

DOWN, UP = 0, 1


@dataclass(frozen=True)
class OneSidedRanges:
    """Ranges of a class probability over both one-sided intervals of P points along d inputs, arrays [P, d, 2].

    The last axis is the direction: `DOWN` for T-, `UP` for T+.

    Attributes:
        ends: the far end of each interval.
        lowest_proved: proved lower bound over the interval.
        lowest: smallest value that is surely attained.
        highest: largest value that is surely attained.
        highest_proved: proved upper bound over the interval.
        closed: whether both gaps are within the tolerance.
        boxes: number of pieces bounded for all intervals.
    """

    ends: FloatArray
    lowest_proved: FloatArray
    lowest: FloatArray
    highest: FloatArray
    highest_proved: FloatArray
    closed: BoolArray
    boxes: int

    @property
    def delta(self) -> FloatArray:
        """Delta by attained values, [P, d]."""
        both = self.highest + self.lowest
        return np.asarray(both[..., UP] - both[..., DOWN])

    @property
    def delta_range(self) -> tuple[FloatArray, FloatArray]:
        """Proved lower and upper bounds of Delta, [P, d] each."""
        least, most = self.highest + self.lowest_proved, self.highest_proved + self.lowest
        slack = 8.0 * np.finfo(np.float64).eps
        return least[..., UP] - most[..., DOWN] - slack, most[..., UP] - least[..., DOWN] + slack


def one_sided_ranges(
    lines: Lines,
    points: FloatArray,
    inputs: IntArray,
    radius: npt.ArrayLike,
    domain: tuple[npt.ArrayLike, npt.ArrayLike],
    tolerance: float,
    budget: Budget,
) -> OneSidedRanges:
    """Bound a class probability over the one-sided intervals of all points and inputs in one search per end.

    Args:
        lines: probability along the lines through `points` in the directions of `inputs`, points first.
        points: [P, D].
        inputs: indices of the inputs, [d].
        radius: gamma, one number or one for each input, [d].
        domain: lowest and highest values of every input ([D] or numbers), to which intervals are cut.
        tolerance: largest gap between attained and proved probability.
        budget: boxes and seconds for both ends together. Each end has half of the boxes.

    Raises:
        ValueError: if a radius is negative or not finite, or a point is outside its domain.
    """
    x = points[:, inputs]
    reach = np.broadcast_to(np.asarray(radius, dtype=np.float64), (len(inputs),))
    bottom, top = (np.broadcast_to(np.asarray(end, float), points.shape[1:])[inputs] for end in domain)
    if not (np.isfinite(reach).all() and (reach >= 0).all()):
        raise ValueError("radius: must be finite and not negative")
    if not ((x >= bottom) & (x <= top)).all():
        raise ValueError("a point lies outside its domain")
    low, high = np.maximum(x - reach, bottom), np.minimum(x + reach, top)
    starts = np.stack([low, x], axis=-1)
    stops = np.stack([x, high], axis=-1)
    which = np.repeat(np.arange(x.size), 2)
    half = budget.part(2).boxes
    found = []
    for sign in (-1, 1):
        own = Budget(seconds=budget.left, boxes=half, observer=budget.observer)
        found.append(line_extrema(lines, which, starts.ravel(), stops.ravel(), sign, tolerance, own))
        budget.spend(boxes=found[-1].boxes)
    minimum, maximum = found
    shape = starts.shape
    return OneSidedRanges(
        ends=np.stack([low, high], axis=-1),
        lowest_proved=minimum.outer.reshape(shape),
        lowest=minimum.inner.reshape(shape),
        highest=maximum.inner.reshape(shape),
        highest_proved=maximum.outer.reshape(shape),
        closed=(minimum.closed & maximum.closed).reshape(shape),
        boxes=minimum.boxes + maximum.boxes,
    )


# LIME: a weighted linear model of the class probability around a point.
#
# The settings are those of Blaas et al. 2020: 30 samples per input, least squares with an intercept, no selection of
# inputs. The weights are max(sqrt(exp(-c^2 / 0.25^2)), 0.01) for the cosine distance c. Samples of a table of numbers
# come from a unit normal around the point. Samples of an image are masks. Normal samples would be far from all images,
# where the probability is the same everywhere.


SAMPLES_PER_INPUT = 30
KERNEL_WIDTH = 0.25
LEAST_WEIGHT = 0.01


def lime_weights(
    probability: Callable[[FloatArray], FloatArray],
    point: FloatArray,
    rng: np.random.Generator,
    samples_per_input: int = SAMPLES_PER_INPUT,
) -> FloatArray:
    """Return the slopes [D] of the local linear model at a point.

    Args:
        probability: function of inputs [S, D] that returns class probabilities [S].
        point: [D], in inputs of comparable scale: samples have unit variance along each.
        rng: draws the samples.
        samples_per_input: S / D.
    """
    samples = point + rng.standard_normal((samples_per_input * len(point), len(point)))
    return weighted_slopes(samples, probability(samples), proximity(samples, point))


def lime_mask_weights(
    probability: Callable[[FloatArray], FloatArray],
    image: FloatArray,
    rng: np.random.Generator,
    samples_per_pixel: int = SAMPLES_PER_INPUT,
) -> FloatArray:
    """Return the gain in class probability from keeping each pixel instead of making it black, [D].

    LIME for images: samples keep a random half of the pixels above 0. The other pixels get 0.

    Args:
        probability: inputs [S, D] -> class probability [S].
        image: [D], black is 0.
        rng: draws the masks.
        samples_per_pixel: samples per pixel above 0.
    """
    lit = np.flatnonzero(image > 0.0)
    masks = rng.random((samples_per_pixel * len(lit), len(lit))) < 0.5
    kept = np.concatenate([np.ones((1, len(lit))), masks])
    samples = np.zeros((len(kept), len(image)))
    samples[:, lit] = kept * image[lit]
    weights = np.zeros(len(image))
    weights[lit] = weighted_slopes(kept, probability(samples), proximity(kept, kept[0]))
    return weights


def proximity(samples: FloatArray, point: FloatArray) -> FloatArray:
    """Return the weights of samples [S, D] by their cosine distance from a point [D]. The distance from zero is 1."""
    norms = np.linalg.norm(samples, axis=1) * np.linalg.norm(point)
    cosine = np.divide(samples @ point, norms, out=np.zeros(len(samples)), where=norms > 0.0)
    distance = 1.0 - cosine
    return np.asarray(np.maximum(np.sqrt(np.exp(-((distance / KERNEL_WIDTH) ** 2))), LEAST_WEIGHT))


def weighted_slopes(samples: FloatArray, values: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the slopes [D] of the least squares fit of values [S] with an intercept. If many fit, the smallest."""
    root = np.sqrt(weights)
    design = np.column_stack([np.ones(len(samples)), samples]) * root[:, None]
    return np.asarray(np.linalg.lstsq(design, values * root, rcond=None)[0][1:])
