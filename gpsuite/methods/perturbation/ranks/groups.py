"""Groups of transformations under which the noise keeps its distribution (assumptions A2 and A3).

Drawn once per data set, with the order that breaks ties: never anew for each coefficient vector.

Equation: Csáji & Kis 2019, Assumption A3
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.perturbation import checks


@dataclass(frozen=True, eq=False)
class Perturbations:
    """Transformations G_1..G_{m-1}, (G e)_k = signs_k e_{order_k}, and the tie-breaking permutation.

    Leading dimensions [...] hold repetitions, in studies of coverage.

    Attributes:
        group: name of the group.
        signs: [..., m-1, n], +1 or -1; None without sign changes.
        order: [..., m-1, n], each row a permutation of 0..n-1; None without permutations.
        priority: [..., m], a permutation of 0..m-1: a tie between Z_i and Z_0 puts first the smaller of priority_i
            and priority_0; None counts ties in favour of membership, which is conservative.

    Raises:
        ValueError: on arrays of other shapes or contents.
    """

    group: str
    signs: FloatArray | None
    order: IntArray | None
    priority: IntArray | None

    def __post_init__(self) -> None:
        if self.signs is None and self.order is None:
            raise ValueError("perturbations need signs or an order")
        if self.signs is not None and not np.all(np.abs(self.signs) == 1.0):
            raise ValueError("signs must be -1 or +1")
        if self.order is not None and not _permutations(self.order):
            raise ValueError("each row of order must be a permutation of 0..n-1")
        if self.priority is not None and not (
            self.priority.shape[-1] == self.m and _permutations(self.priority)
        ):
            raise ValueError(f"priority must be a permutation of 0..{self.m - 1}")

    @property
    def shape(self) -> tuple[int, ...]:
        """[..., m-1, n]."""
        return self.signs.shape if self.signs is not None else self.order.shape  # type: ignore[union-attr]

    @property
    def m(self) -> int:
        """Number of compared values Z_0..Z_{m-1}."""
        return self.shape[-2] + 1

    @property
    def n(self) -> int:
        """Number of residuals."""
        return self.shape[-1]

    @property
    def signs_and_order(self) -> tuple[FloatArray, IntArray]:
        """Both parts written out, [..., m-1, n] each."""
        signs = np.ones(self.shape) if self.signs is None else self.signs
        same = np.broadcast_to(np.arange(self.n, dtype=np.int64), self.shape)
        return signs, same if self.order is None else self.order

    @property
    def identities(self) -> BoolArray:
        """Which transformations change nothing, [..., m-1]."""
        same = np.ones(self.shape[:-1], dtype=np.bool_)
        if self.signs is not None:
            same &= np.all(self.signs == 1.0, axis=-1)
        if self.order is not None:
            same &= np.all(self.order == np.arange(self.n), axis=-1)
        return same

    def apply(self, e: FloatArray) -> FloatArray:
        """Return G_i e, shape [..., m-1, n], for e [..., n]."""
        moved = e[..., None, :]
        if self.order is not None:
            leading = np.broadcast_shapes(moved.shape[:-2], self.order.shape[:-2])
            shape = (*leading, *self.order.shape[-2:])
            moved = np.take_along_axis(
                np.broadcast_to(moved, shape), np.broadcast_to(self.order, shape), axis=-1
            )
        return np.asarray(moved if self.signs is None else moved * self.signs)

    def pull_back(self, B: FloatArray, rows: slice = slice(None)) -> FloatArray:
        """Return B G_i, shape [len(rows), r, n], for B [r, n] and a slice of the transformations (no repetitions)."""
        count = len(range(*rows.indices(self.m - 1)))
        signed = B[None] if self.signs is None else B[None] * self.signs[rows][:, None, :]
        signed = np.broadcast_to(signed, (count, *B.shape))
        if self.order is None:
            return signed
        return np.take_along_axis(signed, np.argsort(self.order[rows], axis=-1)[:, None, :], axis=-1)

    def before_reference(self) -> BoolArray:
        """Return which Z_i come before Z_0 when they tie, [..., m-1]."""
        if self.priority is None:
            return np.zeros(self.shape[:-1], dtype=np.bool_)
        return np.asarray(self.priority[..., 1:] < self.priority[..., :1])


class Group(Protocol):
    """A group of transformations to draw from."""

    def draw(
        self, n: int, m: int, rng: np.random.Generator, repetitions: tuple[int, ...] = ()
    ) -> Perturbations:
        """Return m - 1 uniform transformations of n residuals and a tie-breaking permutation."""


class _Drawn:
    """What the groups have in common: signs, orders, or both, uniform and independent."""

    name: ClassVar[str]
    has_signs: ClassVar[bool]
    has_orders: ClassVar[bool]

    def draw(
        self, n: int, m: int, rng: np.random.Generator, repetitions: tuple[int, ...] = ()
    ) -> Perturbations:
        """Return m - 1 uniform transformations of n residuals and a tie-breaking permutation.

        Raises:
            ValueError: if n < 2 or m < 2.
        """
        checks.enough_rows(n)
        if m < 2:
            raise ValueError(f"m must be at least 2, got {m}")
        shape = (*repetitions, m - 1, n)
        signs = _signs(rng, shape) if self.has_signs else None
        order = _orders(rng, shape) if self.has_orders else None
        return Perturbations(self.name, signs, order, _orders(rng, (*repetitions, m)))


@dataclass(frozen=True)
class SignChanges(_Drawn):
    """Independent sign changes: exact for independent noise, each symmetric about zero, also heteroscedastic."""

    name, has_signs, has_orders = "signs", True, False


@dataclass(frozen=True)
class Permutations(_Drawn):
    """Permutations: exact for exchangeable noise, also asymmetric; a common shift is not identified."""

    name, has_signs, has_orders = "permutations", False, True


@dataclass(frozen=True)
class SignedPermutations(_Drawn):
    """The product of both groups: exact for exchangeable noise symmetric about zero, as independent Gaussian."""

    name, has_signs, has_orders = "signed permutations", True, True


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(2.0 * rng.integers(0, 2, size=shape) - 1.0)


def _orders(rng: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
    """Return uniform permutations along the last axis."""
    rows = np.broadcast_to(np.arange(shape[-1], dtype=np.int64), shape)
    return np.asarray(rng.permuted(rows, axis=-1))


def _permutations(rows: IntArray) -> bool:
    return bool(np.all(np.sort(rows, axis=-1) == np.arange(rows.shape[-1])))
