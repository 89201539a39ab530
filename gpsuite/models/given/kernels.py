"""Kernels of GPflow and scikit-learn as s kappa(|(x - x') / l|) plus white noise.

Both libraries build a kernel from leaves by sums and products. A sum of products of leaves is written out; what is left
must be one stationary kernel, times constants, and white noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import UserError
from gpsuite.models.radial import expanded

KNOWN = (
    "certify knows the squared exponential and the Matern kernels 3/2 and 5/2, with or without ARD, times a constant, "
    "plus white noise"
)
WHITE = "white"
GPFLOW_NAMES = {"SquaredExponential": "squared_exponential", "Matern32": "matern32", "Matern52": "matern52"}
SKLEARN_NAMES = {1.5: "matern32", 2.5: "matern52", np.inf: "squared_exponential"}


@dataclass(frozen=True)
class KernelParts:
    """A kernel s kappa(|(x - x') / l|), and the variance of the white noise that is added to it.

    Attributes:
        columns: inputs of the model that it reads, [d].
        lengthscales: of those inputs, [d].
    """

    name: str
    variance: float
    columns: IntArray
    lengthscales: FloatArray
    white: float


@dataclass(frozen=True)
class Leaf:
    """A stationary kernel of variance 1; of white noise and of a constant only the name is used."""

    name: str
    columns: tuple[int, ...] = ()
    lengthscales: tuple[float, ...] = ()


CONSTANT = Leaf("constant")
Term = tuple[float, Leaf]
Reader = Callable[[Any, int], "list[Term] | tuple[str, list[Any]]"]
"""From a kernel and the number of inputs to its only term, or to "sum" or "product" and the kernels in it."""


def gpflow_kernel(kernel: Any, inputs: int) -> KernelParts:
    """Return the parts of a GPflow kernel.

    Raises:
        UserError: naming the kernel, if it is not one of those.
    """
    return _parts(kernel, inputs, _read_gpflow)


def sklearn_kernel(kernel: Any, inputs: int) -> KernelParts:
    """Return the parts of a scikit-learn kernel; errors as `gpflow_kernel`."""
    return _parts(kernel, inputs, _read_sklearn)


def _parts(kernel: Any, inputs: int, read: Reader) -> KernelParts:
    terms = _written_out(kernel, inputs, read)
    white = sum(share for share, leaf in terms if leaf.name == WHITE)
    [(variance, leaf), *others] = [term for term in terms if term[1].name != WHITE] or [(0.0, CONSTANT)]
    if others or leaf == CONSTANT:
        names = " + ".join(each.name for _, each in terms)
        raise UserError(f"kernel {names}: {KNOWN}")
    return KernelParts(leaf.name, variance, np.array(leaf.columns), np.array(leaf.lengthscales), float(white))


def _written_out(kernel: Any, inputs: int, read: Reader) -> list[Term]:
    """Return the terms of a kernel, products multiplied out."""
    found = read(kernel, inputs)
    if isinstance(found, list):
        return found
    how, kernels = found
    parts = [_written_out(each, inputs, read) for each in kernels]
    return [*chain(*parts)] if how == "sum" else [_multiplied(each) for each in product(*parts)]


def _multiplied(terms: Iterable[Term]) -> Term:
    """Return the product of terms; that of a stationary kernel and white noise is white noise."""
    share, kept = 1.0, []
    for factor, leaf in terms:
        share *= factor
        if leaf != CONSTANT:
            kept.append(leaf)
    if any(leaf.name == WHITE for leaf in kept):
        return share, Leaf(WHITE)
    if len(kept) > 1:
        raise UserError(f"kernel {' * '.join(leaf.name for leaf in kept)}: {KNOWN}")
    return share, kept[0] if kept else CONSTANT


def _leaf(name: str, columns: IntArray, lengthscales: Any) -> Leaf:
    found = expanded(np.asarray(lengthscales, dtype=np.float64), len(columns))
    return Leaf(name, tuple(columns.tolist()), tuple(found.tolist()))


def _read_gpflow(kernel: Any, inputs: int) -> list[Term] | tuple[str, list[Any]]:
    kind = type(kernel).__name__
    if kind in ("Sum", "Product"):
        return kind.lower(), list(kernel.kernels)
    if kind in ("White", "Constant"):
        return [(float(kernel.variance.numpy()), Leaf(WHITE) if kind == "White" else CONSTANT)]
    if kind not in GPFLOW_NAMES:
        raise UserError(f"kernel {kind}: {KNOWN}")
    columns = np.arange(inputs)[kernel.active_dims]
    return [(float(kernel.variance.numpy()), _leaf(GPFLOW_NAMES[kind], columns, kernel.lengthscales.numpy()))]


def _read_sklearn(kernel: Any, inputs: int) -> list[Term] | tuple[str, list[Any]]:
    kind, columns = type(kernel).__name__, np.arange(inputs)
    if kind in ("Sum", "Product"):
        return kind.lower(), [kernel.k1, kernel.k2]
    if kind == "ConstantKernel":
        return [(float(kernel.constant_value), CONSTANT)]
    if kind == "WhiteKernel":
        return [(float(kernel.noise_level), Leaf(WHITE))]
    if kind == "RBF":
        return [(1.0, _leaf("squared_exponential", columns, kernel.length_scale))]
    if kind == "Matern" and kernel.nu in SKLEARN_NAMES:
        return [(1.0, _leaf(SKLEARN_NAMES[kernel.nu], columns, kernel.length_scale))]
    shown = f"Matern(nu={kernel.nu})" if kind == "Matern" else kind
    raise UserError(f"kernel {shown}: {KNOWN}")
