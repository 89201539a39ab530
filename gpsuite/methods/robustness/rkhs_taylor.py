"""RKHS-Taylor bounds: expand mean and variance around each box's centre in an orthonormal basis of the RKHS.

What the expansion leaves out is bounded by Cauchy-Schwarz with an exact tail; no linear or quadratic program is
solved. All boxes of a batch share one matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from gpsuite.errors import UserError
from gpsuite.methods.robustness.box_bounds import (
    BoxBounds,
    FloatArray,
    IntArray,
    checked_boxes,
    trivial_where_invalid,
)
from gpsuite.methods.robustness.class_probability import Score, score_of
from gpsuite.methods.robustness.envelope import envelope_mean
from gpsuite.methods.robustness.operator_form import OperatorForm, operator_form
from gpsuite.methods.robustness.point_bounds import score_at
from gpsuite.methods.robustness.rkhs_taylor_features import coefficients, n_terms
from gpsuite.methods.robustness.rkhs_taylor_low_rank import reduced
from gpsuite.methods.robustness.rkhs_taylor_mean import mean_model, measure
from gpsuite.methods.robustness.rkhs_taylor_score import score_bounds
from gpsuite.methods.robustness.rkhs_taylor_variance import variance_model
from gpsuite.models.gpc import GPCPosterior

# Entries of the basis values held at once (8 MB): larger pieces fall out of the cache.
_PIECE = 1 << 20


@dataclass(frozen=True)
class RkhsTaylor:
    """Bounds of latent mean, variance and class-probability score over boxes of the free inputs.

    Attributes:
        form: the posterior over the free inputs.
        stacked: rows of the operator's root and the mean weights, [r + 1, n].
        score: what stands for the class probability.
        degree: of the expansion, 1 or 2.
        name: of the bound and its degree.
        version: of the formulas.
    """

    form: OperatorForm
    stacked: FloatArray
    score: Score
    degree: int
    name: str
    version: int = 2

    @property
    def dims(self) -> IntArray:
        """Indices of the free inputs, [d]."""
        return self.form.dims

    def bounds(self, lo: FloatArray, hi: FloatArray) -> BoxBounds:
        """Bound over the boxes lo[b] <= x_free <= hi[b].

        Args:
            lo: lower ends in units of X, [B, d]; may equal the upper ends.
            hi: upper ends, [B, d].

        Raises:
            ValueError: if the shapes do not fit or lo > hi somewhere.
        """
        low, high = checked_boxes(lo, hi, len(self.dims))
        piece = max(1, _PIECE // (self.stacked.shape[1] * n_terms(len(self.dims), self.degree)))
        parts = [
            self._piece(low[start : start + piece], high[start : start + piece])
            for start in range(0, max(1, len(low)), piece)
        ]
        return parts[0] if len(parts) == 1 else _joined(parts)

    def evaluate(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds [B] of the score at points [B, d] in units of X."""
        return score_at(self.form, self.score, points)

    def to_probability(self, score: FloatArray) -> FloatArray:
        """Return the class probability of a score."""
        return self.score.to_probability(score)

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return class probabilities of score bounds, rounded outwards; NaN gives 0 and 1."""
        return self.score.outward_probability(low, high)

    def _piece(self, low: FloatArray, high: FloatArray) -> BoxBounds:
        # Huge boxes overflow on the way to a trivial bound, and NaN is replaced at the end.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
            boxes = measure(self.form, low, high, self.degree)
            terms = coefficients(self.form, self.stacked, boxes.centre, self.degree)
            mean = mean_model(self.form, boxes, terms.mean)
            if not self.form.profile.folds:
                below, above = envelope_mean(self.form, boxes.centre, boxes.radius)
                mean = replace(mean, low=np.fmax(mean.low, below), high=np.fmin(mean.high, above))
            variance = variance_model(self.form, boxes, terms)
            return trivial_where_invalid(score_bounds(self.score, boxes, mean, variance))


def rkhs_taylor(
    posterior: GPCPosterior, x0: FloatArray, free: IntArray, degree: int = 1, low_rank: bool = False
) -> RkhsTaylor:
    """Build the RKHS-Taylor bound of a posterior with the inputs outside `free` fixed at x0.

    If every input is free the bound does not depend on x0, and one bound serves every test point.

    Args:
        posterior: binary classifier, N data, D inputs.
        x0: [D].
        free: indices of the free inputs, [d].
        degree: 1, or 2 for the squared exponential kernel.
        low_rank: reduce the variance's operator first: costs a few products with the N x N root and kernel matrix,
            and pays when many boxes follow. Operators of sparse posteriors are small and stay as they are.

    Raises:
        UserError: if the degree is not implemented for the kernel.
        ValueError: if x0 or `free` do not fit the posterior.
    """
    form = operator_form(posterior, x0, free)
    if degree not in form.profile.degrees:
        allowed = " or ".join(str(value) for value in form.profile.degrees)
        raise UserError(f"degree={degree}: the {posterior.kernel} kernel has degree {allowed}", key="degree")
    if low_rank:
        form = reduced(form, posterior)
    stacked = np.vstack([form.root, form.alpha])
    name = f"rkhs_taylor_{degree}" + ("_low_rank" if low_rank else "")
    return RkhsTaylor(form, stacked, score_of(posterior.link), degree, name)


def _joined(parts: list[BoxBounds]) -> BoxBounds:
    return BoxBounds(
        **{
            field.name: np.concatenate([getattr(part, field.name) for part in parts])
            for field in fields(BoxBounds)
        }
    )
