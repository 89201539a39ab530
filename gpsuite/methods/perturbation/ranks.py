"""Groups of transformations under which the noise keeps its distribution (assumptions A2 and A3).

They are drawn once per data set, with the order that breaks ties. They are not drawn again for each coefficient vector.

Equation: Csáji & Kis 2019, Assumption A3
Equation: Csáji & Kis 2019, Perturbed Gradients
Equation: Csáji & Kis 2019, Confidence Regions
Equation: derived, rank test
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.perturbation import objectives
from gpsuite.methods.perturbation.objectives import Form, Objective, QuadraticObjective

_KEPT_BYTES = 64e6
_BLOCK_BYTES = 16e6
_CHUNK_BYTES = 0.75e6
# Neighbours within this share of each other are tied. So are all values that such steps join.
TIE = 1e-12
# Differences of the quadratic forms below this share of their terms are computed again from the residuals.
_UNDECIDED = 1e-9
# Rows of the form with a squared size below this share of the largest are left out first.
_LEADING = 1e-6
_WORTH_LEADING = 0.9
_RANK_BLOCK_BYTES = 16e6
_QUADRATIC_CHUNK = 512
_FEW_COEFFICIENTS = 32


@dataclass(frozen=True, eq=False)
class Perturbations:
    """Transformations G_1..G_{m-1}, (G e)_k = signs_k e_{order_k}, and the tie-breaking permutation.

    Leading dimensions [...] hold repetitions, in studies of coverage.

    Attributes:
        group: name of the group.
        signs: [..., m-1, n], +1 or -1. None without sign changes.
        order: [..., m-1, n], each row a permutation of 0..n-1. None without permutations.
        priority: [..., m], a permutation of 0..m-1. In a tie between Z_i and Z_0 the smaller of priority_i and
            priority_0 comes first. None counts ties in favour of membership, which is conservative.

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
        if self.priority is not None and not (self.priority.shape[-1] == self.m and _permutations(self.priority)):
            raise ValueError(f"priority must be a permutation of 0..{self.m - 1}")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.signs.shape if self.signs is not None else self.order.shape  # type: ignore[union-attr]

    @property
    def m(self) -> int:
        return self.shape[-2] + 1

    @property
    def n(self) -> int:
        return self.shape[-1]

    @property
    def signs_and_order(self) -> tuple[FloatArray, IntArray]:
        signs = np.ones(self.shape) if self.signs is None else self.signs
        same = np.broadcast_to(np.arange(self.n, dtype=np.int64), self.shape)
        return signs, same if self.order is None else self.order

    @property
    def identities(self) -> BoolArray:
        """Whether each transformation changes nothing, [..., m-1]."""
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
            moved = np.take_along_axis(np.broadcast_to(moved, shape), np.broadcast_to(self.order, shape), axis=-1)
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

    def draw(self, n: int, m: int, rng: np.random.Generator, repetitions: tuple[int, ...] = ()) -> Perturbations: ...


class _Drawn:
    """Common part of the groups: signs, orders, or both, uniform and independent."""

    name: ClassVar[str]
    has_signs: ClassVar[bool]
    has_orders: ClassVar[bool]

    def draw(self, n: int, m: int, rng: np.random.Generator, repetitions: tuple[int, ...] = ()) -> Perturbations:
        """Return m - 1 uniform transformations of n residuals and a tie-breaking permutation.

        Raises:
            ValueError: if n < 2 or m < 2.
        """
        objectives.enough_rows(n)
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
    """Permutations: exact for exchangeable noise, also asymmetric. A common shift is not identified."""

    name, has_signs, has_orders = "permutations", False, True


@dataclass(frozen=True)
class SignedPermutations(_Drawn):
    """The product of both groups: exact for exchangeable noise symmetric about zero, as independent Gaussian."""

    name, has_signs, has_orders = "signed permutations", True, True


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(2.0 * rng.integers(0, 2, size=shape) - 1.0)


def _orders(rng: np.random.Generator, shape: tuple[int, ...]) -> IntArray:
    rows = np.broadcast_to(np.arange(shape[-1], dtype=np.int64), shape)
    return np.asarray(rng.permuted(rows, axis=-1))


def _permutations(rows: IntArray) -> bool:
    return bool(np.all(np.sort(rows, axis=-1) == np.arange(rows.shape[-1])))


