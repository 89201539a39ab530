"""Free-form sparse posteriors: the search includes the Gaussian of the inducing variables. It need not be FITC or VFE.

The posterior N(a, B) of Eq. 9 of Reeb et al. 2018 holds for any mean a and covariance B of the inducing variables. Both
are kept whitened: a = L m and B = L T T' L' with L L' = K_ZZ. So the prior is N(0, I).

Equation: Reeb et al. 2018, Eq. (9), Eq. (10)
Equation: derived, free-form posterior
Equation: Reeb et al. 2018, Sec. 3.2
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg.blas import dtrmm, dtrsm

from gpsuite.arrays import FloatArray
from gpsuite.certificates.risk import FREE_FORM, Predictor
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL, check_logarithms, checked_data, gibbs_risk, predictor_of
from gpsuite.methods.pac_bayes.problem import RiskProblem, Search, TrainedGP
from gpsuite.methods.pac_bayes.sparse.algebra import (
    LARGEST_SLACK,
    BlockArray,
    InducingKernel,
    KernelContraction,
    RiskSums,
    Slopes,
    WhitenedPosterior,
    add_product,
    blocks,
    checked_inducing,
    free_form_slack,
    head_of,
    longest_block,
    not_positive_definite,
    squared_norms,
    stores,
    sum_risk,
)
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.models.config import Hyperparameters
from gpsuite.models.linalg import NotPositiveDefiniteError

# Largest |ln T_jj|: keeps T regular and finite.
_LARGEST_LOG = 50.0


@dataclass(frozen=True)
class WhitenedGaussian:
    """N(m, T T') of the whitened inducing variables with prior N(0, I).

    Raises:
        ValueError: if the shapes disagree or the factor is not lower triangular.
    """

    mean: FloatArray
    factor: FloatArray

    def __post_init__(self) -> None:
        M = len(self.mean)
        if self.mean.shape != (M,) or self.factor.shape != (M, M):
            raise ValueError(f"need m [M] and T [M, M], got {self.mean.shape} and {self.factor.shape}")
        if np.any(np.triu(self.factor, 1)):
            raise ValueError("the factor T must be lower triangular")

    @classmethod
    def of(cls, posterior: WhitenedPosterior) -> WhitenedGaussian:
        # S = L_B^-T L_B^-1 = R'R with the triangular factor R of L_B^-1 = QR. S itself is not formed
        upper = np.asarray(np.linalg.qr(posterior.inverse_factor, mode="r"))
        return cls(posterior.mean, np.tril(upper.T * np.sign(np.diagonal(upper))))

    @property
    def kl(self) -> float:
        """KL from the prior: (|T|^2 - M + m'm)/2 - sum ln |T_jj|, in nats.

        Raises:
            NotPositiveDefiniteError: if it is not finite.
        """
        T, m = self.factor, self.mean
        with np.errstate(divide="ignore"):
            log_determinant = float(np.log(np.abs(np.diagonal(T))).sum())
        kl = 0.5 * (float(np.vdot(T, T)) - len(m) + float(m @ m)) - log_determinant
        if not math.isfinite(kl):
            raise NotPositiveDefiniteError(f"the KL of the free-form posterior is {kl}")
        return max(kl, 0.0)  # rounding can leave a KL one ulp below 0

    def half_variance(self, V: FloatArray, out: FloatArray) -> FloatArray:
        out[...] = V
        dtrmm(1.0, self.factor, out.T, side=1, lower=1, overwrite_b=1)
        return out

    def moments(self, V: FloatArray, variance: float, work: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance at the points of a block of V [M, rows], [rows] each."""
        spare = np.maximum(variance - squared_norms(V), 0.0)
        return V.T @ self.mean, spare + squared_norms(self.half_variance(V, work))


@dataclass(frozen=True)
class FreeFormGradient:
    """Derivatives in ln(variance, lengthscales) [T], Z [M, D], the whitened mean [M] and the lower triangle of T."""

    d_theta: FloatArray
    d_Z: FloatArray
    d_mean: FloatArray
    d_factor: FloatArray


class FreeFormObjective:
    """The bound of a free-form sparse posterior and its gradient in everything that determines it.

    There is no noise parameter: Gibbs risk and KL do not depend on noise. Buffers and jitter are as in
    `SparseGPObjective`, with one n x M array.

    Raises:
        ValueError: if M < 1.
    """

    def __init__(self, problem: RiskProblem, n_inducing: int, store: bool | None = None) -> None:
        if n_inducing < 1:
            raise ValueError(f"n_inducing must be at least 1, got {n_inducing}")
        self._X, self._y, n = problem.X, problem.y, len(problem.y)
        self._loss, self._bound, self.n_lengthscales = problem.loss, problem.bound, problem.n_lengthscales
        self.n_inducing = n_inducing
        self.jitter = 0.0
        self._V = BlockArray(n, n_inducing, stores(n, n_inducing, 1) if store is None else store)
        self._work, self._adjoint = np.zeros((2, n_inducing * longest_block(n)))

    def value_and_gradient(
        self, theta: FloatArray, Z: FloatArray, gaussian: WhitenedGaussian
    ) -> tuple[float, FreeFormGradient, RiskAndKL]:
        """Return the bound, its gradient, and the risk and KL behind it.

        Raises:
            ValueError: if a shape is wrong or Z is not finite.
            NotPositiveDefiniteError: if K_ZZ cannot be factorised even with jitter, or the KL is not finite.
        """
        check_logarithms(theta, self.n_lengthscales + 1)
        Z = checked_inducing(Z, self._X.shape[1])
        if not len(Z) == len(gaussian.mean) == self.n_inducing:
            raise ValueError(f"expected M = {self.n_inducing}, got {len(Z)} and {len(gaussian.mean)}")
        kl = gaussian.kl
        inducing = next(_whitenings(Z, np.append(theta, 0.0), self.jitter))
        self.jitter = inducing.jitter
        features = inducing.features(self._X)
        unscaled = self._risk(inducing, features, gaussian)
        risk = float(unscaled.loss.mean())
        value, d_risk, d_kl = self._bound.value_and_gradient(risk, kl)
        scaled = unscaled.scaled(d_risk / len(self._y))
        return value, self._gradient(inducing, features, gaussian, scaled, d_kl), RiskAndKL(risk, kl)

    def _risk(self, inducing: InducingKernel, features: FloatArray, gaussian: WhitenedGaussian) -> RiskSums:
        def moments(V: FloatArray, rows: slice) -> tuple[FloatArray, FloatArray]:
            return gaussian.moments(V, inducing.variance, head_of(self._work, V.shape))

        whitened = partial(self._whitened, inducing, features)
        return sum_risk(self._loss, self._y, self.n_inducing, whitened, moments)

    def _whitened(self, inducing: InducingKernel, features: FloatArray, rows: slice) -> FloatArray:
        return inducing.whitened(features[rows], self._V.block(rows))

    def _gradient(
        self, inducing: InducingKernel, features: FloatArray, gaussian: WhitenedGaussian, risk: RiskSums, d_kl: float
    ) -> FreeFormGradient:
        """Return the gradient, the second sweep: contract the adjoints of K_ZX, K_ZZ, m and T.

        V depends on K_ZZ only through L. So the adjoint of K_ZZ is L^-T (Phi + Phi') L^-1 / 2. Phi is the lower
        triangle, with halved diagonal, of -(m (V gm)' + 2 (T T' - I) C).
        """
        T, m = gaussian.factor, gaussian.mean
        excess = T @ T.T - np.eye(len(m))
        contraction = KernelContraction(inducing)
        self._sweep(inducing, features, m, excess, risk, contraction)
        phi = -np.tril(np.outer(m, risk.V_d_mean) + 2.0 * (excess @ risk.C))
        phi[np.diag_indices_from(phi)] *= 0.5
        contraction.add_prior(0.5 * inducing.unwhitened_matrix(phi + phi.T))
        d_variance = contraction.d_log_variance + inducing.variance * float(risk.d_variance.sum())
        d_factor = np.tril(2.0 * (risk.C @ T) + d_kl * T) - np.diag(d_kl / np.diagonal(T))
        d_theta = np.append(d_variance, contraction.d_log_lengthscales(self.n_lengthscales))
        return FreeFormGradient(d_theta, contraction.d_Z, risk.V_d_mean + d_kl * m, d_factor)

    def _sweep(
        self,
        inducing: InducingKernel,
        features: FloatArray,
        m: FloatArray,
        excess: FloatArray,
        risk: RiskSums,
        contraction: KernelContraction,
    ) -> None:
        """Contract the adjoint of K_ZX: 2 L^-T (T T' - I) V diag(gv) + L^-T m gm'."""
        left = dtrsm(2.0, inducing.factor, excess, side=0, lower=1, trans_a=1)
        unwhitened_m = inducing.unwhitened_vector(m)[:, None]
        for rows in blocks(len(self._y)):
            V = self._V.block(rows) if self._V.stored else self._whitened(inducing, features, rows)
            work = np.multiply(V, risk.d_variance[rows], out=head_of(self._work, V.shape))
            G = np.matmul(left, work, out=head_of(self._adjoint, V.shape))
            add_product(G, unwhitened_m, risk.d_mean[None, rows])
            contraction.add(G, features[rows], inducing.cross(features[rows], work))


@dataclass(frozen=True)
class FreeFormPosterior:
    """A free-form posterior of M inducing variables, carried to functions by the prior. Build it with `carry`.

    Attributes:
        hyperparameters: the prior's hyperparameters. Only the predictive density uses the noise variance.
        kl: KL(Q||P) in nats, of the inducing variables and hence on functions.
        inducing: K_ZZ and its factor. Its `jitter` is 0 unless K_ZZ is numerically singular.
    """

    hyperparameters: Hyperparameters
    X: FloatArray
    y: FloatArray
    Z: FloatArray
    kl: float
    train_mean: FloatArray
    train_variance: FloatArray
    inducing: InducingKernel
    gaussian: WhitenedGaussian

    @classmethod
    def carry(
        cls,
        hyperparameters: Hyperparameters,
        X: FloatArray,
        y: FloatArray,
        Z: FloatArray,
        gaussian: WhitenedGaussian,
        jitter: float = 0.0,
    ) -> FreeFormPosterior:
        """Return a posterior of the whitened inducing variables, carried to the training points in O(N M^2) time.

        Any hyperparameters can carry the same whitened posterior. A certificate uses rounded ones.

        Args:
            jitter: least multiple of sigma_f^2 on the diagonal of K_ZZ. The meaning of the whitened variables depends
                on it, so it should be the jitter of training.

        Raises:
            ValueError: if shapes disagree or values are not finite.
            NotPositiveDefiniteError: if K_ZZ cannot be factorised even with jitter, or the KL is not finite.
        """
        X, y = checked_data(X, y)
        Z = checked_inducing(Z, X.shape[1])
        if len(hyperparameters.lengthscales) not in (1, X.shape[1]):
            raise ValueError(f"{len(hyperparameters.lengthscales)} lengthscales for {X.shape[1]} inputs")
        if len(Z) != len(gaussian.mean):
            raise ValueError(f"{len(Z)} inducing inputs for {len(gaussian.mean)} inducing variables")
        usable = _whitenings(Z, hyperparameters.to_log(), jitter)
        inducing = next(each for each in usable if not each.explains_too_much(X))
        mean, variance = _predict(inducing, gaussian, X)
        return cls(hyperparameters, X, y, Z, gaussian.kl, mean, variance, inducing, gaussian)

    @property
    def predictor(self) -> Predictor:
        """Description of the posterior in a certificate."""
        return predictor_of(
            FREE_FORM,
            self.hyperparameters,
            jitter=self.inducing.jitter,
            inducing_inputs=self.Z,
            whitened_mean=self.gaussian.mean,
            whitened_factor=self.gaussian.factor,
        )

    def predict(self, Xnew: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean [N'] and latent variance [N'] at new inputs [N', D]. No observation noise added."""
        return _predict(self.inducing, self.gaussian, np.asarray(Xnew, dtype=np.float64))

    def gibbs_risk(self, loss: Loss) -> float:
        return gibbs_risk(self, loss)

    def rounding(self, loss: Loss) -> RiskAndKL:
        """Return the largest changes of the Gibbs risk of a loss and of the KL by rounding of K_ZZ, to first order."""
        slopes = Slopes.of_risk(loss, self.y, self.train_mean, self.train_variance)
        risk = free_form_slack(self.inducing, self.gaussian.mean, self.gaussian.factor, self.X, slopes)
        return RiskAndKL(risk, self.inducing.entry_error * (1.0 + self.kl))


def _whitenings(Z: FloatArray, theta: FloatArray, least_jitter: float) -> Iterator[InducingKernel]:
    """Yield the factorisations of K_ZZ with a well determined L: the meaning of m and T depends on L itself.

    Raises:
        NotPositiveDefiniteError: after the last one.
    """
    for inducing in InducingKernel.factorisations(Z, theta, least_jitter):
        if inducing.whitening_error <= LARGEST_SLACK:
            yield inducing
    raise not_positive_definite()


def _predict(inducing: InducingKernel, gaussian: WhitenedGaussian, X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return V'm and sigma_f^2 - |V_i|^2 + |T'V_i|^2, [N] each, block by block."""
    mean, variance = np.empty(len(X)), np.empty(len(X))
    for rows in blocks(len(X)):
        V, work = np.empty((2, len(inducing.scaled), rows.stop - rows.start))
        inducing.whitened(inducing.features(X[rows]), V)
        mean[rows], variance[rows] = gaussian.moments(V, inducing.variance, work)
    return mean, variance


@dataclass(frozen=True)
class TrainedFreeForm:
    """A prior and a posterior of its inducing variables, found by minimising a bound.

    Attributes:
        gp: the hyperparameters and a report of the search. The noise variance is that of the start.
        jitter: multiple of sigma_f^2 on the diagonal of K_ZZ at the end of the search, 0 if none.
    """

    gp: TrainedGP
    Z: FloatArray
    gaussian: WhitenedGaussian
    jitter: float


def train_free_form(problem: RiskProblem, Z: FloatArray, alpha: float, search: Search) -> TrainedFreeForm:
    """Minimise the bound of a free-form posterior over kernel hyperparameters, inducing inputs and the posterior.

    L-BFGS-B starts from the posterior of `SparseGPPosterior`. There the bound equals that of `SparseGPObjective`, so
    the result is never above it. Variance and lengthscales stay in the box [e^-6, e^6] of the grid. Afterwards they are
    rounded (`gp.rounded`). The whitened posterior does not change.

    Args:
        alpha: kind of the first posterior: 1 is FITC, 0 is VFE.
        search: limits, and the start, such as the result of `train_sparse_gp`. Its noise variance only shapes the
            first posterior.

    Raises:
        ValueError: if shapes disagree, Z is not finite, alpha is out of range, or `search.start` has the wrong number
            of lengthscales.
        UserError: if the parametrisation is unknown.
        NotPositiveDefiniteError: if K_ZZ cannot be factorised at the start even with jitter.
    """
    bound = FreeFormObjective(problem, len(Z))
    first = search.first(problem.n_lengthscales)
    posterior = SparseGPPosterior.fit(first, problem.X, problem.y, Z, alpha)
    bound.jitter = posterior.inducing.jitter
    point = _Point(search, first.n_kernel, posterior.Z.shape)
    jitters: dict[float, float] = {}  # by value: a later, worse trial may need a larger jitter

    def value_and_gradient(u: FloatArray) -> tuple[float, FloatArray]:
        theta, slope, inputs, gaussian = point.unpack(u)
        value, gradient, _ = bound.value_and_gradient(theta, inputs, gaussian)
        jitters.setdefault(value, bound.jitter)
        return value, point.packed_gradient(gradient, slope, gaussian)

    begin = point.pack(first.to_log()[:-1], posterior.Z, WhitenedGaussian.of(posterior.whitened))
    found = search.run(value_and_gradient, begin, point.limits())
    theta, _, inputs, gaussian = point.unpack(found.point)
    gp = TrainedGP.at(np.append(theta, math.log(first.noise_variance)), found)
    return TrainedFreeForm(gp, inputs, gaussian, jitters.get(found.loss, bound.jitter))


class _Point:
    """The search variables: u of the hyperparameters, Z, m and the lower triangle of T with ln T_jj as diagonal."""

    def __init__(self, search: Search, n_kernel: int, shape: tuple[int, ...]) -> None:
        self._search, self._n_kernel, self._shape = search, n_kernel, shape
        self._variables = search.variables
        self._rows, self._columns = np.tril_indices(shape[0])
        self._diagonal = np.flatnonzero(self._rows == self._columns)
        self._ends = np.cumsum([n_kernel, math.prod(shape), shape[0]])

    def pack(self, theta: FloatArray, Z: FloatArray, gaussian: WhitenedGaussian) -> FloatArray:
        """Return the variables at theta [T], Z and a posterior with a positive diagonal of T."""
        triangle = gaussian.factor[self._rows, self._columns]
        triangle[self._diagonal] = np.log(triangle[self._diagonal])
        return np.concatenate([self._variables.from_log(theta), Z.ravel(), gaussian.mean, triangle])

    def limits(self) -> list[tuple[float, float]]:
        kernel = self._search.limits(self._n_kernel)[:-1]
        triangle = np.full(len(self._rows), math.inf)
        triangle[self._diagonal] = _LARGEST_LOG
        free = [(-math.inf, math.inf)] * (math.prod(self._shape) + self._shape[0])
        return kernel + free + [(-float(limit), float(limit)) for limit in triangle]

    def unpack(self, u: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, WhitenedGaussian]:
        kernel, inputs, mean, triangle = np.split(u, self._ends)
        theta, slope = self._variables.to_log(kernel)
        factor = np.zeros((len(mean), len(mean)))
        factor[self._rows, self._columns] = triangle
        factor[np.diag_indices_from(factor)] = np.exp(triangle[self._diagonal])
        return theta, slope, inputs.reshape(self._shape), WhitenedGaussian(mean, factor)

    def packed_gradient(self, gradient: FreeFormGradient, slope: FloatArray, gaussian: WhitenedGaussian) -> FloatArray:
        """Return the derivatives in the variables. `slope` is the derivative of theta in u."""
        triangle = gradient.d_factor[self._rows, self._columns]
        triangle[self._diagonal] *= np.diagonal(gaussian.factor)
        return np.concatenate([gradient.d_theta * slope, gradient.d_Z.ravel(), gradient.d_mean, triangle])
