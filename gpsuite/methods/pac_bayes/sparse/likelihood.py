"""The objectives of the sparse baselines with analytic gradients: VFE's collapsed bound and FITC's likelihood.

Titsias 2009, Eq. (9), and Snelson & Ghahramani 2006, Eq. (9). With V = L^-1 K_ZX, L L' = K_ZZ, b = S V Lambda^-1 y,
S^-1 = I + V Lambda^-1 V' and m = V'b both are

    (n ln 2 pi + ln det Lambda + ln det S^-1 + (y - m)'Lambda^-1 (y - m) + b'b) / 2, for VFE + tr(K_XX - V'V)/(2s),

where Lambda = s I for VFE and s I + diag(K_XX - V'V) for FITC. Two sweeps over the data in blocks: (1) the sums that
determine S and b, (2) the adjoint of the kernel. They depend on V only through V'V, so the adjoint of K_ZZ is
-L^-T (V_adj V') L^-1 / 2 with a closed form in the middle, and no Cholesky factorisation is differentiated.

Equation: Titsias 2009, Eq. (9)
Equation: Snelson & Ghahramani 2006, Eq. (9)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg.blas import dger, dtrsm

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import unknown_name
from gpsuite.methods.pac_bayes.posteriors import check_logarithms, checked_data
from gpsuite.methods.pac_bayes.sparse.algebra import (
    InducingKernel,
    KernelContraction,
    WhitenedPosterior,
    WhitenedSums,
    block_of,
    blocks,
    checked_inducing,
    head_of,
    is_accurate,
    longest_block,
    squared_norms,
    symmetric,
    weighted_rows,
    whitened_matrix,
    whitened_vector,
    with_gram,
)

Form = Literal["vfe", "fitc"]

FORMS: tuple[Form, ...] = ("vfe", "fitc")
_LOG_2_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class _Parts:
    """What the two forms differ in.

    Attributes:
        value: the objective in nats.
        d_diagonal: sum of the derivatives in the diagonal of K_XX.
        d_log_noise: derivative in ln s.
        middle: V_adj V' [M, M], symmetric.
    """

    value: float
    d_diagonal: float
    d_log_noise: float
    middle: FloatArray


class SparseLikelihoodObjective:
    """The negative bound (VFE) or negative approximate log marginal likelihood (FITC) of a sparse GP, and its gradient.

    The buffers, two n x M arrays, are allocated once, so an instance must not be shared between threads. When K_ZZ
    cannot be factorised, a jitter relative to sigma_f^2 is added and kept for all later evaluations (`jitter`): a line
    search sees one function. VFE is evaluated on K_ZX itself, without whitening its blocks (`use_covariance_form`),
    until K_ZZ is once too ill-conditioned for it, and in the whitened form from then on; where they change over they
    agree.

    Args:
        X: inputs [N, D], finite.
        y: targets [N], finite.
        ard: one lengthscale per input, or a single one.
        form: `vfe` or `fitc`.
        n_inducing: M.
        rows: indices of the n' rows to evaluate on, each of which then counts w = n/n' times; None for all.

    Raises:
        ValueError: if shapes disagree, values are not finite or M < 1.
        UserError: if the form is unknown.
    """

    def __init__(
        self,
        X: FloatArray,
        y: FloatArray,
        ard: bool,
        form: Form,
        n_inducing: int,
        rows: IntArray | None = None,
    ) -> None:
        self._X, self._y, self._weight = weighted_rows(*checked_data(X, y), rows)
        if form not in FORMS:
            raise unknown_name("form", form, FORMS)
        if n_inducing < 1:
            raise ValueError(f"n_inducing must be at least 1, got {n_inducing}")
        n, dimension = self._X.shape
        self.form, self.n_inducing = form, n_inducing
        self.n_lengthscales = dimension if ard else 1
        self.jitter = 0.0
        self.use_covariance_form = form == "vfe"
        # every block is a contiguous piece of these; memory that is never written is never taken
        self._K = np.zeros(n * n_inducing)
        self._V = np.zeros(n * n_inducing)
        self._work = np.zeros(n_inducing * longest_block(n))
        self._adjoint = np.zeros(n_inducing * longest_block(n))

    @property
    def n(self) -> int:
        """Number of rows that an evaluation reads."""
        return len(self._y)

    def value_and_gradient(self, theta: FloatArray, Z: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the objective in nats and its gradients in theta [T + 1] and in Z [M, D].

        Args:
            theta: natural logarithms of (variance, lengthscale or lengthscales, noise variance), [T + 1].
            Z: inducing inputs [M, D].

        Raises:
            ValueError: if a shape is wrong or Z is not finite.
            NotPositiveDefiniteError: if K_ZZ cannot be factorised even with jitter.
        """
        check_logarithms(theta, self.n_lengthscales + 2)
        Z = checked_inducing(Z, self._X.shape[1], self.n_inducing)
        inducing = InducingKernel.factorise(Z, theta, self.jitter)
        self.jitter = inducing.jitter
        features, s = inducing.features(self._X), math.exp(theta[-1])
        contraction = KernelContraction(inducing)
        evaluate = self._vfe if self.form == "vfe" else self._fitc
        parts = evaluate(inducing, features, s, contraction)
        contraction.add_prior(-0.5 * inducing.unwhitened_matrix(parts.middle))
        d_log_variance = contraction.d_log_variance + inducing.variance * parts.d_diagonal
        d_lengthscales = contraction.d_log_lengthscales(self.n_lengthscales)
        d_theta = np.concatenate([[d_log_variance], d_lengthscales, [parts.d_log_noise]])
        return parts.value, d_theta, contraction.d_Z

    def _vfe(
        self, inducing: InducingKernel, features: FloatArray, s: float, contraction: KernelContraction
    ) -> _Parts:
        """Evaluate Titsias's bound; the blocks are those of V, or of K_ZX in the covariance form.

        The adjoint of K_ZX is L^-T [(S - I) V - b (y - m)']/s, with s/w for s where rows count w times.
        """
        total, log_s, s = self._weight * self.n, math.log(s), s / self._weight
        self.use_covariance_form = self.use_covariance_form and is_accurate(inducing, s)
        sums = self._vfe_sums(inducing, features, s)
        posterior = WhitenedPosterior.condition(sums)
        inverse, b, gram = posterior.inverse_factor, posterior.mean, sums.gram
        shrinkage = inverse.T @ (inverse @ gram)  # I - S = S (V V'/s) without cancellation
        shrinkage = 0.5 * (shrinkage + shrinkage.T)
        unwhitened_b, mean_weights = inducing.unwhitened_vector(b), b
        if self.use_covariance_form:
            mean_weights, left = unwhitened_b, inducing.unwhitened_matrix(shrinkage)
        else:
            left = dtrsm(1.0, inducing.factor, shrinkage, side=0, lower=1, trans_a=1)
        left *= -1.0 / s
        misfit = 0.0
        for rows in blocks(self.n):
            K = self._block(self._K, rows)
            block = K if self.use_covariance_form else self._block(self._V, rows)
            residual = self._y[rows] - mean_weights @ block
            misfit += float(residual @ residual) / s
            G = np.matmul(left, block, out=self._temporary(self._adjoint, rows))
            dger(-1.0 / s, residual, unwhitened_b, a=G.T, overwrite_a=1)
            contraction.add(G, features[rows], K)
        spare = self.n * inducing.variance / s - float(np.trace(gram))  # tr(K_XX - V'V)/s
        log_determinant = total * log_s + _log_determinant(posterior)
        value = 0.5 * (total * _LOG_2_PI + log_determinant + misfit + float(b @ b) + spare)
        d_log_noise = 0.5 * (total - float(np.trace(shrinkage)) - misfit - spare)
        middle = -shrinkage @ gram - np.outer(b, b)
        return _Parts(value, 0.5 * self.n / s, d_log_noise, 0.5 * (middle + middle.T))

    def _vfe_sums(self, inducing: InducingKernel, features: FloatArray, s: float) -> WhitenedSums:
        """Sweep 1 of VFE: V V'/s, both triangles, and V y/s."""
        raw = WhitenedSums.zeros(self.n_inducing)
        for rows in blocks(self.n):
            block = inducing.cross(features[rows], self._block(self._K, rows))
            if not self.use_covariance_form:
                block = self._whitened(inducing, rows)
            raw.add_unweighted(block, self._y[rows])
        gram, target = symmetric(raw.gram), raw.target
        if self.use_covariance_form:
            gram, target = whitened_matrix(inducing, gram), whitened_vector(inducing, target)
        return WhitenedSums(gram / s, target / s)

    def _fitc(
        self, inducing: InducingKernel, features: FloatArray, s: float, contraction: KernelContraction
    ) -> _Parts:
        """Evaluate FITC's likelihood.

        The adjoint of Lambda_i is (1/Lambda_i - h_i)/2 with h_i = (V_i'S V_i + (y_i - m_i)^2)/Lambda_i^2, and that of
        K_ZX is L^-T [(S - I) V Lambda^-1 + V diag(h) - b (y - m)'Lambda^-1]. Where rows count w times, Lambda/w and
        h/w stand for Lambda and h.
        """
        w = self._weight
        noise, sums = np.empty(self.n), WhitenedSums.zeros(self.n_inducing)
        for rows in blocks(self.n):
            inducing.cross(features[rows], self._block(self._K, rows))
            V = self._whitened(inducing, rows)
            noise[rows] = (s + np.maximum(inducing.variance - squared_norms(V), 0.0)) / w
            sums.add(V, noise[rows], self._y[rows], self._temporary(self._work, rows))
        posterior = WhitenedPosterior.condition(sums)
        S, b = posterior.inverse_factor.T @ posterior.inverse_factor, posterior.mean
        unwhitened_b = inducing.unwhitened_vector(b)
        weighted = np.zeros_like(sums.gram)  # V diag(h) V'
        misfit = d_noise = 0.0
        for rows in blocks(self.n):
            V, precision = self._block(self._V, rows), 1.0 / noise[rows]
            residual = self._y[rows] - b @ V
            misfit += float(residual**2 @ precision)
            G = np.matmul(S, V, out=self._temporary(self._adjoint, rows))
            h = (np.einsum("ij,ij->j", V, G) + residual**2) * precision**2 / w
            d_noise += 0.5 * float((precision - h).sum())
            G *= precision
            work = np.multiply(V, np.sqrt(h), out=self._temporary(self._work, rows))
            weighted = with_gram(weighted, work)
            G += np.multiply(V, h - precision, out=work)
            inducing.unwhiten_adjoint(G)
            dger(-1.0, residual * precision, unwhitened_b, a=G.T, overwrite_a=1)
            contraction.add(G, features[rows], self._block(self._K, rows))
        gram = symmetric(sums.gram)
        log_determinant = w * (float(np.log(noise).sum()) + self.n * math.log(w)) + _log_determinant(
            posterior
        )
        value = 0.5 * (w * self.n * _LOG_2_PI + log_determinant + misfit + float(b @ b))
        middle = np.eye(len(b)) - S - np.outer(b, b) - gram + symmetric(weighted)
        return _Parts(value, d_noise, s * d_noise, middle)

    def _whitened(self, inducing: InducingKernel, rows: slice) -> FloatArray:
        """Fill a block of V from that of K_ZX and return it."""
        V = self._block(self._V, rows)
        V[...] = self._block(self._K, rows)
        return inducing.whiten(V)

    def _block(self, buffer: FloatArray, rows: slice) -> FloatArray:
        return block_of(buffer, self.n_inducing, rows)

    def _temporary(self, buffer: FloatArray, rows: slice) -> FloatArray:
        return head_of(buffer, (self.n_inducing, rows.stop - rows.start))


def _log_determinant(posterior: WhitenedPosterior) -> float:
    """Return ln det S^-1."""
    return -2.0 * float(np.log(np.diagonal(posterior.inverse_factor)).sum())