@dataclass(frozen=True, eq=False)
class PerturbedNorms:
    """Z_i = |slope a - pull G_i s|^2 + |rest a|^2 with all pull G_i stacked into one matrix.

    Attributes:
        form: slope [r, p], pull [r, n], rest [k, p].
        perturbations: G_1..G_{m-1}.
    """

    form: Form
    perturbations: Perturbations

    def values(self, lifted: FloatArray, scores: FloatArray) -> FloatArray:
        """Return Z [J, m], Z_0 first, for a = lifted [J, p] and s = scores [J, n]."""
        form, rows = self.form, len(self.form.pull)
        base = lifted @ form.slope.T
        Z = np.empty((len(lifted), self.perturbations.m))
        Z[:, 0] = squares(base - scores @ form.pull.T)
        column = 1
        for stack in self._stacks:
            count = len(stack) // rows
            step = max(8, int(_CHUNK_BYTES / (8 * len(stack))))
            for start in range(0, len(lifted), step):
                part = slice(start, start + step)
                moved = (scores[part] @ stack.T).reshape(-1, count, rows)
                moved -= base[part, None, :]
                Z[part, column : column + count] = squares(moved)
            column += count
        if len(form.rest):
            Z += squares(lifted @ form.rest.T)[:, None]
        return Z

    @property
    def _stacks(self) -> Iterator[FloatArray]:
        """Blocks [count r, n] of the matrices pull G_i. They are kept if they are small."""
        return iter(self._kept) if self._kept is not None else self._new_stacks()

    @cached_property
    def _kept(self) -> list[FloatArray] | None:
        size = 8 * self.perturbations.m * self.form.pull.size
        return list(self._new_stacks()) if size <= _KEPT_BYTES else None

    def _new_stacks(self) -> Iterator[FloatArray]:
        pull, others = self.form.pull, self.perturbations.m - 1
        step = max(1, int(_BLOCK_BYTES / (8 * pull.size)))
        for start in range(0, others, step):
            block = self.perturbations.pull_back(pull, slice(start, start + step))
            yield np.ascontiguousarray(block).reshape(-1, pull.shape[1])


def squares(rows: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("...r,...r->...", rows, rows))


# Ranks of the unperturbed gradient among the perturbed ones, for many coefficient vectors at once.
#
# The rank of alpha is 1 + #{i : Z_i before Z_0}. Ties are resolved by the tie-breaking permutation. (The poster prints
# the opposite comparison. With that the estimate itself would be outside the region.)
def rank(Z: FloatArray, before: BoolArray) -> IntArray:
    """Return 1 + #{i : Z_i < Z_0, or tied and before it}, in 1..m. It is uniform if the Z are exchangeable."""
    Z0, others = Z[..., :1], Z[..., 1:]
    tied = np.abs(others - Z0) <= TIE * np.maximum(Z0, others)
    close = tied.any(axis=-1)
    if close.any():
        tied[close] = _tied_by_steps(Z[close])
    counted = np.where(tied, before, others < Z0)
    return np.asarray(1 + np.count_nonzero(counted, axis=-1), dtype=np.int64)


def _tied_by_steps(Z: FloatArray) -> BoolArray:
    """Return which of Z_1.. are joined to Z_0 by steps between tied neighbours, [K, m-1], for Z [K, m].

    Being within a tolerance of each other is not transitive. The rank is uniform only with an equivalence relation.
    """
    order = np.argsort(Z, axis=-1)
    rising = np.take_along_axis(Z, order, axis=-1)
    steps = np.diff(rising, axis=-1) > TIE * rising[:, 1:]
    cluster = np.zeros(Z.shape, dtype=np.int64)
    np.put_along_axis(cluster, order[:, 1:], np.cumsum(steps, axis=-1), axis=-1)
    return np.asarray(cluster[:, 1:] == cluster[:, :1])


