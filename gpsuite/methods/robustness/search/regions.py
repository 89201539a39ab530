"""Regions of inputs: boxes, and L1 and L2 balls cut by a box, over chosen free inputs.

A region is `{x : lower <= x_F <= upper, |x_F - centre_F|_q <= radius, x_j = centre_j for j not in F}`, F the free
inputs. A plain box has no ball. The stored floats define the region: `lower` and `upper` are `centre -+ radius`,
rounded to the nearest float and clipped to the domain.

Equation: derived, L1 and L2 balls
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.errors import UserError
from gpsuite.methods.robustness.operators import OperatorForm
from gpsuite.methods.robustness.rounding import outward_radius

Domain = tuple[npt.ArrayLike, npt.ArrayLike]

UNIT = 2.0**-53  # relative rounding error of one operation
FAR = 2.0**400  # radii: points farther from a ball's centre count as this far, so squares stay finite
BISECTIONS = 100
NORMS = ("box", "l1", "l2")


@dataclass(frozen=True)
class Region:
    """A set of inputs around a point. Arrays are over the free inputs unless stated.

    Attributes:
        centre: [D] the point, all inputs.
        free: [d] indices of the inputs that may move, increasing.
        lower: [d] lower ends of the box.
        upper: [d] upper ends of the box.
        norm: "box" (no ball), "l1" or "l2".
        radius: the ball's radius, infinite for a box.

    Raises:
        ValueError: if the norm is unknown, the box is not finite or does not hold the centre, or a ball has no radius.
    """

    centre: FloatArray
    free: IntArray
    lower: FloatArray
    upper: FloatArray
    norm: str = "box"
    radius: float = np.inf

    def __post_init__(self) -> None:
        ball = bool(np.isfinite(self.radius))
        if self.norm not in NORMS or ball == (self.norm == "box") or not self.radius >= 0.0:
            raise ValueError(f"norm {self.norm!r}, radius {self.radius}: a box, or an l1 or l2 ball of a radius")
        ends = np.array([self.lower, self.start, self.upper])
        if not (np.isfinite(ends).all() and (np.diff(ends, axis=0) >= 0.0).all()):
            raise ValueError("the box must be finite and hold the centre: lower <= centre <= upper")

    @property
    def start(self) -> FloatArray:
        """The centre's free inputs [d]. They are in the region."""
        return self.centre[self.free]

    def root_box(self) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends [d] of the smallest known box around the region."""
        lo, hi, _ = self.contract(self.lower[None], self.upper[None])
        return lo[0], hi[0]

    def embed(self, points: FloatArray) -> FloatArray:
        """Return full inputs [..., D] with the free ones replaced by `points` [..., d]."""
        full = np.broadcast_to(self.centre, (*points.shape[:-1], len(self.centre))).copy()
        full[..., self.free] = points
        return full

    def contains(self, points: FloatArray) -> BoolArray:
        """Return which of `points` [B, d] are surely in the region. Within rounding of a ball's rim they are not."""
        inside: BoolArray = np.all((points >= self.lower) & (points <= self.upper), axis=-1)
        return inside if self.norm == "box" else inside & self._inner(points)

    def project(self, points: FloatArray) -> FloatArray:
        """Return the nearest points [B, d] of the region in the Euclidean norm.

        For a ball the multiplier of its constraint is found by bisection, from the feasible side. The radius is a few
        roundings smaller, so the points are in the ball also in exact arithmetic.
        """
        clipped = np.clip(points, self.lower, self.upper)
        if self.norm == "box":
            return clipped
        outside = ~self._inner(clipped)
        if np.any(outside):
            clipped[outside] = self._project_to_ball(points[outside])
        return clipped

    def contract(self, lo: FloatArray, hi: FloatArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Shrink boxes [B, d] to their part in a ball, rounded outwards. Without a ball they do not change.

        With `gap_j` the distance of the centre from the box's side j, points of the ball in the box satisfy
        `|x_j - x0_j| <= radius - sum_{k != j} gap_k` (L1), `<= sqrt(radius^2 - sum_{k != j} gap_k^2)` (L2).

        Returns:
            lower ends, upper ends, and which boxes may have points of the region.
        """
        if self.norm == "box":
            return lo, hi, np.ones(len(lo), dtype=bool)
        x0, power = self.start, 1 if self.norm == "l1" else 2
        unit = self._unit
        gap = np.maximum(0.0, np.maximum(lo - x0, x0 - hi)) / unit
        gap = np.minimum(gap, FAR) ** 2.0 if self.norm == "l2" else gap
        total, limit = np.sum(gap, axis=1, keepdims=True), (self.radius / unit) ** power
        slack = 8 * (len(x0) + 4) * UNIT * (limit + total)
        meets: BoolArray = (total <= limit + slack)[:, 0]
        reach = unit * np.maximum(0.0, limit - (total - gap) + 2 * slack) ** (1 / power)
        reach += 8 * UNIT * (reach + np.abs(x0))
        low, high = np.maximum(lo, x0 - reach), np.minimum(hi, x0 + reach)
        kept = (low <= high).all(axis=1, keepdims=True)
        return np.where(kept, low, lo), np.where(kept, high, hi), meets

    @property
    def _unit(self) -> float:
        """The power of two next to an L2 ball's radius. Squares of lengths up to `FAR` of it do not underflow."""
        return float(2.0 ** np.frexp(self.radius)[1]) if self.norm == "l2" and self.radius > 0.0 else 1.0

    def _inner(self, points: FloatArray) -> BoolArray:
        unit = self._unit
        distance = np.abs(points - self.start) / unit
        size = np.sum(distance, -1) if self.norm == "l1" else np.sqrt(np.sum(np.minimum(distance, FAR) ** 2, -1))
        inside: BoolArray = size <= self.radius / unit * (1 - 8 * (len(self.free) + 2) * UNIT)
        return inside

    def _project_to_ball(self, points: FloatArray) -> FloatArray:
        step = points - self.start
        low = np.zeros((len(points), 1))
        largest = np.max(np.abs(step), axis=1, keepdims=True)
        # at `high` the L1 step is zero, and the L2 step is at most the radius
        tiny = np.finfo(np.float64).tiny
        high = largest if self.norm == "l1" else 2 * np.sqrt(step.shape[1]) * largest / max(self.radius, tiny)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            inside = self._inner(self._shrunk(step, middle))[:, None]
            low, high = np.where(inside, low, middle), np.where(inside, middle, high)
        nearest = self._shrunk(step, high)
        return np.where(self._inner(nearest)[:, None], nearest, self.start)

    def _shrunk(self, step: FloatArray, multiplier: FloatArray) -> FloatArray:
        if self.norm == "l1":
            moved = np.sign(step) * np.maximum(np.abs(step) - multiplier, 0.0)
        else:
            moved = step / (1.0 + multiplier)
        inside: FloatArray = np.clip(self.start + moved, self.lower, self.upper)
        return inside


def box(centre: npt.ArrayLike, radii: npt.ArrayLike, domain: Domain | None = None) -> Region:
    """Build the box `centre -+ radii`, one radius per input. Inputs of radius zero are fixed.

    Args:
        centre: [D] the point.
        radii: [D], or one number for all inputs.
        domain: lower and upper ends of every input ([D] or numbers) to which the box is clipped.

    Raises:
        UserError: for a negative or non-finite radius, or a centre outside the domain.
    """
    point = _point(centre)
    sizes = _radii(radii, len(point))
    return interval_box(point, point - sizes, point + sizes, domain)


def interval_box(
    centre: npt.ArrayLike, lower: npt.ArrayLike, upper: npt.ArrayLike, domain: Domain | None = None
) -> Region:
    """Build the box `[lower, upper]` ([D] each) around a point in it. One-sided intervals are such boxes.

    Raises:
        UserError: if the point is outside the box or the domain.
    """
    point = _point(centre)
    low, high = (np.broadcast_to(np.asarray(end, dtype=float), point.shape) for end in (lower, upper))
    if not np.all((low <= point) & (point <= high)):
        raise UserError("region: the point must lie between lower and upper ends")
    free = np.flatnonzero(high > low)
    if not len(free):
        free = np.arange(1)  # a single point: one free input of zero width
    return _clipped(point, free, low[free], high[free], domain)


def linf_ball(
    centre: npt.ArrayLike, radius: float, free: Sequence[int] | None = None, domain: Domain | None = None
) -> Region:
    """Build the L-infinity ball over the free inputs (default: all).

    Raises:
        UserError: for a negative radius, an input that does not exist, or a centre outside the domain.
    """
    point = _point(centre)
    chosen, size = _free(free, len(point)), _radius(radius)
    return _clipped(point, chosen, point[chosen] - size, point[chosen] + size, domain)


def l2_ball(
    centre: npt.ArrayLike, radius: float, free: Sequence[int] | None = None, domain: Domain | None = None
) -> Region:
    """Build the Euclidean ball over the free inputs (default: all). Errors as `linf_ball`."""
    return _ball("l2", centre, radius, free, domain)


def l1_ball(
    centre: npt.ArrayLike, radius: float, free: Sequence[int] | None = None, domain: Domain | None = None
) -> Region:
    """Build the L1 ball over the free inputs (default: all). Errors as `linf_ball`."""
    return _ball("l1", centre, radius, free, domain)


def _ball(norm: str, centre: npt.ArrayLike, radius: float, free: Sequence[int] | None, domain: Domain | None) -> Region:
    point = _point(centre)
    chosen, size = _free(free, len(point)), _radius(radius)
    if size == 0:
        return _clipped(point, chosen, point[chosen], point[chosen], domain)
    low = np.nextafter(point[chosen] - size, -np.inf)  # the box must not cut the ball by a rounding
    high = np.nextafter(point[chosen] + size, np.inf)
    return _clipped(point, chosen, low, high, domain, norm, size)


def _clipped(
    point: FloatArray,
    free: IntArray,
    low: FloatArray,
    high: FloatArray,
    domain: Domain | None,
    norm: str = "box",
    radius: float = np.inf,
) -> Region:
    if domain is not None:
        bottom, top = (np.broadcast_to(np.asarray(end, dtype=float), point.shape) for end in domain)
        outside = np.flatnonzero(~((point >= bottom) & (point <= top)))
        if len(outside):
            first = int(outside[0])
            raise UserError(
                f"region: input {first} of the point is {point[first]:g}, outside its domain "
                f"[{bottom[first]:g}, {top[first]:g}]"
            )
        low, high = np.maximum(low, bottom[free]), np.minimum(high, top[free])
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
        raise UserError("region: the box must be finite")
    return Region(point, free, low, high, norm, radius)


def _point(centre: npt.ArrayLike) -> FloatArray:
    point = np.array(centre, dtype=float)
    if point.ndim != 1 or not len(point) or not np.all(np.isfinite(point)):
        raise UserError("region: the point must be a non-empty vector of finite numbers")
    return point


def _radii(radii: npt.ArrayLike, inputs: int) -> FloatArray:
    given = np.asarray(radii, dtype=float)
    if given.shape not in ((), (1,), (inputs,)):
        raise UserError(f"radius: one number or {inputs} are needed, not an array of shape {given.shape}")
    if not np.all(np.isfinite(given) & (given >= 0)):
        raise UserError("radius: must be finite and not negative")
    return np.broadcast_to(given, (inputs,))


def _radius(radius: float) -> float:
    if not (np.isfinite(radius) and radius >= 0):
        raise UserError(f"radius={radius:g}: must be finite and not negative")
    return float(radius)


def _free(free: Sequence[int] | None, inputs: int) -> IntArray:
    if free is None:
        return np.arange(inputs)
    given = np.asarray(free)
    if given.dtype.kind not in "iu":  # booleans and fractions would free the wrong inputs
        raise UserError(f"free inputs {list(free)}: whole numbers from 0 to {inputs - 1} are needed")
    chosen = np.unique(given.astype(np.int64))
    if not len(chosen) or len(chosen) != len(free) or chosen[0] < 0 or chosen[-1] >= inputs:
        raise UserError(f"free inputs {list(free)}: different numbers from 0 to {inputs - 1} are needed, at least one")
    return chosen


# Boxes of the free inputs by centre and half-widths.


@dataclass(frozen=True)
class Boxes:
    """B boxes.

    Attributes:
        centre: a float in the box, in units of X, [B, d].
        radius: half-widths in lengthscales, rounded up, [B, d].
    """

    centre: FloatArray
    radius: FloatArray


def measure(form: OperatorForm, low: FloatArray, high: FloatArray) -> Boxes:
    """Return the boxes [low, high] (units of X, free inputs) by centre and size."""
    centre = 0.5 * low + 0.5 * high
    return Boxes(centre, outward_radius(low, high, centre, form.lengthscales))
