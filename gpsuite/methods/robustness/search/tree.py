"""The boxes of a branch and bound as arrays: a tree of cuts, and the pool of boxes still open.

Equation: Blaas et al. 2020, Algorithm 1
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray, IntArray

FIRST_CAPACITY = 256


@dataclass(frozen=True)
class SearchTree:
    """Every box ever bounded, by the cut that made it.

    Node 0 is the root. Nodes 2k+1 and 2k+2 are siblings: the lower and the upper part of their parent. So the leaves
    (nodes without children) cover the root by construction.

    Attributes:
        parent: [K] node that was cut, -1 for the root.
        dim: [K] free input that was cut, counted within the free ones, -1 for the root.
        cut: [K] place of the cut. Both siblings contain this float.
        bound: [K] outer bound of the score over the node (an upper one for a maximum, a lower one for a minimum),
            infinite if nothing is known.
        proved: [K] the node itself or the ancestor for which `bound` was computed.
        empty: [K] whether the box misses the region's ball.
    """

    parent: IntArray
    dim: IntArray
    cut: FloatArray
    bound: FloatArray
    proved: IntArray
    empty: BoolArray

    @property
    def leaves(self) -> IntArray:
        """Nodes without children. Together they cover the root."""
        return np.setdiff1d(np.arange(len(self.parent)), self.parent)


class GrowingTree:
    """Nodes appended in pairs. Arrays double as needed."""

    def __init__(self) -> None:
        self.size = 0
        self._integers = np.empty((3, FIRST_CAPACITY), dtype=np.int64)  # parent, dim, proved
        self._floats = np.empty((2, FIRST_CAPACITY))  # cut, bound
        self._empty = np.empty(FIRST_CAPACITY, dtype=bool)

    def append(
        self, parent: IntArray, dim: IntArray, cut: FloatArray, bound: FloatArray, proved: IntArray, empty: BoolArray
    ) -> None:
        """Add nodes. Arrays are as in `SearchTree`."""
        first, last = self.size, self.size + len(parent)
        while last > len(self._empty):
            self._integers = np.concatenate([self._integers, np.empty_like(self._integers)], axis=1)
            self._floats = np.concatenate([self._floats, np.empty_like(self._floats)], axis=1)
            self._empty = np.concatenate([self._empty, np.empty_like(self._empty)])
        self._integers[0, first:last], self._integers[1, first:last] = parent, dim
        self._integers[2, first:last] = proved
        self._floats[0, first:last], self._floats[1, first:last] = cut, bound
        self._empty[first:last] = empty
        self.size = last

    def bound(self, nodes: IntArray) -> FloatArray:
        bounds: FloatArray = self._floats[1, nodes]
        return bounds

    def proved(self, nodes: IntArray) -> IntArray:
        """Return the nodes for which the bounds of `nodes` were computed."""
        proved: IntArray = self._integers[2, nodes]
        return proved

    def finish(self, sign: int) -> SearchTree:
        """Return the tree with bounds in the score's own sign."""
        integers, floats = self._integers[:, : self.size].copy(), self._floats[:, : self.size].copy()
        return SearchTree(
            integers[0], integers[1], floats[0], sign * floats[1], integers[2], self._empty[: self.size].copy()
        )


class Pool:
    """Open boxes in reusable slots of flat arrays, with a heap of (-bound, slot).

    Args:
        free_inputs: d.
    """

    def __init__(self, free_inputs: int) -> None:
        self._heap: list[tuple[float, int]] = []
        self._unused: list[int] = []
        self._next = 0
        self.node = np.empty(FIRST_CAPACITY, dtype=np.int64)
        self.dim = np.empty(FIRST_CAPACITY, dtype=np.int64)
        self.cut = np.empty(FIRST_CAPACITY)
        self.lo = np.empty((FIRST_CAPACITY, free_inputs))
        self.hi = np.empty((FIRST_CAPACITY, free_inputs))

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def best(self) -> float:
        """The largest bound among the open boxes, -inf if there is none."""
        return -self._heap[0][0] if self._heap else -np.inf

    def push(
        self, bound: FloatArray, node: IntArray, lo: FloatArray, hi: FloatArray, dim: IntArray, cut: FloatArray
    ) -> None:
        """Add boxes [B, d] with their bounds and where each would be cut."""
        slots = np.array(self._slots(len(bound)), dtype=np.int64)
        while self._next > len(self.node):
            self._grow()
        self.node[slots], self.dim[slots], self.cut[slots] = node, dim, cut
        self.lo[slots], self.hi[slots] = lo, hi
        for key, slot in zip((-bound).tolist(), slots.tolist(), strict=True):
            heapq.heappush(self._heap, (key, slot))

    def pop(self, count: int) -> IntArray:
        """Take the `count` boxes with the largest bounds. Their slots are valid until the next `push`."""
        slots = [heapq.heappop(self._heap)[1] for _ in range(min(count, len(self._heap)))]
        self._unused += slots
        return np.array(slots, dtype=np.int64)

    def _slots(self, count: int) -> list[int]:
        again = min(count, len(self._unused))
        slots = self._unused[len(self._unused) - again :]
        del self._unused[len(self._unused) - again :]
        slots += range(self._next, self._next + count - again)
        self._next += count - again
        return slots

    def _grow(self) -> None:
        for name in ("node", "dim", "cut", "lo", "hi"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.empty_like(old)]))
