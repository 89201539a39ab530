"""Exact, distribution-free confidence regions for the coefficients of kernel methods.

Equation: Csáji & Kis 2019, Confidence Regions, Main Theorem
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.perturbation import objectives
from gpsuite.methods.perturbation.bands import Band, NormBall, members_band, pointwise_band
from gpsuite.methods.perturbation.ellipsoid import Ellipsoid, PerturbedQuadratic, outer_ellipsoid
from gpsuite.methods.perturbation.objectives import QuadraticObjective
from gpsuite.methods.perturbation.quadratic import Minimiser, Objective
from gpsuite.methods.perturbation.ranks import Group, Perturbations, RankTest, SignChanges
from gpsuite.methods.perturbation.rays import Members, RayBoundary, bisected_boundary, exact_boundary
from gpsuite.seeds import require_generator

# Covariances [A, B] of inputs [A, D] and [B, D]: a GPflow kernel, or a numpy function.
Kernel = Callable[[FloatArray, FloatArray], Any]
LARGEST = 1e100  # largest coefficient or output: the comparison is between squares of products with the data
SMALLEST = 1e-100  # smallest value of the largest output, for the same reason


@dataclass(frozen=True, eq=False)
class ConfidenceRegion:
    """The coefficients of rank at most m - q: they contain the ideal ones with probability 1 - q/m exactly.

    The probability is over the noise and the perturbations. The group must not change the noise's distribution. Class
    labels do not satisfy this.

    Attributes:
        features: map from inputs [J, D] to rows of Phi [J, p]. None if the design was given as a matrix.

    Raises:
        ValueError: if q is not in 1..m-1, the largest y is beyond `LARGEST` or below `SMALLEST` but not 0, or y or the
            perturbations do not fit the objective.

    Equation: Csáji & Kis 2019, Main Theorem
    """

    objective: Objective
    y: FloatArray
    perturbations: Perturbations
    q: int
    features: Callable[[FloatArray], FloatArray] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "y", self.objective.check_outputs(self.y))
        size = np.abs(self.y).max(initial=0.0)
        if size > LARGEST:
            raise ValueError(f"y must be at most {LARGEST:g} in size: squares of larger outputs overflow")
        if 0.0 < size < SMALLEST:
            raise ValueError(f"y is below {SMALLEST:g} in size: squares vanish. Give it in smaller units")
        if self.perturbations.shape != (self.m - 1, len(self.y)):
            raise ValueError(f"perturbations of shape {self.perturbations.shape} do not fit n={len(self.y)} data")
        objectives.valid_level(self.q, self.m)

    @property
    def m(self) -> int:
        return self.perturbations.m

    @property
    def confidence(self) -> Fraction:
        return Fraction(self.m - self.q, self.m)

    @cached_property
    def fitted(self) -> Minimiser:
        return self.objective.fit(self.y)

    @property
    def estimate(self) -> FloatArray:
        return self.fitted.alpha

    def z_values(self, alphas: npt.ArrayLike) -> FloatArray:
        """Return the weighted gradient norms Z [J, m], Z_0 first, for alphas [J, p].

        Raises:
            ValueError: if alphas are beyond `LARGEST`, not finite or not of length p.
        """
        return self._test.z_values(self._checked(alphas))

    def ranks(self, alphas: npt.ArrayLike) -> IntArray:
        """Return the rank [J], in 1..m, of each of alphas [J, p].

        Raises:
            ValueError: if alphas are beyond `LARGEST`, not finite or not of length p.
        """
        return self._test.ranks(self._checked(alphas))

    def contains(self, alphas: npt.ArrayLike) -> BoolArray:
        """Return which of alphas [J, p] are members, [J].

        Raises:
            ValueError: if alphas are beyond `LARGEST`, not finite or not of length p.
        """
        return np.asarray(self.ranks(alphas) <= self.m - self.q)

    def ellipsoid(self) -> Ellipsoid:
        """Return an ellipsoid around the estimate that contains the region. Its radius may be infinite.

        Raises:
            ValueError: if the objective is not quadratic.
        """
        return outer_ellipsoid(self.quadratic, self.q)

    def boundary(self, directions: npt.ArrayLike, ball: NormBall | None = None) -> RayBoundary:
        """Return the boundary along rays from the estimate: exact for quadratic objectives, otherwise by bisection.

        Raises:
            ValueError: on a direction that is zero or not finite, or if the estimate is outside the ball.
        """
        rays = objectives.finite("directions", directions, 2)
        limits = None if ball is None else ball.steps(self.estimate, rays)
        if isinstance(self.objective, QuadraticObjective):
            return exact_boundary(self.quadratic, self.q, rays, limits)
        return bisected_boundary(self.contains, self.estimate, rays, limits)

    def band(self, x: npt.ArrayLike, members: Members | None = None) -> Band:
        """Return a band of the ideal representation at inputs x [J, D] (or [J]), valid at all inputs at once.

        For quadratic objectives it is the pointwise band, an outer band. With members, or for other objectives, it is
        the range over the members, an inner band. See `gpsuite.methods.perturbation.bands` for other bands.

        Raises:
            ValueError: if the region was given its design as a matrix, or the objective is not quadratic and there
                are no members.
        """
        if self.features is None:
            raise ValueError("a band needs the map from inputs to features: build by confidence_region")
        rows = self.features(_inputs("x", x))
        if members is not None:
            return members_band(members, self.estimate, rows)
        return pointwise_band(self.quadratic, self.q, rows)

    @cached_property
    def quadratic(self) -> PerturbedQuadratic:
        """The region's comparisons as quadratic inequalities. ValueError if the objective is not quadratic."""
        if not isinstance(self.objective, QuadraticObjective):
            raise ValueError(
                f"{type(self.objective).__name__} is not quadratic: it has no ellipsoid, and a band needs members "
                "(boundary, then sample_members)"
            )
        return PerturbedQuadratic.of(self.objective, self.y, self.perturbations)

    @cached_property
    def _test(self) -> RankTest:
        return RankTest(self.objective, self.y, self.perturbations, self.estimate)

    def _checked(self, alphas: npt.ArrayLike) -> FloatArray:
        array = np.asarray(alphas, dtype=np.float64)
        width = self.objective.design.shape[1]
        if array.ndim != 2 or array.shape[1] != width:
            raise ValueError(f"alphas must have shape [J, {width}], got {array.shape}")
        if not np.all(np.abs(array) <= LARGEST):
            raise ValueError(f"alphas must be finite, and at most {LARGEST:g} in size: squares of larger ones overflow")
        return array