@dataclass(frozen=True, eq=False)
class RankTest:
    """Z values and ranks of coefficient vectors, for one data set.

    Attributes:
        alpha_hat: the objective's minimiser [p], the centre of the quadratic forms.
    """

    objective: Objective
    y: FloatArray
    perturbations: Perturbations
    alpha_hat: FloatArray

    def z_values(self, alphas: FloatArray) -> FloatArray:
        """Return Z [J, m], Z_0 first, for alphas [J, p]."""
        lifted, scores = self._parts(alphas)
        return self._norms.values(lifted, scores)

    def ranks(self, alphas: FloatArray) -> IntArray:
        """Return the rank [J], in 1..m, of each of alphas [J, p]."""
        step = max(1, int(_RANK_BLOCK_BYTES / (8 * self.perturbations.m)))
        blocks = [self._block_ranks(alphas[start : start + step]) for start in range(0, len(alphas), step)]
        return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.int64)

    def _block_ranks(self, alphas: FloatArray) -> IntArray:
        """Return ranks, by cheaper statistics if their omissions cannot matter, and otherwise by Z itself."""
        if self._quadratic_forms is not None:
            ranks, undecided = self._quadratic_forms.ranks(alphas)
        elif self._leading is not None:
            ranks, undecided = self._leading_ranks(self._leading, *self._parts(alphas))
        else:
            return rank(self.z_values(alphas), self.perturbations.before_reference())
        if np.any(undecided):
            exact = self.z_values(alphas[undecided])
            ranks[undecided] = rank(exact, self.perturbations.before_reference())
        return ranks

    def _parts(self, alphas: FloatArray) -> tuple[FloatArray, FloatArray]:
        scores = self.objective.score(self.objective.residuals(self.y, alphas))
        return self.objective.lift(alphas), scores

    @cached_property
    def _norms(self) -> PerturbedNorms:
        return PerturbedNorms(self.objective.form, self.perturbations)

    @cached_property
    def _leading(self) -> tuple[PerturbedNorms, Form] | None:
        """The largest rows and the others, or None if leaving the others out saves too little."""
        form = self.objective.form
        sizes = squares(form.pull)
        kept = sizes > _LEADING * np.max(sizes)
        if np.count_nonzero(kept) > _WORTH_LEADING * len(sizes):
            return None
        head, tail = (
            Form(form.slope[rows], form.pull[rows], np.empty((0, form.slope.shape[1]))) for rows in (kept, ~kept)
        )
        return PerturbedNorms(head, self.perturbations), tail

    def _leading_ranks(
        self, leading: tuple[PerturbedNorms, Form], lifted: FloatArray, scores: FloatArray
    ) -> tuple[IntArray, BoolArray]:
        """Return ranks [J] by the largest rows, and where the other rows, all below a bound t^2, could change them."""
        head, tail = leading
        Z = head.values(lifted, scores)
        left_out = np.sqrt(squares(lifted @ tail.slope.T))
        left_out += np.linalg.norm(tail.pull) * np.sqrt(squares(scores))
        same = self.perturbations.identities
        difference = Z[:, 1:][:, ~same] - Z[:, :1]
        ranks = 1 + np.count_nonzero(difference < 0.0, axis=1)
        ranks += np.count_nonzero(self.perturbations.before_reference() & same)
        nearest = np.min(np.abs(difference, out=difference), axis=1, initial=np.inf)
        return ranks, nearest <= left_out**2 + _UNDECIDED * Z[:, 0]

    @cached_property
    def _quadratic_forms(self) -> QuadraticForms | None:
        """The quadratic forms, or None if they take more operations than the residuals."""
        r, n = self.objective.form.pull.shape
        p = len(self.alpha_hat)
        worth = p <= _FEW_COEFFICIENTS and (p + 1) * (p + 2) <= r * n
        objective = self.objective
        return QuadraticForms.of(self, objective) if worth and isinstance(objective, QuadraticObjective) else None


