"""The probability of one of several classes along many lines, by the models of all latent differences.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.class_probability import clipped
from gpsuite.methods.robustness.explain.line_search import PieceBounds
from gpsuite.methods.robustness.explain.lines import restricted_lines
from gpsuite.methods.robustness.level_bound.posterior_slice import take_lines
from gpsuite.methods.robustness.multiclass.latent_differences import (
    LatentDifferences,
    any_difference,
    difference_functions,
)
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends, Proof, SoftmaxBound
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior


class LineSoftmaxBound(SoftmaxBound):
    """Bounds of class probabilities along lines: `SoftmaxBound` with a slice per line."""

    def __init__(self, posterior: MultiClassPosterior, differences: LatentDifferences) -> None:
        self.posterior, self.differences = posterior, differences
        self.dims = np.zeros(1, dtype=np.int64)
        self.n_classes = posterior.n_classes
        self._root, self._points = None, {}


@dataclass(frozen=True)
class SoftmaxPieces:
    """Bounds over B pieces; see `Pieces`.

    Attributes:
        low: ends of the pieces, [B].
        high: [B].
        ends: bounds of the probability.
        slope: derivative of what moves it by the offset from the centre, [B].
        bend: half its second derivative, [B].
    """

    low: FloatArray
    high: FloatArray
    ends: Ends
    slope: FloatArray
    bend: FloatArray

    @property
    def sharpens(self) -> bool:
        """Whether bounds depend on the target: no."""
        return False

    def centre_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return NaN: an evaluation costs as much as a bound, and `bound` proposes the better point."""
        unknown = np.full(len(self.low), np.nan)
        return unknown, unknown

    def bound(self, sign: int, target: FloatArray) -> PieceBounds:
        """Bound the signed probability; the proposed point is where the quadratic model is largest."""
        radius = 0.5 * (self.high - self.low)
        slope, bend = sign * self.slope, sign * self.bend
        curved = bend < 0.0
        turn = np.where(curved, -0.5 * slope / np.where(curved, bend, -1.0), np.sign(slope) * np.inf)
        turn = np.where(curved | (slope != 0.0), turn, 0.0)
        offset = np.clip(turn, -radius, radius)
        outer = self.ends.high if sign > 0 else -self.ends.low
        return PieceBounds(outer, 0.5 * (self.low + self.high) + offset)


@dataclass(frozen=True)
class SoftmaxLines:
    """The probability of a class along L lines; see `Lines`.

    Attributes:
        posterior: of C classes.
        differences: over the slices of all lines.
        own: the class.
        proof: of all that was bounded.
    """

    posterior: MultiClassPosterior
    differences: LatentDifferences
    own: int
    proof: Proof = field(default_factory=Proof)

    @property
    def width(self) -> int:
        """Numbers held per piece and array: the data for every difference."""
        return len(self.posterior.X) * len(self.differences.form.alpha)

    def of_class(self, own: int) -> SoftmaxLines:
        """Return another class' probability along the same lines."""
        return replace(self, own=own)

    def pieces(self, lines: IntArray, low: FloatArray, high: FloatArray) -> SoftmaxPieces:
        """Expand pieces [low, high] of lines, [B] each."""
        bound = self._rows(lines)
        local = bound.over(low[:, None], high[:, None])
        self.proof.note(local.moments.proved)
        scale = bound.differences.form.lengthscales[:, 0]
        total, _, _ = local.models.combined_means(self.own, local.moments.product[:, self.own])
        slope, bend = total.linear[:, 0] / scale, total.quadratic[:, 0, 0] / scale**2
        return SoftmaxPieces(low, high, bound.class_ends(local, self.own), slope, bend)

    def evaluate(self, lines: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the probability at points [B] of lines."""
        bound = self._rows(lines)
        known = bound.at(points[:, None])
        self.proof.note(known.proved)
        return bound.class_of(known, self.own)

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds clipped to [0, 1]; NaN gives 0 and 1."""
        return clipped(low, high)

    def _rows(self, lines: IntArray) -> LineSoftmaxBound:
        chosen = replace(self.differences, form=take_lines(self.differences.form, lines))
        return LineSoftmaxBound(self.posterior, chosen)


def softmax_lines(
    posterior: MultiClassPosterior, points: FloatArray, inputs: IntArray, own: int
) -> SoftmaxLines:
    """Return a class' probability along the lines through points [P, D] along inputs [d], points first.

    Raises:
        ValueError: as `line_slices`, or if the class does not exist.
    """
    C = posterior.n_classes
    if not 0 <= own < C:
        raise ValueError(f"class {own}: there are {C}")
    found = difference_functions(posterior)
    one, unit = restricted_lines(any_difference(posterior), points, inputs, found.functions.products[0])
    differences = LatentDifferences(C, found.functions.stack(one, unit), found)
    return SoftmaxLines(posterior, differences, own)
