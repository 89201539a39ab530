"""The posterior for the bounds. Terms that are the same for all points and free inputs are computed once and kept.

Equation: derived, operator form of a posterior
Equation: derived, rounding of the level bound
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.methods.robustness.operators import (
    OperatorRange,
    Restriction,
    data_unit,
    operator_range,
    restriction,
    squared_norm,
    sum_upwards,
)
from gpsuite.methods.robustness.rounding import (
    SHORT_SUM,
    TAIL,
    UNDERFLOW,
    UNIT,
    dot_product_unit,
    outward_radius,
    spread_unit,
)
from gpsuite.models.composite import CompositeKernel
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.radial import kappa


@dataclass(frozen=True)
class PosteriorProducts:
    """Sigma(x) = s (1 - kappa_x' R kappa_x) with R = -s sum_k c_k F_k F_k', and the norm of the mean.

    Attributes:
        reduction: R, symmetric, [N, N]. Indefinite for some sparse posteriors.
        row_sums: |R| 1, [N].
        root_size: s sum_k |c_k| |F_k|_1^2.
        rank: rows of F.
        norm2: upper bound of |h|^2 = alpha' kappa alpha over all inputs. No restriction has a larger norm.
        operator: range of G for the stored floats.
    """

    reduction: FloatArray
    row_sums: FloatArray
    root_size: float
    rank: int
    norm2: float
    operator: OperatorRange


_KEPT: WeakKeyDictionary[LatentPosterior, PosteriorProducts] = WeakKeyDictionary()


def posterior_products(posterior: LatentPosterior) -> PosteriorProducts:
    """Return the products of a posterior. The first call computes them."""
    known = _KEPT.get(posterior)
    if known is None:
        known = _KEPT[posterior] = compute_products(posterior)
    return known


def compute_products(posterior: LatentPosterior) -> PosteriorProducts:
    """Return the products of a posterior: three products and an eigenvalue of N x N in all."""
    strength = posterior.variance * posterior.weights
    with np.errstate(over="ignore", invalid="ignore"):
        reduction = -(posterior.root.T * strength) @ posterior.root
        reduction = 0.5 * (reduction + reduction.T)
        sizes = np.abs(posterior.root).sum(axis=1)
        root_size = float(np.abs(strength) @ sizes**2)
    scaled = (posterior.X - posterior.X.mean(axis=0)) / posterior.lengthscales
    unit = data_unit(posterior, scaled)
    lost = UNDERFLOW * float(np.count_nonzero(posterior.alpha))
    return PosteriorProducts(
        reduction=reduction,
        row_sums=np.abs(reduction).sum(axis=1),
        root_size=root_size,
        rank=len(posterior.root),
        norm2=squared_norm(posterior.kernel, scaled, posterior.alpha, unit) + lost,
        operator=operator_range(posterior),
    )


# A posterior restricted to the free inputs around a point, with the rounding errors of its moments.
#
# mu(x) = s sum_i alpha_i kappa_i(x) and Sigma(x) = s (1 - kappa_x' R kappa_x). For the squared exponential kernel the
# fixed inputs fold into weights w_i = exp(-(fixed distance)^2 / 2), and kappa is that of only the free inputs. Other
# kernels keep the fixed distances. Offsets are (X - x) / l of the raw inputs: their errors are relative.


# Offsets held at once (8 MB).
_ENTRIES = 1 << 20


@dataclass(frozen=True)
class PosteriorSlice:
    """Mean weights and reduction over d free inputs. Points and boxes are in the units of X.

    Attributes:
        kernel: name of the kernel.
        variance: s.
        dims: free inputs, [d].
        lengthscales: lengthscales of the free inputs, [d].
        X: data of the free inputs, [d, n].
        fixed: squared distance of the data from x0 over the fixed inputs, [n]. Zero if it is folded.
        weight: fold w, [n]. One where nothing is folded.
        alpha: mean weights without the fold, [n].
        products: R and norms of the posterior.
        norm2: upper bound of |h|^2.
        floor: lower bound of the mean anywhere per unit s, zero exactly if no weight is negative.
        ceiling: upper bound, of the same shape.
        mean_error: rounding error of every mean coefficient <h, e_m> of basis values |e_m| <= 1.
        gram_error: rounding error of every covariance coefficient <e_m, (I - G) e_m'>.

    The last four are arrays [B] if every box has its own slice (`explain.lines`). `SliceStack` has a leading axis of
    functions.
    """

    kernel: str | CompositeKernel
    variance: float
    dims: IntArray
    lengthscales: FloatArray
    X: FloatArray
    fixed: FloatArray
    weight: FloatArray
    alpha: FloatArray
    products: PosteriorProducts
    norm2: float | FloatArray
    floor: float | FloatArray
    ceiling: float | FloatArray
    mean_error: float | FloatArray
    gram_error: float | FloatArray

    @property
    def allowance(self) -> float | FloatArray:
        """The nu with G + nu >= 0."""
        return self.products.operator.below

    @property
    def above(self) -> float | FloatArray:
        """An upper bound of G."""
        return self.products.operator.above

    @property
    def bound(self) -> float | FloatArray:
        """An upper bound g of G + nu."""
        return self.above + self.allowance

    def sums(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sums over the data, values [B, ..., n], with weights like `alpha`."""
        return np.asarray(values @ weights)

    def reduced(self, V: FloatArray) -> FloatArray:
        """Return R V for columns V, [B, T, n]."""
        return np.asarray((V.reshape(-1, V.shape[2]) @ self.products.reduction).reshape(V.shape))

    def for_boxes(self, radius: FloatArray) -> tuple[PosteriorSlice, FloatArray]:
        """Return the slice and the radii with one row per row of the models over boxes [B, d]."""
        return self, radius

    def mean_range(self, centre: FloatArray, drop: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bound the mean per unit s over boxes only by norms and signs.

        It uses |mu(x) - mu(c)| <= s |h| sqrt(2 (1 - kappa)), |mu| <= s |h|, and the sums of the weights of one sign.

        Args:
            centre: the mean at the centres per unit s, [B].
            drop: 1 - kappa at the boxes' radii, [B].
        """
        norm = np.sqrt(self.norm2) * (1.0 + TAIL)
        reach = norm * np.sqrt(2.0 * np.minimum(drop, 1.0)) + self.mean_error + SHORT_SUM * np.abs(centre)
        low = np.fmax(centre - reach, np.maximum(-norm, self.floor))
        return low, np.fmin(centre + reach, np.minimum(norm, self.ceiling))

    def offsets(self, points: FloatArray) -> FloatArray:
        """Return (X - x) / l for points [B, d], [B, d, n]."""
        apart = self.X - points[:, :, None]
        apart *= (1.0 / self.lengthscales)[:, None]
        return np.asarray(apart)

    def radius(self, lo: FloatArray, hi: FloatArray, centre: FloatArray) -> FloatArray:
        """Return half-widths in lengthscales, rounded up, of boxes [B, d] around centres inside them."""
        return outward_radius(lo, hi, centre, self.lengthscales)

    def moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance [B] per unit s at points [B, d], off by `mean_error` and `gram_error` at most."""
        rows = max(1, _ENTRIES // self.X.size)
        kernel = [self._kernel(points[start : start + rows]) for start in range(0, max(1, len(points)), rows)]
        k = np.concatenate(kernel)
        return k @ self.alpha, 1.0 - np.einsum("bn,bn->b", k @ self.products.reduction, k)

    def _kernel(self, points: FloatArray) -> FloatArray:
        """Return w_i kappa_i, [B, n]."""
        apart = self.offsets(points)
        q = np.einsum("bjn,bjn->bn", apart, apart) + self.fixed
        assert isinstance(self.kernel, str)
        return np.asarray(kappa(self.kernel, q) * self.weight)

    def with_slice_norm(self) -> PosteriorSlice:
        """Return the slice with the norm of its own restriction. This norm is smaller and takes n^2 exponentials."""
        if float(self.weight.min()) >= 1.0:
            return self
        # Take data relative to one datum: only differences matter.
        scaled = (self.X - self.X[:, :1]).T / self.lengthscales
        n, d = scaled.shape
        unit = dot_product_unit(n, d, -2.0 * np.log(np.maximum(self.weight, UNDERFLOW)))
        unit = spread_unit(unit, d, float(np.max(np.abs(scaled))))
        lost = UNDERFLOW * float(np.count_nonzero(self.alpha))
        norm2 = squared_norm(self.kernel, scaled, self.alpha * self.weight, unit) + lost
        return replace(self, norm2=np.minimum(self.norm2, norm2))


@dataclass(frozen=True)
class FactorSlice:
    """One radial factor over the free inputs: q = fixed + sum_j rates_j D_j^2.

    Attributes:
        name: name of the kernel.
        rates: a of the free inputs, [d].
        fixed: q over the fixed inputs, [n].
    """

    name: str
    rates: FloatArray
    fixed: FloatArray

    def distance(self, offset: FloatArray) -> FloatArray:
        """Return q for offsets D [B, d, n], [B, n]."""
        return np.asarray(np.einsum("j,bjn,bjn->bn", self.rates, offset, offset) + self.fixed)


@dataclass(frozen=True)
class TermSlice:
    """One product of a composite kernel: its weight, its factors, and an upper bound of w alpha' kappa_t alpha."""

    weight: float
    factors: tuple[FactorSlice, ...]
    norm2: float


@dataclass(frozen=True)
class CompositeSlice(PosteriorSlice):
    """A slice whose kernel is a weighted sum of products of radial factors. Nothing is folded.

    Attributes:
        terms: slices of the kernel's terms.
    """

    terms: tuple[TermSlice, ...]

    def with_slice_norm(self) -> PosteriorSlice:
        """Return the slice itself."""
        return self

    def _kernel(self, points: FloatArray) -> FloatArray:
        """Return kappa_i, [B, n]."""
        offset = self.offsets(points)
        total = np.zeros((len(points), len(self.weight)))
        for term in self.terms:
            values = [kappa(each.name, each.distance(offset)) for each in term.factors]
            total += term.weight * np.prod([np.ones(total.shape), *values], axis=0)
        return total


_TERM_NORMS: WeakKeyDictionary[LatentPosterior, list[float]] = WeakKeyDictionary()


def _term_norms(posterior: LatentPosterior, kernel: CompositeKernel) -> list[float]:
    """Return upper bounds of w alpha' kappa_t alpha for every term, computed once."""
    if posterior not in _TERM_NORMS:
        scaled = (posterior.X - posterior.X.mean(axis=0)) / posterior.lengthscales
        unit = data_unit(posterior, scaled)
        alone = [replace(kernel, terms=(term,)) for term in kernel.terms]
        _TERM_NORMS[posterior] = [squared_norm(each, scaled, posterior.alpha, unit) for each in alone]
    return _TERM_NORMS[posterior]


def _composite_slice(
    posterior: LatentPosterior, kernel: CompositeKernel, point: FloatArray, one: PosteriorSlice
) -> CompositeSlice:
    """Return a slice with its kernel's terms over the free inputs."""
    fixed = np.ones(len(point), dtype=bool)
    fixed[one.dims] = False
    apart = np.square((posterior.X[:, fixed] - point[fixed]) / posterior.lengthscales[fixed])
    terms = tuple(
        TermSlice(
            weight,
            tuple(
                FactorSlice(name, np.array(rates)[one.dims], apart @ np.array(rates)[fixed]) for name, rates in factors
            ),
            norm2,
        )
        for (weight, factors), norm2 in zip(kernel.terms, _term_norms(posterior, kernel), strict=True)
    )
    return CompositeSlice(**vars(one), terms=terms)


def posterior_slice(posterior: LatentPosterior, x0: FloatArray, free: IntArray) -> PosteriorSlice:
    """Restrict a posterior to the free inputs around x0.

    Args:
        posterior: N data, D inputs.
        x0: the point that fixes the other inputs, [D].
        free: indices of the free inputs, [d], distinct.

    Raises:
        ValueError: if x0 is not finite or of the wrong length, or the indices are not distinct and in range.
    """
    kept, products = restriction(posterior, x0, free), posterior_products(posterior)
    one = restricted_slice(posterior, kept, products)
    if isinstance(posterior.kernel, CompositeKernel):
        return _composite_slice(posterior, posterior.kernel, kept.point, one)
    return one


def restricted_slice(posterior: LatentPosterior, kept: Restriction, products: PosteriorProducts) -> PosteriorSlice:
    """Return the slice over the free inputs of a restriction of the posterior."""
    return PosteriorSlice(
        kernel=posterior.kernel,
        variance=posterior.variance,
        dims=kept.dims,
        lengthscales=posterior.lengthscales[kept.dims],
        X=np.ascontiguousarray(posterior.X[:, kept.dims].T),
        fixed=kept.fixed,
        weight=kept.weight,
        alpha=posterior.alpha,
        products=products,
        norm2=products.norm2,
        floor=kept.floor,
        ceiling=kept.ceiling,
        mean_error=float(np.abs(posterior.alpha * kept.weight) @ kept.unit) + kept.lost,
        gram_error=float(gram_error(products, kept.weight, kept.unit)),
    )


def mean_sizes(alpha: FloatArray, weight: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return floor, ceiling and error of a mean per unit s, [...], from folds and relative errors [..., n]."""
    lost = UNDERFLOW * float(np.count_nonzero(alpha))
    error = np.einsum("...n,...n->...", np.abs(alpha * weight), unit) + lost
    return -sum_upwards(-alpha, weight, unit), sum_upwards(alpha, weight, unit), np.asarray(error)


def gram_error(products: PosteriorProducts, weight: FloatArray, unit: FloatArray) -> FloatArray:
    """Return the rounding error of V'RV for columns |V_i| <= w_i with errors unit_i w_i, [...] for weights [..., n].

    Cauchy-Schwarz with zeta >= |F dV| bounds the errors of V. |R| bounds those of the two products over the data. The
    rows of F bound those of the product that made R.
    """
    largest = weight.max(axis=-1)
    zeta = np.max(unit * weight, axis=-1) * float(np.sqrt(products.root_size))
    data = 2.0 * (weight.shape[-1] + 8.0) * UNIT * largest * (weight @ products.row_sums)
    root = 2.0 * (products.rank + 8.0) * UNIT * largest**2 * products.root_size
    return np.asarray(2.0 * zeta * float(np.sqrt(products.operator.size)) + zeta**2 + data + root)


SliceT = TypeVar("SliceT", bound=PosteriorSlice)


def take_lines(slices: SliceT, rows: IntArray) -> SliceT:
    """Return the slices of some lines. A line may repeat.

    Args:
        slices: slices of L lines. In arrays that follow from the posterior the lines are the last axis, [..., L].
        rows: numbers of lines.
    """

    def chosen(values: float | FloatArray) -> FloatArray:
        return np.asarray(values)[..., rows]

    return replace(
        slices,
        dims=slices.dims[rows],
        lengthscales=slices.lengthscales[rows],
        X=slices.X[rows],
        fixed=slices.fixed[rows],
        weight=slices.weight[rows],
        floor=chosen(slices.floor),
        ceiling=chosen(slices.ceiling),
        mean_error=chosen(slices.mean_error),
        gram_error=chosen(slices.gram_error),
    )


# Several latent functions over the same data and free inputs, expanded together.
#
# All functions share centres, offsets, kernels and monomials. They differ only in the weights of the mean, the
# reduction and quantities from both.


@dataclass(frozen=True)
class SliceStack(PosteriorSlice):
    """F slices that differ only in their posterior. Moments are [F, B]. Models have F B rows, function by function.

    Attributes:
        alpha: [F, 1, n].
        products: products of the first function. The next attributes hold those of all functions.
        norm2: [F, 1].
        floor: [F, 1], or [F, L] if every line has its slice. So are the next three.
        ceiling: [F, L].
        mean_error: [F, L].
        gram_error: [F, L].
        reductions: R, [F, n, n].
        belows: the nu with G + nu >= 0, [F, 1].
        aboves: upper bounds of G, [F, 1].
    """

    reductions: FloatArray
    belows: FloatArray
    aboves: FloatArray

    @property
    def allowance(self) -> FloatArray:
        """The nu with G + nu >= 0, of every function."""
        return self.belows

    @property
    def above(self) -> FloatArray:
        """An upper bound of G, of every function."""
        return self.aboves

    def sums(self, values: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sums over the data, [F, B, ...]."""
        return np.moveaxis(values @ weights[:, 0].T, -1, 0)

    def reduced(self, V: FloatArray) -> FloatArray:
        """Return R V for columns V [B, T, n], [F, B, T, n]."""
        boxes, columns, n = V.shape
        # one large product: the reductions are symmetric
        every = V.reshape(-1, n) @ self.reductions.reshape(-1, n).T
        return np.asarray(every.reshape(boxes, columns, -1, n).transpose(2, 0, 1, 3))

    def for_boxes(self, radius: FloatArray) -> tuple[PosteriorSlice, FloatArray]:
        """Return constants and radii with one row for each function and box."""
        shape = (len(self.alpha), len(radius))

        def rows(values: float | FloatArray) -> FloatArray:
            return np.broadcast_to(values, shape).ravel()

        own = replace(
            self,
            belows=rows(self.belows),
            aboves=rows(self.aboves),
            norm2=rows(self.norm2),
            floor=rows(self.floor),
            ceiling=rows(self.ceiling),
            mean_error=rows(self.mean_error),
            gram_error=rows(self.gram_error),
        )
        return own, np.tile(radius, (shape[0], 1))

    def moments(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means and variances [F, B] per unit s at points [B, d]. With lines, give one point per line."""
        k = self._kernel(points)
        reduced = self.reduced(k[:, None])[:, :, 0]
        return self.sums(k, self.alpha), 1.0 - np.einsum("fbn,bn->fb", reduced, k)

    def functions(self, part: IntArray) -> SliceStack:
        def chosen(values: float | FloatArray) -> FloatArray:
            return np.asarray(values)[part]

        return replace(
            self,
            alpha=self.alpha[part],
            reductions=self.reductions[part],
            belows=self.belows[part],
            aboves=self.aboves[part],
            norm2=chosen(self.norm2),
            floor=chosen(self.floor),
            ceiling=chosen(self.ceiling),
            mean_error=chosen(self.mean_error),
            gram_error=chosen(self.gram_error),
        )


@dataclass(frozen=True, eq=False)
class StackedFunctions:
    """Mean weights and products of F posteriors over the same data with the same kernel.

    Attributes:
        alpha: [F, n].
        reductions: R, [F, n, n].
        products: products of every function. Their reductions are views of `reductions`.
    """

    alpha: FloatArray
    reductions: FloatArray
    products: tuple[PosteriorProducts, ...]

    def stack(self, one: PosteriorSlice, unit: FloatArray) -> SliceStack:
        """Return the slices of all functions from the slice `one` of any function.

        Args:
            one: slice with the parts that depend on the point, the free inputs and the data.
            unit: relative errors of the data's parts, [n], or [L, n] for lines.
        """

        def column(values: list[float]) -> FloatArray:
            return np.array(values)[:, None]

        operators = [each.operator for each in self.products]
        sizes = [np.stack(mean_sizes(alpha, one.weight, unit)) for alpha in self.alpha]
        errors = [gram_error(products, one.weight, unit) for products in self.products]
        floor, ceiling, mean_error = np.reshape(np.stack(sizes, axis=1), (3, len(self.alpha), -1))
        return SliceStack(
            kernel=one.kernel,
            variance=one.variance,
            dims=one.dims,
            lengthscales=one.lengthscales,
            X=one.X,
            fixed=one.fixed,
            weight=one.weight,
            alpha=self.alpha[:, None],
            products=self.products[0],
            norm2=column([each.norm2 for each in self.products]),
            floor=floor,
            ceiling=ceiling,
            mean_error=mean_error,
            gram_error=np.reshape(errors, (len(self.alpha), -1)),
            reductions=self.reductions,
            belows=column([each.below for each in operators]),
            aboves=column([each.above for each in operators]),
        )


def stacked_functions(alpha: FloatArray, products: Sequence[PosteriorProducts]) -> StackedFunctions:
    """Return the products of F posteriors together. Their reductions are copied, not shared.

    Args:
        alpha: weights of the means, [F, n].
        products: products of each posterior.
    """
    reductions = np.stack([each.reduction for each in products])
    own = tuple(replace(each, reduction=part) for each, part in zip(products, reductions, strict=True))
    return StackedFunctions(alpha, reductions, own)
