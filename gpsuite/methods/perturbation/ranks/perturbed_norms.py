"""Weighted norms of the perturbed gradients, many coefficient vectors and perturbations in one matrix product.

Equation: Csáji & Kis 2019, Perturbed Gradients
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.methods.perturbation.objectives.base import Form
from gpsuite.methods.perturbation.ranks.groups import Perturbations

_KEPT_BYTES = 64e6
_BLOCK_BYTES = 16e6
_CHUNK_BYTES = 0.75e6


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
        """Blocks [count r, n] of the matrices pull G_i, kept when they are small."""
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
    """Return the squared norm of the last axis."""
    return np.asarray(np.einsum("...r,...r->...", rows, rows))
