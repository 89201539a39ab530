"""The bound of a sparse GP with its analytic gradient, also in the inducing inputs.

There are three sweeps over the data in blocks. (1) computes V = L^-1 K_ZX and the sums that determine the posterior.
(2) computes means, variances, losses and C = V diag(gv) V'. (3) computes the adjoints of V and of the kernel. The
objective depends on V only through V'V. So the adjoint of K_ZZ has a closed form, and no Cholesky factorisation is
differentiated.

Equation: Reeb et al. 2018, Eq. (9), Eq. (10), Eq. (11)
Equation: derived, gradient of the sparse bound
Equation: Titsias 2009, Eq. (9)
Equation: Snelson & Ghahramani 2006, Eq. (9)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
from scipy.linalg.blas import dger, dtrmm, dtrsm

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import unknown_name
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL, check_logarithms, checked_data
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse.algebra import (
    BlockArray,
    CovarianceForm,
    InducingKernel,
    KernelContraction,
    RiskSums,
    WeightedGram,
    WhitenedPosterior,
    WhitenedSums,
    add_product,
    block_of,
    blocks,
    check_alpha,
    checked_inducing,
    head_of,
    is_accurate,
    longest_block,
    squared_norms,
    stores,
    sum_risk,
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
class _State:
    inducing: InducingKernel
    features: FloatArray  # features of X [N, D+2]
    noise: FloatArray  # Lambda/w [N], Lambda = s + alpha spare
    spare: FloatArray  # sigma_f^2 - |V_i|^2 [N]
    gram: FloatArray  # V Lambda^-1 V', symmetric
    posterior: WhitenedPosterior
    form: CovarianceForm | None  # if given, the blocks are of K_ZX and not of V


@dataclass(frozen=True)
class _Adjoint:
    """The M x M quantities of the gradient: S, P = S (F V Lambda^-1 V'/2 - C) S and u = S (V gm + F b)."""

    S: FloatArray
    P: FloatArray
    u: FloatArray
    d_kl: float


class SparseGPObjective:
    """The bound of a sparse GP and its gradient in the hyperparameters and the inducing inputs.

    The buffers are allocated once, so threads must not share an instance. They are two n x M arrays. If these are not
    stored, they are O(M^2) and O(n D) numbers, for about a third more time. If K_ZZ cannot be factorised, a jitter
    relative to sigma_f^2 is added. It is kept for all later evaluations (`jitter`), so a line search has one function.
    For alpha = 0 evaluations use the faster covariance form (`use_covariance_form`). From the first time that K_ZZ is
    too ill-conditioned for it, they use the whitened form. At the change both forms agree.

    Args:
        rows: indices of the n' rows to evaluate on, None for all. Each row counts w = n/n' times. The result is the
            bound of n rows, w copies of each. It is far too low and no bound for the problem.

    Raises:
        ValueError: if alpha is outside [0, 1] or M < 1.
    """

    def __init__(
        self,
        problem: RiskProblem,
        alpha: float,
        n_inducing: int,
        store: bool | None = None,
        rows: IntArray | None = None,
    ) -> None:
        check_alpha(alpha)
        if n_inducing < 1:
            raise ValueError(f"n_inducing must be at least 1, got {n_inducing}")
        self._X, self._y, self._weight = weighted_rows(problem.X, problem.y, rows)
        n = len(self._y)
        self._loss, self._bound, self.n_lengthscales = problem.loss, problem.bound, problem.n_lengthscales
        self._alpha, self.n_inducing = alpha, n_inducing
        self.jitter = 0.0
        self.use_covariance_form = alpha == 0.0
        stored = stores(n, n_inducing, 2) if store is None else store
        self._V, self._U = BlockArray(n, n_inducing, stored), BlockArray(n, n_inducing, stored)
        self._work = np.zeros((2 * n_inducing + 2) * longest_block(n))
        self._adjoint = np.zeros(n_inducing * longest_block(n))

    @property
    def n(self) -> int:
        return len(self._y)

    def value_and_gradient(self, theta: FloatArray, Z: FloatArray) -> tuple[float, FloatArray, FloatArray, RiskAndKL]:
        """Return the bound, its gradients in theta [T + 1] and in Z [M, D], and the risk and KL behind it.

        Raises:
            ValueError: if a shape is wrong or Z is not finite.
            NotPositiveDefiniteError: if K_ZZ cannot be factorised even with jitter.
        """
        check_logarithms(theta, self.n_lengthscales + 2)
        Z = checked_inducing(Z, self._X.shape[1], self.n_inducing)
        state = self._condition(theta, Z)
        unscaled = self._risk(state)
        risk, kl = float(unscaled.loss.mean()), state.posterior.kl
        value, d_risk, d_kl = self._bound.value_and_gradient(risk, kl)
        d_theta, d_Z = self._gradient(state, unscaled.scaled(d_risk / self.n), d_kl)
        return value, d_theta, d_Z, RiskAndKL(risk, kl)

    def _condition(self, theta: FloatArray, Z: FloatArray) -> _State:
        inducing = InducingKernel.factorise(Z, theta, self.jitter)
        self.jitter = inducing.jitter
        features, s = inducing.features(self._X), math.exp(theta[-1])
        self.use_covariance_form = self.use_covariance_form and is_accurate(inducing, s / self._weight)
        if self.use_covariance_form:
            state = self._condition_in_covariance_form(inducing, features, s)
            if state is not None:
                return state
            self.use_covariance_form = False
        sums, spare = WhitenedSums.zeros(self.n_inducing), np.empty(self.n)
        for rows in blocks(self.n):
            V = inducing.whitened(features[rows], self._V.block(rows))
            spare[rows] = np.maximum(inducing.variance - squared_norms(V), 0.0)
            noise = (s + self._alpha * spare[rows]) / self._weight
            sums.add(V, noise, self._y[rows], head_of(self._work, V.shape))
        posterior = WhitenedPosterior.condition(sums)
        noise = (s + self._alpha * spare) / self._weight
        return _State(inducing, features, noise, spare, symmetric(sums.gram), posterior, None)

    def _condition_in_covariance_form(self, inducing: InducingKernel, features: FloatArray, s: float) -> _State | None:
        """Return the state after sweep 1 without whitening the blocks, or None if this form cannot be used."""
        noise, raw = np.full(self.n, s / self._weight), WhitenedSums.zeros(self.n_inducing)
        for rows in blocks(self.n):
            K = inducing.cross(features[rows], self._V.block(rows))
            raw.add(K, noise[rows], self._y[rows], head_of(self._work, K.shape))
        gram = whitened_matrix(inducing, symmetric(raw.gram))
        sums = WhitenedSums(gram, whitened_vector(inducing, raw.target))
        posterior = WhitenedPosterior.condition(sums)
        form = CovarianceForm.derive(inducing, sums, posterior)
        if form is None:
            return None
        return _State(inducing, features, noise, np.zeros(self.n), gram, posterior, form)

    def _risk(self, state: _State) -> RiskSums:
        """Return the losses, sweep 2. The bound's derivative is not applied yet: it needs their mean."""
        first, moments = partial(self._first, state), partial(self._moments, state)
        risk = sum_risk(self._loss, self._y, self.n_inducing, first, moments)
        if state.form is None:
            return risk
        C, V_d_mean = whitened_matrix(state.inducing, risk.C), whitened_vector(state.inducing, risk.V_d_mean)
        return replace(risk, C=C, V_d_mean=V_d_mean)

    def _moments(self, state: _State, block: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance at the points of a block of V, or of K_ZX in the covariance form."""
        if state.form is not None:
            U = state.form.half_reduction(block, self._U.block(rows))
            return block.T @ state.form.mean, np.maximum(state.inducing.variance - squared_norms(U), 0.0)
        # only alpha > 0 uses U again
        out = self._U.block(rows) if self._alpha > 0.0 else head_of(self._work, block.shape)
        U = state.posterior.half_variance(block, out)
        return block.T @ state.posterior.mean, state.spare[rows] + squared_norms(U)

    def _first(self, state: _State, rows: slice) -> FloatArray:
        """Return a block of V, or of K_ZX in the covariance form, as sweep 1 stored it or computed again."""
        block = self._V.block(rows)
        if not self._V.stored:
            fill = state.inducing.whitened if state.form is None else state.inducing.cross
            fill(state.features[rows], block)
        return block

    def _second(self, state: _State, first: FloatArray, rows: slice) -> FloatArray:
        """Return a block of U = L_B^-1 V, or of T_K' K_ZX, as sweep 2 stored it or computed again."""
        block = self._U.block(rows)
        if not self._U.stored:
            fill = state.posterior.half_variance if state.form is None else state.form.half_reduction
            fill(first, block)
        return block

    def _gradient(self, state: _State, risk: RiskSums, d_kl: float) -> tuple[FloatArray, FloatArray]:
        """Return the gradients in theta and in Z, sweep 3."""
        inducing, posterior, b = state.inducing, state.posterior, state.posterior.mean
        S = posterior.inverse_factor.T @ posterior.inverse_factor
        P = S @ (0.5 * d_kl * state.gram - risk.C) @ S
        adjoint = _Adjoint(S, 0.5 * (P + P.T), S @ (risk.V_d_mean + d_kl * b), d_kl)
        contraction = KernelContraction(inducing)
        d_noise, E = np.zeros(self.n), WeightedGram(len(b))
        if state.form is not None:
            self._sweep_covariance_form(state, state.form, risk, adjoint, contraction)
        elif self._alpha == 0.0:
            self._sweep_constant_noise(state, risk, adjoint, contraction)
        else:
            self._sweep(state, risk, adjoint, contraction, d_noise, E)
        Y = d_kl * (np.eye(len(b)) - S - np.outer(b, b)) - 2.0 * (risk.C + adjoint.P)
        Y += np.outer(adjoint.u, b) + np.outer(b, adjoint.u) - 2.0 * self._alpha * E.total()
        half = dtrsm(-0.5, inducing.factor, Y, side=0, lower=1, trans_a=1)
        contraction.add_prior(dtrsm(1.0, inducing.factor, half, side=1, lower=1, overwrite_b=1))
        s = float(self._weight * state.noise[0] - self._alpha * state.spare[0])
        if self._alpha == 0.0:
            d_log_noise = -float(np.vdot(adjoint.P, state.gram)) - float(adjoint.u @ b)
        else:
            d_log_noise = s * float(d_noise.sum())
        diagonal = inducing.variance * float((risk.d_variance + self._alpha * d_noise).sum())
        d_lengthscales = contraction.d_log_lengthscales(self.n_lengthscales)
        d_theta = np.concatenate([[contraction.d_log_variance + diagonal], d_lengthscales, [d_log_noise]])
        return d_theta, contraction.d_Z

    def _sweep(
        self,
        state: _State,
        risk: RiskSums,
        adjoint: _Adjoint,
        contraction: KernelContraction,
        d_noise: FloatArray,
        E: WeightedGram,
    ) -> None:
        """Contract the adjoint of K_ZX for alpha > 0. Fill `d_noise`, in Lambda, and E = V diag(d_noise) V'."""
        for rows in blocks(self.n):
            G = self._adjoint_block(state, risk, adjoint, E, d_noise, rows)
            K = state.inducing.cross(state.features[rows], head_of(self._work, G.shape))
            contraction.add(G, state.features[rows], K)

    def _adjoint_block(
        self, state: _State, risk: RiskSums, adjoint: _Adjoint, E: WeightedGram, d_noise: FloatArray, rows: slice
    ) -> FloatArray:
        """Return the adjoint of a block of K_ZX. Fill the block of the adjoint of Lambda and add to E."""
        V, noise = self._first(state, rows), state.noise[rows]
        U = self._second(state, V, rows)
        gv, b, residual = risk.d_variance[rows], state.posterior.mean, risk.mean[rows] - self._y[rows]
        N = np.matmul(adjoint.P, V, out=head_of(self._work, V.shape))
        uV = adjoint.u @ V
        d_noise[rows] = (uV * residual - np.einsum("ij,ij->j", V, N)) / (self._weight * noise**2)
        G = np.multiply(U, 2.0 * gv, out=head_of(self._adjoint, V.shape))
        dtrmm(1.0, state.posterior.inverse_factor, G.T, side=1, lower=1, overwrite_b=1)
        N *= 2.0 / noise
        G += N
        G -= np.multiply(V, 2.0 * (gv + self._alpha * d_noise[rows]), out=N)
        weights = np.stack([-residual / noise, risk.d_mean[rows] - uV / noise])
        add_product(G, np.stack([adjoint.u, b], axis=1), weights)
        E.add(V, d_noise[rows])
        # for small M a product with L^-1 takes two thirds of the solve's time with the same accuracy
        dtrmm(1.0, state.inducing.inverse_factor, G.T, side=1, lower=1, overwrite_b=1)
        return G

    def _sweep_constant_noise(
        self, state: _State, risk: RiskSums, adjoint: _Adjoint, contraction: KernelContraction
    ) -> None:
        """Contract the adjoint of K_ZX for alpha = 0, where the noise does not depend on V.

        It is L^-T [2(S - I) | 2P/s | u | b] [V diag(gv); V; (y - m)/s; gm - u'V/s]: one product per block.
        """
        M, s, inducing = self.n_inducing, float(state.noise[0]), state.inducing
        parts = np.empty((M, 2 * M + 2), order="F")
        np.multiply(adjoint.S - np.eye(M), 2.0, out=parts[:, :M])
        np.multiply(adjoint.P, 2.0 / s, out=parts[:, M : 2 * M])
        parts[:, 2 * M], parts[:, 2 * M + 1] = adjoint.u, state.posterior.mean
        left = dtrsm(1.0, inducing.factor, parts, side=0, lower=1, trans_a=1, overwrite_b=1)
        for rows in blocks(self.n):
            V = self._first(state, rows)
            right = head_of(self._work, (2 * M + 2, V.shape[1]))
            np.multiply(V, risk.d_variance[rows], out=right[:M])
            right[M : 2 * M] = V
            right[2 * M] = (self._y[rows] - risk.mean[rows]) / s
            right[2 * M + 1] = risk.d_mean[rows] - adjoint.u @ V / s
            G = np.matmul(left, right, out=head_of(self._adjoint, V.shape))
            K = inducing.cross(state.features[rows], head_of(self._work, G.shape))
            contraction.add(G, state.features[rows], K)

    def _sweep_covariance_form(
        self, state: _State, form: CovarianceForm, risk: RiskSums, adjoint: _Adjoint, contraction: KernelContraction
    ) -> None:
        """Contract the adjoint of K_ZX for alpha = 0 in the covariance form.

        It is -2 T_K U diag(gv) + (2/s) L^-T P L^-1 K + L^-T u ((y - m)/s)' + L^-T b (gm - u'L^-1 K/s)'.
        """
        s, inducing = float(state.noise[0]), state.inducing
        half = dtrsm(2.0 / s, inducing.factor, adjoint.P, side=0, lower=1, trans_a=1)
        weights = dtrsm(1.0, inducing.factor, half, side=1, lower=1, overwrite_b=1)
        u = inducing.unwhitened_vector(adjoint.u)
        vectors = np.stack([u, form.mean], axis=1)
        for rows in blocks(self.n):
            K = self._first(state, rows)
            U = self._second(state, K, rows)
            G = form.adjoint(U, risk.d_variance[rows], K, weights, head_of(self._adjoint, K.shape))
            residual = self._y[rows] - risk.mean[rows]
            add_product(G, vectors, np.stack([residual / s, risk.d_mean[rows] - u @ K / s]))
            contraction.add(G, state.features[rows], K)


# The objectives of the sparse baselines with analytic gradients: VFE's collapsed bound and FITC's likelihood.
#
# See Titsias 2009, Eq. (9), and Snelson & Ghahramani 2006, Eq. (9). Let V = L^-1 K_ZX, L L' = K_ZZ, b = S V Lambda^-1
# y, S^-1 = I + V Lambda^-1 V' and m = V'b. Both objectives are
#
#     (n ln 2 pi + ln det Lambda + ln det S^-1 + (y - m)'Lambda^-1 (y - m) + b'b) / 2, for VFE + tr(K_XX - V'V)/(2s),
#
# where Lambda = s I for VFE and s I + diag(K_XX - V'V) for FITC. There are two sweeps over the data in blocks: (1) the
# sums that determine S and b, (2) the adjoint of the kernel. The objectives depend on V only through V'V. So the
# adjoint of K_ZZ is -L^-T (V_adj V') L^-1 / 2 with a closed form in the middle. No Cholesky factorisation is
# differentiated.
@dataclass(frozen=True)
class _Parts:
    """Terms in which the two forms differ.

    Attributes:
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

    The buffers, two n x M arrays, are allocated once, so threads must not share an instance. If K_ZZ cannot be
    factorised, a jitter relative to sigma_f^2 is added. It is kept for all later evaluations (`jitter`), so a line
    search has one function. VFE is evaluated on K_ZX itself, without whitening its blocks (`use_covariance_form`). From
    the first time that K_ZZ is too ill-conditioned for this, it is evaluated in the whitened form. At the change both
    forms agree.

    Args:
        rows: indices of the n' rows to evaluate on, None for all. Each row counts w = n/n' times.

    Raises:
        ValueError: if shapes disagree, values are not finite or M < 1.
        UserError: if the form is unknown.
    """

    def __init__(
        self, X: FloatArray, y: FloatArray, ard: bool, form: Form, n_inducing: int, rows: IntArray | None = None
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
        # every block is a contiguous piece of this memory. The system provides memory only when it is written
        self._K = np.zeros(n * n_inducing)
        self._V = np.zeros(n * n_inducing)
        self._work = np.zeros(n_inducing * longest_block(n))
        self._adjoint = np.zeros(n_inducing * longest_block(n))

    @property
    def n(self) -> int:
        return len(self._y)

    def value_and_gradient(self, theta: FloatArray, Z: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the objective in nats and its gradients in theta [T + 1] and in Z [M, D].

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

    def _vfe(self, inducing: InducingKernel, features: FloatArray, s: float, contraction: KernelContraction) -> _Parts:
        """Evaluate Titsias's bound. The blocks are of V, or of K_ZX in the covariance form.

        The adjoint of K_ZX is L^-T [(S - I) V - b (y - m)']/s, with s/w for s if rows count w times.
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
        """Return V V'/s, both triangles, and V y/s: sweep 1 of VFE."""
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

    def _fitc(self, inducing: InducingKernel, features: FloatArray, s: float, contraction: KernelContraction) -> _Parts:
        """Evaluate FITC's likelihood.

        The adjoint of Lambda_i is (1/Lambda_i - h_i)/2 with h_i = (V_i'S V_i + (y_i - m_i)^2)/Lambda_i^2, and that of
        K_ZX is L^-T [(S - I) V Lambda^-1 + V diag(h) - b (y - m)'Lambda^-1]. If rows count w times, Lambda/w and h/w
        replace Lambda and h.
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
        log_determinant = w * (float(np.log(noise).sum()) + self.n * math.log(w)) + _log_determinant(posterior)
        value = 0.5 * (w * self.n * _LOG_2_PI + log_determinant + misfit + float(b @ b))
        middle = np.eye(len(b)) - S - np.outer(b, b) - gram + symmetric(weighted)
        return _Parts(value, d_noise, s * d_noise, middle)

    def _whitened(self, inducing: InducingKernel, rows: slice) -> FloatArray:
        """Fill a block of V from the block of K_ZX and return it."""
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
