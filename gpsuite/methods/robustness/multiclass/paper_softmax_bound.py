"""The paper's bound of the class probabilities of three classes: its envelopes of mean and variance, then its cells.

Covariances follow from variances: Sigma_ij = (Sigma_ii + Sigma_jj - Var(f_i - f_j)) / 2.

Equation: Blaas et al. 2020, Prop. 3, Prop. 4, App. D
"""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import UserError
from gpsuite.methods.robustness.multiclass.latent_cells import (
    CLASSES,
    N_CELLS,
    LatentBoxes,
    class_probability_cells,
)
from gpsuite.methods.robustness.multiclass.latent_differences import class_pairs, difference_errors
from gpsuite.methods.robustness.multiclass.softmax_bound import Ends, PointModel, SoftmaxBound
from gpsuite.methods.robustness.paper_bound.bound import paper_bound
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.robust_max_posterior import RobustMaxPosterior


class PaperSoftmaxBound:
    """The baseline for three classes, with the interface of `SoftmaxBound`; points are evaluated as there.

    Args:
        posterior: of three classes, with a squared exponential kernel.
        x0: [D].
        free: indices of the free inputs, [d].
        n_cells: cells of every latent axis.
        sign: -1 takes the conditional mean as it is printed, which is no bound.

    Raises:
        UserError: for another number of classes or another kernel.
        ValueError: if the point or the indices do not fit.
    """

    name = "paper"
    version = 1

    def __init__(
        self,
        posterior: MultiClassPosterior,
        x0: FloatArray,
        free: IntArray,
        n_cells: int = N_CELLS,
        sign: float = 1.0,
    ) -> None:
        if isinstance(posterior, RobustMaxPosterior):
            raise UserError(
                "bound=paper: the paper's cells are for the softmax; use bound=rkhs_taylor", key="bound"
            )
        if posterior.n_classes != CLASSES:
            fault = f"the paper's cells are for {CLASSES} classes, there are {posterior.n_classes}"
            raise UserError(f"bound=paper: {fault}; use bound=rkhs_taylor", key="bound")
        self.n_cells, self.sign = n_cells, sign
        self._points = SoftmaxBound(posterior, x0, free)
        functions = [posterior.function(c) for c in range(CLASSES)]
        pairs = class_pairs(CLASSES)
        differences = [posterior.difference(*pair) for pair in pairs]
        parts = zip(pairs, differences, strict=True)
        self._moved = [difference_errors(posterior, *each)[1] for each in parts]
        self._bounds = [paper_bound(each, x0, free) for each in (*functions, *differences)]

    def latent(self, lo: FloatArray, hi: FloatArray) -> tuple[LatentBoxes, FloatArray]:
        """Return ranges of latent means and covariances over boxes [B, d], and scores for the cut, [B, d]."""
        found = [each.bounds(lo, hi) for each in self._bounds]
        own = found[:CLASSES]
        low, high = (np.empty((len(lo), CLASSES, CLASSES)) for _ in range(2))
        for c, each in enumerate(own):
            low[:, c, c], high[:, c, c] = each.variance_low, each.variance_high
        for (i, j), each, moved in zip(class_pairs(CLASSES), found[CLASSES:], self._moved, strict=True):
            least = 0.5 * (low[:, i, i] + low[:, j, j] - (each.variance_high + moved))
            most = 0.5 * (high[:, i, i] + high[:, j, j] - (each.variance_low - moved))
            largest = np.sqrt(high[:, i, i] * high[:, j, j])
            low[:, i, j] = low[:, j, i] = np.maximum(least, -largest)
            high[:, i, j] = high[:, j, i] = np.minimum(most, largest)
        mean = tuple(
            np.stack([getattr(each, f"mean_{end}") for each in own], axis=1) for end in ("low", "high")
        )
        return LatentBoxes((mean[0], mean[1]), (low, high)), own[0].split_score

    def class_bounds(self, lo: FloatArray, hi: FloatArray, own: int) -> Ends:
        """Bound the probability of a class over boxes [B, d]."""
        latent, score = self.latent(lo, hi)
        low, high = class_probability_cells(latent, own, self.n_cells, self.sign)
        return Ends(low, high, self.at(0.5 * lo + 0.5 * hi).moments.mean[:, own], score)

    def margin_bounds(self, lo: FloatArray, hi: FloatArray, own: int, rival: int) -> Ends:
        """Bound p_own - p_rival over boxes [B, d], by the bounds of both."""
        latent, score = self.latent(lo, hi)
        ends = [class_probability_cells(latent, c, self.n_cells, self.sign) for c in (own, rival)]
        mean = self.at(0.5 * lo + 0.5 * hi).moments.mean
        return Ends(ends[0][0] - ends[1][1], ends[0][1] - ends[1][0], mean[:, own] - mean[:, rival], score)

    def at(self, points: FloatArray) -> PointModel:
        """Return what is known at points [B, d] of the free inputs."""
        return self._points.at(points)

    def class_of(self, local: PointModel, own: int) -> tuple[FloatArray, FloatArray]:
        """Bound the probability of a class at points that are known, [B] each."""
        return self._points.class_of(local, own)

    def margin_of(self, local: PointModel, own: int, rival: int) -> tuple[FloatArray, FloatArray]:
        """Bound p_own - p_rival at points that are known, [B] each."""
        return self._points.margin_of(local, own, rival)
