"""The searches of a task, which share its seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DONE, SharedWork, Task


@dataclass
class Searches:
    """The searches of one task: each has its boxes, all together have the seconds.

    The models are trained whole, whatever the seconds: the answers of several tasks are about the same ones.

    Attributes:
        clock: of the task.
        boxes: limit for each search.
        observer: told after every step; see `SharedWork`.
        cut: how many the seconds ended, or did not let begin: what these did not reach is not proved.
    """

    clock: Budget
    boxes: int
    observer: Callable[[Budget], None] | None = None
    cut: int = 0

    @classmethod
    def of(cls, task: Task[Any], shared: SharedWork) -> Searches:
        """Return those of a task that begins now."""
        return cls(Budget(seconds=task.budget_seconds), task.params.boxes, shared.observer)

    def may_begin(self) -> bool:
        """Return whether there are seconds left for another search; one that may not begin is counted."""
        ended = self.clock.exhausted
        self.cut += ended
        return not ended

    def budget(self, times: int = 1) -> Budget:
        """Return the next search's budget, of so many times the boxes."""
        return self.clock.rest(boxes=times * self.boxes, observer=self.observer)

    def ended(self, *reasons: str) -> bool:
        """Return whether the seconds ended a search, by the reasons of its parts; it is counted then."""
        cut = any(reason.endswith("seconds used up") for reason in reasons)
        self.cut += cut
        return cut

    @property
    def outcome(self) -> tuple[str, str]:
        """Status and reason of the task, as far as its searches go."""
        if not self.cut:
            return DONE, ""
        return BUDGET, f"{self.clock.seconds:g} seconds used up, {self.cut} searches did not end"


def nested(ranges: FloatArray, tolerances: Sequence[float]) -> FloatArray:
    """Return proved ranges [B, K, 2], each with what is proved of the larger tolerances [K]; NaN where nothing is."""
    order = np.argsort(tolerances)[::-1]
    found = ranges.copy()
    found[:, order, 0] = np.fmax.accumulate(ranges[:, order, 0], axis=1)
    found[:, order, 1] = np.fmin.accumulate(ranges[:, order, 1], axis=1)
    return found
