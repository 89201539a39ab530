"""Sums and products of stationary kernels in one form: a weighted sum of products of radial factors. No TensorFlow.

Build them from `radial`, `constant` and `white` by + and *. `KernelSum.latent` returns the form for a posterior and its
bounds. It is a plain kernel's name if the expression reduces to one, otherwise a `CompositeKernel`. A product of
squared exponentials is one squared exponential with 1 / l^2 the sum of theirs. A product with white noise is white
noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import UserError, unknown_name
from gpsuite.models.config import KERNEL_NAMES
from gpsuite.models.radial import expanded, kappa_and_slope

SQUARED_EXPONENTIAL = "squared_exponential"
# Lengthscale of an input that a kernel does not use: a distance of 1e100 in it changes no squared distance.
INACTIVE = 2.0**400
# -kappa''(0) of each kernel.
CURVATURES = {SQUARED_EXPONENTIAL: 1.0, "matern32": 3.0, "matern52": 5.0 / 3.0}


@dataclass(frozen=True, order=True)
class Factor:
    """One radial kernel: its name and a lengthscale for each input, infinite for inputs that it does not use."""

    name: str
    lengthscales: tuple[float, ...]

    @property
    def rates(self) -> FloatArray:
        """Return 1 / l^2, [D]."""
        return np.asarray(np.array(self.lengthscales) ** -2.0)


@dataclass(frozen=True)
class KernelSum:
    """sum_t w_t prod_f kappa_f(x, x') + white 1[the same measurement].

    Attributes:
        n_inputs: D.
        terms: (w_t > 0, factors). A constant has no factors.
        white: variance of white noise.
    """

    n_inputs: int
    terms: tuple[tuple[float, tuple[Factor, ...]], ...]
    white: float = 0.0

    @property
    def variance(self) -> float:
        """k(x, x) without white noise."""
        return math.fsum(weight for weight, _ in self.terms)

    @property
    def seen(self) -> IntArray:
        """The inputs that a factor uses, ascending."""
        scales = [each.lengthscales for _, factors in self.terms for each in factors]
        return np.flatnonzero(np.any(np.isfinite(scales), axis=0)) if scales else np.arange(0)

    def over(self, columns: IntArray) -> KernelSum:
        """Return the kernel as a function of only these inputs, in this order. No factor may use another."""
        terms = [
            (weight, tuple(Factor(each.name, tuple(each.lengthscales[j] for j in columns)) for each in factors))
            for weight, factors in self.terms
        ]
        return KernelSum(len(columns), tuple(terms), self.white)

    def __add__(self, other: KernelSum) -> KernelSum:
        """Return the sum. Terms with the same factors are one term."""
        return _collected(self, other, [*self.terms, *other.terms], self.white + other.white)

    def __mul__(self, other: KernelSum) -> KernelSum:
        """Return the product, written as a sum of products."""
        terms = [(a * b, _merged((*f, *g))) for (a, f), (b, g) in product(self.terms, other.terms)]
        white = self.white * (other.variance + other.white) + self.variance * other.white
        return _collected(self, other, terms, white)

    def latent(self) -> LatentKernel:
        """Return the kernel of a latent function in the form that posteriors take.

        White noise is separate: it adds to the variance at a new point, but not to its covariance with the data.

        Raises:
            ValueError: if there is nothing but white noise.
        """
        if not self.terms:
            raise ValueError("a kernel of nothing but white noise has no latent function to bound")
        s, factors = self.variance, self.terms[0][1]
        if len(self.terms) == 1 and len(factors) < 2:
            own = factors[0] if factors else Factor(SQUARED_EXPONENTIAL, (math.inf,) * self.n_inputs)
            return LatentKernel(own.name, s, _finite(np.array(own.lengthscales)), self.white)
        scales = _finite(1.0 / np.sqrt(self._curvature()))
        terms = tuple(
            (weight / s, tuple((each.name, _relative(scales, each.lengthscales)) for each in factors))
            for weight, factors in self.terms
        )
        return LatentKernel(CompositeKernel(terms), s, scales, self.white)

    def _curvature(self) -> FloatArray:
        """Return -d^2 kappa / dx_j^2 at 0, [D], at least the smallest value with a usable root."""
        total = np.zeros(self.n_inputs)
        for weight, factors in self.terms:
            for each in factors:
                total += weight / self.variance * CURVATURES[each.name] * each.rates
        return np.maximum(total, INACTIVE**-2.0)


def radial(
    name: str, lengthscales: npt.ArrayLike, n_inputs: int, active: Sequence[int] | None = None, variance: float = 1.0
) -> KernelSum:
    """Return a kernel of the distance over some inputs.

    Args:
        name: squared_exponential, matern32 or matern52.
        lengthscales: one lengthscale, or one for every active input.
        n_inputs: D.
        active: the inputs that it uses, by default all.
        variance: factor of the kernel.

    Raises:
        UserError: if the kernel is unknown.
        ValueError: if lengthscales, inputs or variance do not fit.
    """
    if name not in KERNEL_NAMES:
        raise unknown_name("kernel", name, KERNEL_NAMES)
    seen = np.arange(n_inputs) if active is None else np.asarray(active, dtype=np.int64)
    if len(np.unique(seen)) != len(seen) or (len(seen) and not 0 <= seen.min() <= seen.max() < n_inputs):
        raise ValueError(f"active inputs {list(seen)}: different numbers from 0 to {n_inputs - 1} are needed")
    full = np.full(n_inputs, math.inf)
    full[seen] = expanded(np.asarray(lengthscales, dtype=np.float64), len(seen))
    return KernelSum(n_inputs, ((_positive(variance), (Factor(name, tuple(full.tolist())),)),))


def constant(value: float, n_inputs: int) -> KernelSum:
    """Return the constant kernel, as a summand or as a factor."""
    return KernelSum(n_inputs, ((_positive(value), ()),))


def white(variance: float, n_inputs: int) -> KernelSum:
    """Return the kernel of white noise, as a summand or as a factor."""
    return KernelSum(n_inputs, (), _positive(variance))


def _positive(value: float) -> float:
    if not (math.isfinite(value) and value > 0.0):
        raise ValueError(f"variance {value}: must be positive and finite")
    return float(value)


def _merged(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """Return the factors with the squared exponentials merged into one."""
    gaussian = [each for each in factors if each.name == SQUARED_EXPONENTIAL]
    if len(gaussian) > 1:
        rates = np.sum([each.rates for each in gaussian], axis=0)
        with np.errstate(divide="ignore"):
            joint = tuple((1.0 / np.sqrt(rates)).tolist())
        gaussian = [Factor(SQUARED_EXPONENTIAL, joint)]
    return tuple(sorted([*gaussian, *(each for each in factors if each.name != SQUARED_EXPONENTIAL)]))


def _collected(
    one: KernelSum, other: KernelSum, terms: Sequence[tuple[float, tuple[Factor, ...]]], white: float
) -> KernelSum:
    if one.n_inputs != other.n_inputs:
        raise ValueError(f"kernels of {one.n_inputs} and {other.n_inputs} inputs")
    weights: dict[tuple[Factor, ...], float] = {}
    for weight, factors in terms:
        weights[factors] = weights.get(factors, 0.0) + weight
    return KernelSum(one.n_inputs, tuple((weight, factors) for factors, weight in weights.items()), white)


def _finite(lengthscales: FloatArray) -> FloatArray:
    return np.minimum(lengthscales, INACTIVE)


def _relative(scales: FloatArray, lengthscales: tuple[float, ...]) -> tuple[float, ...]:
    return tuple((np.square(scales / np.array(lengthscales))).tolist())


@dataclass(frozen=True)
class CompositeKernel:
    """kappa = sum_t w_t prod_f g_f(q_f) with q_f = sum_j a_fj u_j^2, u in the lengthscales of the posterior.

    With these lengthscales -d^2 kappa / du_j^2 = 1 at 0.

    Attributes:
        terms: (w_t, factors as (name, rates a [D])). The weights sum to 1.
    """

    terms: tuple[tuple[float, tuple[tuple[str, tuple[float, ...]], ...]], ...]

    def __str__(self) -> str:
        """Return the kernel as a formula without its numbers."""
        return " + ".join(" * ".join(name for name, _ in factors) or "constant" for _, factors in self.terms)

    @property
    def most_factors(self) -> int:
        """The largest number of factors in a term."""
        return max(len(factors) for _, factors in self.terms)

    @property
    def stretch(self) -> float:
        """Largest factor by which kappa changes faster than a single kernel with the posterior's lengthscales."""
        return sum(weight * math.sqrt(max(rates)) for weight, factors in self.terms for _, rates in factors)

    def term(self, number: int, A: FloatArray, B: FloatArray) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
        """Return the term's w_t kappa_t [I, K] for scaled inputs, and its part of `values_and_slopes`' slopes."""
        weight, factors = self.terms[number]
        parts = []
        for name, rates in factors:
            root = np.sqrt(rates)
            parts.append(kappa_and_slope(name, np.asarray(cdist(A * root, B * root, "sqeuclidean"))))
        value = np.full((len(A), len(B)), weight)
        for own, _ in parts:
            value *= own
        slopes = []
        for place, (_, rates) in enumerate(factors):
            slope = weight * parts[place][1]
            for other, (own, _) in enumerate(parts):
                if other != place:
                    slope = slope * own
            slopes.append((np.array(rates), slope))
        return value, slopes

    def values_and_slopes(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, list[tuple[FloatArray, FloatArray]]]:
        """Return kappa [I, K], and (a, slope) of every factor: dkappa/du_j = - sum a_j slope (u_j - U_j)."""
        found = [self.term(number, A, B) for number in range(len(self.terms))]
        return np.sum([value for value, _ in found], axis=0), [part for _, parts in found for part in parts]


@dataclass(frozen=True)
class LatentKernel:
    """Form of a kernel that a posterior takes: `LatentPosterior(X, kernel, variance, lengthscales, ...)`.

    Attributes:
        kernel: a plain kernel's name, or a composite.
        variance: k(x, x) without white noise.
        lengthscales: [D].
        white: variance of the white noise of the observations, or of the latent function only at new points.
    """

    kernel: str | CompositeKernel
    variance: float
    lengthscales: FloatArray
    white: float


def single_kernel(kernel: str | CompositeKernel, needed_by: str) -> str:
    """Return the name of a single kernel.

    Raises:
        UserError: for a sum or product. The message names the part that needs a single kernel.
    """
    if isinstance(kernel, CompositeKernel):
        raise UserError(f"kernel {kernel}: {needed_by} takes a single kernel only, not a sum or product")
    return kernel