@dataclass(frozen=True, eq=False)
class ModelClass:
    """The functions that a region is about: linear functions, or combinations of kernel functions.

    Attributes:
        objective: function that builds the objective, e.g. `partial(KernelRidge, penalty=0.05)`. It takes K (kernel
            models), X (no kernel), or K_xz and K_zz (given centres).
        kernel: covariance function. None for linear models.
        centres: inputs [p, D] of the basis functions of a sparse kernel model.
    """

    objective: Callable[..., Objective]
    kernel: Kernel | None = None
    centres: npt.ArrayLike | None = None


def confidence_region(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    model: ModelClass,
    *,
    q: int,
    m: int,
    rng: np.random.Generator,
    group: Group | None = None,
) -> ConfidenceRegion:
    """Return the region of a model on inputs x [n, D] (or [n]) and outputs y [n].

    Args:
        m: number of compared values, about 100 for stable regions.
        group: sign changes unless given.

    Raises:
        TypeError: if `rng` is a seed.
        ValueError: on q or m out of range, fewer than 2 data, non-finite values, equal inputs of a kernel model, a
            rank-deficient design, or labels other than -1 and +1.
    """
    objectives.valid_level(q, m)
    require_generator(rng)
    X = _inputs("x", x)
    objectives.enough_rows(len(X))
    outputs = objectives.finite("y", y, 1)
    objective, features = _objective(X, model)
    perturbations = (group or SignChanges()).draw(len(outputs), m, rng)
    return ConfidenceRegion(objective, outputs, perturbations, q, features)


def _inputs(name: str, values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    return objectives.finite(name, array[:, None] if array.ndim == 1 else array, 2)


@dataclass(frozen=True, eq=False)
class _Features:
    """The map from inputs to rows of Phi: their kernel values with the basis, or the inputs themselves."""

    inputs: int
    width: int
    kernel: Kernel | None = None
    basis: FloatArray | None = None

    def __call__(self, Z: FloatArray) -> FloatArray:
        """Return rows [J, p] of inputs [J, D], with a leading 1 if the model has a bias."""
        if Z.shape[1] != self.inputs:
            raise ValueError(f"x: inputs [J, {self.inputs}] are needed, got {Z.shape}")
        rows = Z
        if self.kernel is not None and self.basis is not None:
            rows = np.asarray(self.kernel(Z, self.basis), dtype=np.float64)
        return rows if rows.shape[1] == self.width else np.column_stack([np.ones(len(rows)), rows])


def _objective(X: FloatArray, model: ModelClass) -> tuple[Objective, Callable[[FloatArray], FloatArray]]:
    kernel, D = model.kernel, X.shape[1]
    centres = None if model.centres is None else _inputs("centres", model.centres)
    if kernel is None:
        if centres is not None:
            raise ValueError("centres need a kernel")
        linear = model.objective(X)
        return linear, _Features(D, linear.design.shape[1])
    objectives.distinct_rows(X, "inputs")
    if centres is not None:
        objectives.distinct_rows(centres, "centres")
    basis = X if centres is None else centres
    K = np.asarray(kernel(basis, basis), dtype=np.float64)
    across = () if centres is None else (np.asarray(kernel(X, basis), dtype=np.float64),)
    objective = model.objective(*across, K)
    return objective, _Features(D, objective.design.shape[1], kernel, basis)
