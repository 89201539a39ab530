"""The bound of Blaas et al. 2020, the baseline: envelopes of kernel terms, pairs or linear programs.

Mean: every kernel term by its tangent or chord. Variance, `quick`: the same for the terms of all pairs of data, which
the squared exponential kernel allows; `slow`: a convex quadratic program and 2 n + 1 linear programs.

Equation: Blaas et al. 2020, App. C, App. D
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import UserError, unknown_name
from gpsuite.methods.robustness.box_bounds import BoxBounds, checked_boxes, trivial_where_invalid
from gpsuite.methods.robustness.class_probability import LatentRanges, Score, score_of
from gpsuite.methods.robustness.envelope import envelope_mean, envelope_mean_extrema
from gpsuite.methods.robustness.operator_form import OperatorForm, operator_form
from gpsuite.methods.robustness.paper_bound.pairs import Pairs, pair_variance, pair_variance_extrema
from gpsuite.methods.robustness.paper_bound.programs import Operator, program_variance
from gpsuite.methods.robustness.point_bounds import score_at
from gpsuite.methods.robustness.search.boxes import Boxes, measure
from gpsuite.models.classification.posterior import GPCPosterior

Variant = Literal["quick", "slow"]
VARIANTS: tuple[Variant, ...] = ("quick", "slow")

# Inputs of data times boxes held at once (8 MB per array).
_PIECE = 1 << 20


@dataclass(frozen=True)
class PaperBound:
    """The baseline bound over boxes of the free inputs, with the interface of the RKHS-Taylor bound.

    Attributes:
        form: the posterior over the free inputs.
        covariance: pairs of data (quick) or the operator's eigenvectors (slow).
        score: what stands for the class probability.
        name: of the bound and its variant.
        version: of the formulas.
    """

    form: OperatorForm
    covariance: Pairs | Operator
    score: Score
    name: str
    version: int = 2

    @property
    def dims(self) -> IntArray:
        """Indices of the free inputs, [d]."""
        return self.form.dims

    def bounds(self, lo: FloatArray, hi: FloatArray) -> BoxBounds:
        """Bound over the boxes lo[b] <= x_free <= hi[b]; lo and hi [B, d] in units of X.

        Raises:
            ValueError: if the shapes do not fit or lo > hi somewhere.
        """
        low, high = checked_boxes(lo, hi, len(self.dims))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            boxes = measure(self.form, low, high)
            mean_low, mean_high = envelope_mean(self.form, boxes.centre, boxes.radius)
            variance_low, variance_high = self._variance(boxes)
            mean, variance = self._moments(boxes.centre)
            ranges = LatentRanges(mean_low, mean_high, variance_low, variance_high, mean, variance)
            score_low, score_high = self.score.separate(ranges)
            return trivial_where_invalid(
                BoxBounds(
                    mean_low,
                    mean_high,
                    variance_low,
                    variance_high,
                    score_low,
                    score_high,
                    self.score.value(mean, variance),
                    boxes.radius,
                )
            )

    def candidates(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return points of the boxes that promise an extremum, in units of X, and their scores (App. D, line 6).

        They are where the relaxations attain their bounds: the mean's lower and upper one, the variance's lower and
        upper one. The slow variant, whose programs would have to be solved once more, offers those of the mean.

        Args:
            lo: lower ends, [B, d].
            hi: upper ends, [B, d].

        Returns:
            points [B, C, d] and scores [B, C], C = 4 (quick) or 2 (slow).
        """
        low, high = checked_boxes(lo, hi, len(self.dims))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            boxes = measure(self.form, low, high)
            points = envelope_mean_extrema(self.form, boxes.centre, boxes.radius)
            if isinstance(self.covariance, Pairs):
                points = np.concatenate([points, self._variance_extrema(self.covariance, boxes)], axis=1)
            points = np.clip(points, low[:, None], high[:, None])
            mean, variance = self._moments(points.reshape(-1, len(self.dims)))
            return points, self.score.value(mean, variance).reshape(points.shape[:2])

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d] in units of X."""
        return score_at(self.form, self.score, points)

    def to_probability(self, score: FloatArray) -> FloatArray:
        """Return the class probability of a score."""
        return self.score.to_probability(score)

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return class probabilities of score bounds, rounded outwards; NaN gives 0 and 1."""
        return self.score.outward_probability(low, high)

    def _moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return latent mean and variance [B] at points [B, d], without any bound."""
        mean, variance = self.form.moments(points)
        return self.form.variance * mean, self.form.variance * np.maximum(variance, 0.0)

    def _variance(self, boxes: Boxes) -> tuple[FloatArray, FloatArray]:
        """Return bounds of the variance, [B] each, never outside [0, g s]."""
        form = self.form
        low, high = np.empty(len(boxes.centre)), np.empty(len(boxes.centre))
        if isinstance(self.covariance, Pairs):
            for part in _pieces(self.covariance, len(low)):
                low[part], high[part] = pair_variance(
                    form, self.covariance, boxes.centre[part], boxes.radius[part]
                )
        else:
            for b in range(len(low)):
                low[b], high[b] = program_variance(form, self.covariance, boxes.centre[b], boxes.radius[b])
        s = form.variance
        return np.maximum(s * low, 0.0), np.minimum(s * high, s * form.bound)

    def _variance_extrema(self, pairs: Pairs, boxes: Boxes) -> FloatArray:
        """Return the points where the pairs' relaxation attains its bounds, [B, 2, d]."""
        points = np.empty((len(boxes.centre), 2, len(self.dims)))
        for part in _pieces(pairs, len(points)):
            points[part] = pair_variance_extrema(self.form, pairs, boxes.centre[part], boxes.radius[part])
        return points


def _pieces(pairs: Pairs, boxes: int) -> Iterator[slice]:
    """Return slices of the boxes small enough for arrays of all data."""
    piece = max(1, _PIECE // pairs.U.size)
    return (slice(start, start + piece) for start in range(0, boxes, piece))


def paper_bound(
    posterior: GPCPosterior, x0: FloatArray, free: IntArray, variant: Variant = "quick"
) -> PaperBound:
    """Build the baseline bound with the inputs outside `free` fixed at x0.

    Args:
        posterior: binary classifier with a squared exponential kernel and weights of -1 (Laplace, EP).
        x0: [D].
        free: indices of the free inputs, [d].
        variant: `quick` (all pairs of data, O(n^2 d) per box) or `slow` (2 n + 2 programs per box).

    Raises:
        UserError: if the kernel is another, the operator has positive weights with `slow`, or the variant is unknown.
        ValueError: if x0 or `free` do not fit the posterior.
    """
    if posterior.kernel != "squared_exponential":
        raise UserError(f"the paper's bound needs the squared exponential kernel, not {posterior.kernel}")
    form = operator_form(posterior, x0, free)
    score = score_of(posterior.link)
    if variant == "quick":
        return PaperBound(form, Pairs.of(form), score, "paper_quick")
    if variant != "slow":
        raise unknown_name("variant", variant, VARIANTS)
    if form.n_negative < len(form.root):
        raise UserError("the paper's slow bound needs a posterior of Laplace's method or EP")
    return PaperBound(form, Operator.of(form), score, "paper_slow")
