"""Small regions of every kind, shared by the tests of the geometry."""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray
from gpsuite.methods.perturbation.ellipsoid import PerturbedQuadratic
from gpsuite.methods.perturbation.nonsmooth import EpsilonSVR, KernelLasso
from gpsuite.methods.perturbation.objectives import Objective, QuadraticObjective
from gpsuite.methods.perturbation.quadratic import KernelRidge, LinearLSSVM, SparseKernelRidge
from gpsuite.methods.perturbation.ranks import Permutations, SignChanges, SignedPermutations
from gpsuite.methods.perturbation.region import ConfidenceRegion

GROUPS = {"signs": SignChanges(), "permutations": Permutations(), "signed": SignedPermutations()}


def gaussian(a: FloatArray, b: FloatArray, lengthscale: float = 0.5) -> FloatArray:
    """Return exp(-(a - b)^2 / (2 l^2)) for inputs on a line."""
    return np.asarray(np.exp(-0.5 * ((a[:, None] - b[None, :]) / lengthscale) ** 2))


def data(seed: int, n: int) -> tuple[FloatArray, FloatArray, np.random.Generator]:
    """Return well separated inputs in [-2, 2], outputs with Laplace noise, and the generator to go on with."""
    rng = np.random.default_rng(seed)
    x = np.linspace(-2.0, 2.0, n) + rng.uniform(-0.5, 0.5, n) / n
    return x, np.sin(2.0 * x) + rng.laplace(scale=0.3, size=n), rng


def quadratic_region(
    seed: int, kind: str = "sparse", group: str = "signs", n: int = 20, m: int = 20, q: int = 2
) -> ConfidenceRegion:
    """Return a region of a quadratic objective; kinds: sparse (4 centres), linear (2 coefficients), kernel (n)."""
    x, y, rng = data(seed, n)
    centres = np.linspace(-2.0, 2.0, 4)
    objective: QuadraticObjective
    if kind == "sparse":
        objective = SparseKernelRidge(gaussian(x, centres), gaussian(centres, centres), 0.01)
    elif kind == "linear":
        objective = LinearLSSVM(np.column_stack([np.sin(2 * x), x]), 1.0, bias=False)
    else:
        objective = KernelRidge(gaussian(x, x, 0.2), 0.05)
    return ConfidenceRegion(objective, y, GROUPS[group].draw(n, m, rng), q)


def nonsmooth_region(seed: int, kind: str, n: int = 12, m: int = 20, q: int = 10) -> ConfidenceRegion:
    """Return a region of support vector regression or of the LASSO."""
    x, y, rng = data(seed, n)
    K = gaussian(x, x, 0.3)
    objective: Objective = EpsilonSVR(K, 10.0, 0.2) if kind == "svr" else KernelLasso(K, 0.15)
    return ConfidenceRegion(objective, y, SignChanges().draw(n, m, rng), q)


def quadratic_of(region: ConfidenceRegion) -> PerturbedQuadratic:
    """Return the region's quadratic."""
    assert isinstance(region.objective, QuadraticObjective)
    return PerturbedQuadratic.of(region.objective, region.y, region.perturbations)


def decisive(region: ConfidenceRegion, alphas: FloatArray, margin: float = 1e-8) -> BoolArray:
    """Return which rows are not within rounding of a comparison."""
    Z = region.z_values(alphas)
    gaps = np.abs(Z[:, 1:] - Z[:, :1]) / np.maximum(Z[:, 1:], Z[:, :1])
    same = region.perturbations.identities
    return np.asarray(np.all((gaps > margin) | same, axis=1))
