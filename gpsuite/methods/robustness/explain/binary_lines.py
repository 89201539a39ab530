"""The positive class' probability of a binary classifier along many lines, bounded by the level function.

Equation: derived, level function
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.explain.line_search import PieceBounds
from gpsuite.methods.robustness.explain.lines import LineSlices, line_slices
from gpsuite.methods.robustness.level_bound.latent_model import LatentModel
from gpsuite.methods.robustness.level_bound.level import level_of
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.level_bound.posterior_slice import take_lines
from gpsuite.models.classification.posterior import GPCPosterior


@dataclass(frozen=True)
class BinaryPieces:
    """Local models over B pieces; see `Pieces`."""

    level_bound: LevelBound
    centre: FloatArray
    latent: LatentModel

    @property
    def sharpens(self) -> bool:
        """Whether bounds depend on the target: yes."""
        return True

    def centre_scores(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of the score at the centres, [B] each."""
        return self.level_bound.evaluate_centres(self.latent)

    def bound(self, sign: int, target: FloatArray) -> PieceBounds:
        """Bound the signed score, sharp at signed probabilities [B]."""
        level = self.level_bound.level
        towards = target if sign > 0 else 1.0 + target
        threshold = np.array([level.threshold(float(each)) for each in towards])
        found = self.level_bound.bound(self.centre, self.latent, sign, threshold)
        return PieceBounds(found.outer, found.point[:, 0])


@dataclass(frozen=True)
class BinaryLines:
    """The class probability along L lines; see `Lines`.

    Attributes:
        level_bound: over the slices of all lines.
        slices: one row a line.
    """

    level_bound: LevelBound
    slices: LineSlices

    @property
    def width(self) -> int:
        """Numbers held per piece and array: the data."""
        return len(self.slices.alpha)

    def pieces(self, lines: IntArray, low: FloatArray, high: FloatArray) -> BinaryPieces:
        """Expand pieces [low, high] of lines, [B] each."""
        form = take_lines(self.slices, lines)
        bound = replace(self.level_bound, form=form)
        lo, hi = low[:, None], high[:, None]
        centre = 0.5 * lo + 0.5 * hi
        return BinaryPieces(bound, centre, bound.expand(centre).over(form.radius(lo, hi, centre)))

    def evaluate(self, lines: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B] of lines."""
        return replace(self.level_bound, form=take_lines(self.slices, lines)).evaluate(points[:, None])

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return probabilities of score bounds, rounded outwards."""
        return self.level_bound.outward_probability(low, high)


def binary_lines(posterior: GPCPosterior, points: FloatArray, inputs: IntArray) -> BinaryLines:
    """Return the class probability along the lines through points [P, D] along inputs [d], points first.

    Raises:
        ValueError: as `line_slices`.
    """
    slices = line_slices(posterior, points, inputs)
    return BinaryLines(LevelBound(slices, level_of(posterior.link)), slices)
