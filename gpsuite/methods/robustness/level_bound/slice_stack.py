"""Several latent functions over the same data and free inputs, expanded together.

Centres, offsets, kernels and monomials are those of one function; only the weights of the mean, the reduction and the
numbers that follow from them are each function's own.

Equation: derived, operator form of a posterior
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.level_bound.posterior_products import PosteriorProducts
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice, gram_error, mean_sizes


@dataclass(frozen=True)
class SliceStack(PosteriorSlice):
    """F slices that differ in their posterior only; moments are [F, B], models have rows function by function, F B.

    Attributes:
        alpha: [F, 1, n].
        products: of the first function; those of all are the following.
        norm2: [F, 1].
        floor: as the following, [F, 1], or [F, L] where every line has a slice of its own.
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
        """Return means and variances [F, B] per unit s at points [B, d]; one point of each line if there are lines."""
        k = self._kernel(points)
        reduced = self.reduced(k[:, None])[:, :, 0]
        return self.sums(k, self.alpha), 1.0 - np.einsum("fbn,bn->fb", reduced, k)

    def functions(self, part: slice) -> SliceStack:
        """Return some of the functions."""

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
        products: of every function, their reductions parts of that one array.
    """

    alpha: FloatArray
    reductions: FloatArray
    products: tuple[PosteriorProducts, ...]

    def stack(self, one: PosteriorSlice, unit: FloatArray) -> SliceStack:
        """Return all functions where `one` is the slice of any of them, with relative errors of the data's parts.

        Args:
            one: what depends on the point, the free inputs and the data.
            unit: [n], or [L, n] for lines.
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
    """Put the products of F posteriors together; their own reductions are copied, not kept.

    Args:
        alpha: weights of the means, [F, n].
        products: of each.
    """
    reductions = np.stack([each.reduction for each in products])
    own = tuple(replace(each, reduction=part) for each, part in zip(products, reductions, strict=True))
    return StackedFunctions(alpha, reductions, own)
