"""The probability of one of several classes along many lines, by the models of all latent differences.

Equation: derived, softmax of several classes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.explain.line_search import PieceBounds
from gpsuite.methods.robustness.explain.lines import LineSlices, line_slices
from gpsuite.methods.robustness.level_bound.latent_model import LatentModel
from gpsuite.methods.robustness.level_bound.level import level_of
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.multiclass.latent_differences import LatentDifferences
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends, SoftmaxBound
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior


@dataclass(frozen=True)
class LineBound(LevelBound):
    """The level bound over slices of which every one has boxes of its own."""

    def latent_model(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, LatentModel]:
        """Return the centres [B, 1] and the models over one box of each line, [B, 1]."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            centre = 0.5 * lo + 0.5 * hi
            return centre, self.expand(centre).over(self.form.radius(lo, hi, centre))


class LineDifferences(LatentDifferences):
    """All differences of latent functions along lines: `LatentDifferences` with a slice per line."""

    def __init__(self, n_classes: int, bounds: Sequence[LevelBound], error: float) -> None:
        self.n_classes = n_classes
        self.pairs = tuple((i, j) for i in range(n_classes) for j in range(i + 1, n_classes))
        self.bounds = tuple(bounds)
        self.error = error


class LineSoftmaxBound(SoftmaxBound):
    """Bounds of class probabilities along lines: `SoftmaxBound` over `LineDifferences`."""

    def __init__(self, posterior: MultiClassPosterior, differences: LineDifferences) -> None:
        self.posterior, self.differences = posterior, differences
        self.dims = np.zeros(1, dtype=np.int64)
        self.n_classes = posterior.n_classes


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
        bounds: one for each difference of two classes, over the slices of all lines.
        own: the class.
    """

    posterior: MultiClassPosterior
    bounds: tuple[LineBound, ...]
    own: int

    @property
    def width(self) -> int:
        """Numbers held per piece and array: the data for every difference."""
        return len(self.posterior.X) * len(self.bounds)

    def of_class(self, own: int) -> SoftmaxLines:
        """Return another class' probability along the same lines."""
        return replace(self, own=own)

    def pieces(self, lines: IntArray, low: FloatArray, high: FloatArray) -> SoftmaxPieces:
        """Expand pieces [low, high] of lines, [B] each."""
        bound = self._rows(lines)
        local = bound.over(low[:, None], high[:, None])
        scale = bound.differences.bounds[0].form.lengthscales[:, 0]
        slope, bend = np.zeros(len(low)), np.zeros(len(low))
        for (i, j), latent in local.models.items():
            if self.own in (i, j):
                weight = local.moments.product[:, i, j] * (1.0 if self.own == i else -1.0)
                slope += weight * latent.mean.model.linear[:, 0] / scale
                bend += weight * latent.mean.model.quadratic[:, 0, 0] / scale**2
        return SoftmaxPieces(low, high, bound.class_ends(local, self.own), slope, bend)

    def evaluate(self, lines: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the probability at points [B] of lines."""
        return self._rows(lines).class_at(points[:, None], self.own)

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the bounds clipped to [0, 1]; NaN gives 0 and 1."""
        lower = np.where(np.isnan(low), 0.0, np.clip(low, 0.0, 1.0))
        return lower, np.where(np.isnan(high), 1.0, np.clip(high, 0.0, 1.0))

    def _rows(self, lines: IntArray) -> LineSoftmaxBound:
        chosen = []
        for bound in self.bounds:
            assert isinstance(bound.form, LineSlices)
            chosen.append(replace(bound, form=bound.form.take(lines)))
        differences = LineDifferences(self.posterior.n_classes, chosen, self.posterior.difference_error)
        return LineSoftmaxBound(self.posterior, differences)


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
    differences = (posterior.difference(i, j) for i in range(C) for j in range(i + 1, C))
    bounds = tuple(LineBound(line_slices(each, points, inputs), level_of(each.link)) for each in differences)
    return SoftmaxLines(posterior, bounds, own)