@dataclass(frozen=True, eq=False)
class QuadraticForms:
    """Z_i - Z_0 of a quadratic objective as polynomials of degree two in v = R (alpha - alpha_hat), R'R = H.

    Attributes:
        centre: alpha_hat [p].
        root: R [p, p].
        coefficients: [K, (p+1)(p+2)/2], of products v_i v_j (i <= j), v_i, 1. Identities are left out.
        scale: [3]: largest coefficient of each degree 2, 1, 0, to judge rounding.
        identities_before: number of identities that come before the reference.
    """

    centre: FloatArray
    root: FloatArray
    coefficients: FloatArray
    scale: FloatArray
    identities_before: int

    @staticmethod
    def of(test: RankTest, objective: QuadraticObjective) -> QuadraticForms:
        """Expand |slope alpha - pull G_i e|^2 - |slope alpha - pull e|^2 about the estimate."""
        design, form = objective.design, objective.form
        root = cholesky(objective.hessian)
        same = test.perturbations.identities
        before = int(np.count_nonzero(test.perturbations.before_reference() & same))
        pulls = test.perturbations.pull_back(form.pull)[~same]
        residuals = objective.residuals(test.y, test.alpha_hat)
        slopes = np.concatenate([(form.slope + form.pull @ design)[None], form.slope + pulls @ design])
        whitened = np.asarray(solve_triangular(root, slopes.reshape(-1, len(root)).T, trans="T")).T
        Q = whitened.reshape(slopes.shape)
        gradient = form.slope @ test.alpha_hat - form.pull @ residuals
        w = np.concatenate([gradient[None], gradient + (form.pull - pulls) @ residuals])
        second, products, constants = (Q.transpose(0, 2, 1) @ Q, 2.0 * np.einsum("krp,kr->kp", Q, w), squares(w))
        upper = np.triu_indices(len(root))
        second[:, *upper] *= np.where(upper[0] == upper[1], 1.0, 2.0)
        parts = [second[:, *upper], products, constants[:, None]]
        scale = np.array([np.max(np.abs(part)) for part in parts])
        coefficients = np.concatenate([part[1:] - part[:1] for part in parts], axis=1)
        return QuadraticForms(test.alpha_hat, root, coefficients, scale, before)

    def ranks(self, alphas: FloatArray) -> tuple[IntArray, BoolArray]:
        """Return ranks [J] and which ranks rounding leaves undecided."""
        ranks = np.empty(len(alphas), dtype=np.int64)
        undecided = np.empty(len(alphas), dtype=np.bool_)
        V = self.root @ (alphas - self.centre).T
        sizes = np.sum(np.abs(V), axis=0)
        slack = _UNDECIDED * ((self.scale[0] * sizes + self.scale[1]) * sizes + self.scale[2])
        monomials = np.empty((self.coefficients.shape[1], _QUADRATIC_CHUNK))
        counter = np.min_scalar_type(len(self.coefficients))  # the narrowest is the fastest
        for start in range(0, len(alphas), _QUADRATIC_CHUNK):
            rows = slice(start, start + _QUADRATIC_CHUNK)
            part = V[:, rows]
            terms = monomials[:, : part.shape[1]]
            _fill(terms, part)
            difference = self.coefficients @ terms
            below = np.signbit(difference).view(np.uint8)
            ranks[rows] = np.add.reduce(below, axis=0, dtype=counter)
            undecided[rows] = np.min(np.abs(difference, out=difference), axis=0, initial=np.inf) <= slack[rows]
        ranks += 1 + self.identities_before
        return ranks, undecided


def ranks_of_noise(
    objective: Objective, alpha: FloatArray, noise: FloatArray, perturbations: Perturbations
) -> IntArray:
    """Return the ranks [R] of the true alpha [p] over repetitions of the noise [R, n] at a fixed design.

    They are uniform on 1..m if the group does not change the noise's distribution.
    """
    form = objective.form
    scores = objective.score(noise)
    base = objective.lift(alpha) @ form.slope.T
    reference = squares(base - scores @ form.pull.T)
    others = squares(base - perturbations.apply(scores) @ form.pull.T)
    Z = np.concatenate([reference[:, None], others], axis=1)
    if len(form.rest):
        Z += squares(objective.lift(alpha) @ form.rest.T)
    return rank(Z, perturbations.before_reference())


def simulated_ranks(
    objective: Objective,
    alpha: FloatArray,
    noise: FloatArray,
    group: Group,
    m: int,
    rng: np.random.Generator,
    break_ties: bool = True,
) -> IntArray:
    """Return ranks [R] of the true alpha as `ranks_of_noise`, with new perturbations in each repetition.

    Args:
        break_ties: False counts ties in favour of membership.
    """
    repetitions, n = noise.shape
    step = max(1, int(_RANK_BLOCK_BYTES / (8 * m * n)))
    found = []
    for start in range(0, repetitions, step):
        part = noise[start : start + step]
        drawn = group.draw(n, m, rng, (len(part),))
        if not break_ties:
            drawn = Perturbations(drawn.group, drawn.signs, drawn.order, None)
        found.append(ranks_of_noise(objective, alpha, part, drawn))
    return np.concatenate(found)


def _fill(terms: FloatArray, V: FloatArray) -> None:
    """Write the products v_i v_j (i <= j), then v_i, then 1, each a row, for V [p, J]."""
    p, row = len(V), 0
    for i in range(p):
        np.multiply(V[i], V[i:], out=terms[row : row + p - i])
        row += p - i
    terms[row : row + p] = V
    terms[-1] = 1.0
