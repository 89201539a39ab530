"""Kernels of GPflow and scikit-learn in the form of posteriors. Sums and products become one sum of products."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from gpsuite.arrays import IntArray
from gpsuite.errors import UserError
from gpsuite.models.composite import KernelSum, LatentKernel, constant, radial, white

KNOWN = (
    "certify knows the squared exponential and the Matern kernels 3/2 and 5/2, with or without ARD, constants, white "
    "noise, and their sums and products"
)
FOLDS: dict[str, Callable[[KernelSum, KernelSum], KernelSum]] = {"Sum": operator.add, "Product": operator.mul}
GPFLOW_NAMES = {"SquaredExponential": "squared_exponential", "Matern32": "matern32", "Matern52": "matern52"}
SKLEARN_NAMES = {1.5: "matern32", 2.5: "matern52", np.inf: "squared_exponential"}


def gpflow_kernel(kernel: Any, inputs: int) -> tuple[LatentKernel, IntArray]:
    """Return a GPflow kernel of the inputs that it reads, and the positions of these inputs in the model.

    Raises:
        UserError: if the kernel is unknown. The message names it.
    """
    return _latent(kernel, inputs, _read_gpflow)


def sklearn_kernel(kernel: Any, inputs: int) -> tuple[LatentKernel, IntArray]:
    """Return a scikit-learn kernel and the inputs that it reads. Errors are as in `gpflow_kernel`."""
    return _latent(kernel, inputs, _read_sklearn)


def _latent(kernel: Any, inputs: int, read: Callable[[Any, int], KernelSum]) -> tuple[LatentKernel, IntArray]:
    try:
        found = read(kernel, inputs)
    except ValueError as fault:  # a variance of 0, or an input that is named twice
        raise UserError(f"kernel {type(kernel).__name__}: {fault}") from None
    columns = found.seen
    if not len(columns):
        raise UserError(f"kernel {type(kernel).__name__}: it reads no input; {KNOWN}")
    return found.over(columns).latent(), columns


def _read_gpflow(kernel: Any, inputs: int) -> KernelSum:
    kind = type(kernel).__name__
    if kind in FOLDS:
        return reduce(FOLDS[kind], [_read_gpflow(each, inputs) for each in kernel.kernels])
    if kind in ("White", "Constant"):
        return (white if kind == "White" else constant)(float(kernel.variance.numpy()), inputs)
    if kind not in GPFLOW_NAMES:
        raise UserError(f"kernel {kind}: {KNOWN}")
    active = np.arange(inputs)[kernel.active_dims]
    lengthscales, variance = kernel.lengthscales.numpy(), float(kernel.variance.numpy())
    return radial(GPFLOW_NAMES[kind], lengthscales, inputs, active.tolist(), variance)


def _read_sklearn(kernel: Any, inputs: int) -> KernelSum:
    kind = type(kernel).__name__
    if kind in FOLDS:
        return FOLDS[kind](_read_sklearn(kernel.k1, inputs), _read_sklearn(kernel.k2, inputs))
    if kind == "ConstantKernel":
        return constant(float(kernel.constant_value), inputs)
    if kind == "WhiteKernel":
        return white(float(kernel.noise_level), inputs) if kernel.noise_level else KernelSum(inputs, ())
    if kind == "RBF":
        return radial("squared_exponential", kernel.length_scale, inputs)
    if kind == "Matern" and kernel.nu in SKLEARN_NAMES:
        return radial(SKLEARN_NAMES[kernel.nu], kernel.length_scale, inputs)
    shown = f"Matern(nu={kernel.nu})" if kind == "Matern" else kind
    raise UserError(f"kernel {shown}: {KNOWN}")
