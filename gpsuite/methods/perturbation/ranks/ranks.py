"""Ranks of the unperturbed gradient among the perturbed ones, for many coefficient vectors at once.

The rank of alpha is 1 + #{i : Z_i before Z_0}; ties are resolved by the tie-breaking permutation. (The poster prints
the comparison the other way round; then the estimate itself would lie outside the region.)

Equation: Csáji & Kis 2019, Confidence Regions
Equation: derived, rank test
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.methods.perturbation.objectives.base import Form, Objective, QuadraticObjective
from gpsuite.methods.perturbation.ranks.groups import Group, Perturbations
from gpsuite.methods.perturbation.ranks.perturbed_norms import PerturbedNorms, squares

TIE = 1e-12
"""Neighbours within this share of each other are tied, and so are all that such steps join."""
_UNDECIDED = 1e-9
"""Differences of the quadratic forms below this share of their terms are computed again from the residuals."""
_LEADING = 1e-6
"""Rows of the form below this share of the largest, in square, are first left out."""
_WORTH_LEADING = 0.9
_BLOCK_BYTES = 16e6
_QUADRATIC_CHUNK = 512
_FEW_COEFFICIENTS = 32


def rank(Z: FloatArray, before: BoolArray) -> IntArray:
    """Return 1 + #{i : Z_i < Z_0, or tied and before it}, in 1..m: uniform where the Z are exchangeable.

    Args:
        Z: Z_0..Z_{m-1}, shape [..., m].
        before: whether i comes before the reference when tied, [..., m-1].
    """
    Z0, others = Z[..., :1], Z[..., 1:]
    tied = np.abs(others - Z0) <= TIE * np.maximum(Z0, others)
    close = tied.any(axis=-1)
    if close.any():
        tied[close] = _tied_by_steps(Z[close])
    counted = np.where(tied, before, others < Z0)
    return np.asarray(1 + np.count_nonzero(counted, axis=-1), dtype=np.int64)


def _tied_by_steps(Z: FloatArray) -> BoolArray:
    """Return which of Z_1.. are joined to Z_0 by steps between tied neighbours, [K, m-1], for Z [K, m].

    Being within a tolerance of each other is no equivalence, and with a partial one the rank is not uniform.
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
        objective: the model, p coefficients.
        y: outputs [n].
        perturbations: drawn once for this data set.
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
        step = max(1, int(_BLOCK_BYTES / (8 * self.perturbations.m)))
        blocks = [self._block_ranks(alphas[start : start + step]) for start in range(0, len(alphas), step)]
        return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.int64)

    def _block_ranks(self, alphas: FloatArray) -> IntArray:
        """Return ranks; cheaper statistics decide where what they leave out cannot matter, Z itself the others."""
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
        """The rows that matter most, and the rest, where leaving them out saves enough."""
        form = self.objective.form
        sizes = squares(form.pull)
        kept = sizes > _LEADING * np.max(sizes)
        if np.count_nonzero(kept) > _WORTH_LEADING * len(sizes):
            return None
        head, tail = (
            Form(form.slope[rows], form.pull[rows], np.empty((0, form.slope.shape[1])))
            for rows in (kept, ~kept)
        )
        return PerturbedNorms(head, self.perturbations), tail

    def _leading_ranks(
        self, leading: tuple[PerturbedNorms, Form], lifted: FloatArray, scores: FloatArray
    ) -> tuple[IntArray, BoolArray]:
        """Return ranks [J] by the leading rows, and where the others, all below a bound t^2, could change them."""
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
        """The forms where they take fewer operations than the residuals do."""
        r, n = self.objective.form.pull.shape
        p = len(self.alpha_hat)
        worth = p <= _FEW_COEFFICIENTS and (p + 1) * (p + 2) <= r * n
        objective = self.objective
        return (
            QuadraticForms.of(self, objective)
            if worth and isinstance(objective, QuadraticObjective)
            else None
        )


@dataclass(frozen=True, eq=False)
class QuadraticForms:
    """Z_i - Z_0 of a quadratic objective as polynomials of degree two in v = R (alpha - alpha_hat), R'R = H.

    Attributes:
        centre: alpha_hat [p].
        root: R [p, p].
        coefficients: [K, (p+1)(p+2)/2]: products v_i v_j (i <= j), v_i, 1; identities left out.
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
        second, products, constants = (
            Q.transpose(0, 2, 1) @ Q,
            2.0 * np.einsum("krp,kr->kp", Q, w),
            squares(w),
        )
        upper = np.triu_indices(len(root))
        second[:, *upper] *= np.where(upper[0] == upper[1], 1.0, 2.0)
        parts = [second[:, *upper], products, constants[:, None]]
        scale = np.array([np.max(np.abs(part)) for part in parts])
        coefficients = np.concatenate([part[1:] - part[:1] for part in parts], axis=1)
        return QuadraticForms(test.alpha_hat, root, coefficients, scale, before)

    def ranks(self, alphas: FloatArray) -> tuple[IntArray, BoolArray]:
        """Return ranks [J] and which of them rounding leaves undecided."""
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
            undecided[rows] = (
                np.min(np.abs(difference, out=difference), axis=0, initial=np.inf) <= slack[rows]
            )
        ranks += 1 + self.identities_before
        return ranks, undecided


def ranks_of_noise(
    objective: Objective, alpha: FloatArray, noise: FloatArray, perturbations: Perturbations
) -> IntArray:
    """Return the ranks [R] of the true alpha [p] over repetitions of the noise [R, n] at a fixed design.

    Exactness says they are uniform on 1..m where the group leaves the noise's distribution alone.

    Args:
        objective: the model; y = Phi alpha + noise.
        alpha: the ideal coefficients.
        noise: one row a repetition.
        perturbations: with R repetitions (or none: the same for all).
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
    """Return ranks [R] of the true alpha as `ranks_of_noise`, perturbations drawn anew in each repetition.

    Args:
        objective: the model; y = Phi alpha + noise.
        alpha: the ideal coefficients [p].
        noise: [R, n], one row a repetition.
        group: what to draw from.
        m: number of values compared.
        rng: source of the draws.
        break_ties: False counts ties in favour of membership.
    """
    repetitions, n = noise.shape
    step = max(1, int(_BLOCK_BYTES / (8 * m * n)))
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
