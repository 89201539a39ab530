"""Limits of a task: seconds, evaluations or boxes, whichever ends first."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Limits of one task and what it has spent. `None` means no limit.

    A search asks `exhausted` between steps and returns its best valid answer when it is true. What one search spent is
    spent for the next too: give each a new budget, or use `restart`. Seconds count everywhere, evaluations in
    trainings, boxes in searches over regions.

    Attributes:
        seconds: wall-clock limit, measured from construction or the last `restart`.
        evaluations: limit on objective evaluations.
        boxes: limit on branch-and-bound boxes.
        best: smallest objective value so far. Infinite if there is none.
        run: which of `runs` equal searches this budget is for, counted from 1.
        runs: how many equal searches there are.
        observer: called after every spending. Must be quick, and must not change the budget.
        after: what follows the search, such as a certificate, as a multiple of its longest step. It must fit too.
        stated: the whole seconds if this budget is a remainder, for messages.

    Raises:
        ValueError: if a limit is negative or not a number.
    """

    seconds: float | None = None
    evaluations: int | None = None
    boxes: int | None = None
    spent_evaluations: int = 0
    spent_boxes: int = 0
    started: float = field(default_factory=time.monotonic)
    best: float = math.inf
    run: int = 1
    runs: int = 1
    observer: Callable[[Budget], None] | None = field(default=None, repr=False, compare=False)
    after: float = 0.0
    stated: float | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "evaluations", "boxes"):
            limit = getattr(self, name)
            if limit is not None and not limit >= 0:
                raise ValueError(f"{name}={limit}: must be a number, zero or more, or None")

    def restart(self) -> None:
        """Start the clock and the counters again."""
        self.started = self._now()
        self.spent_evaluations = 0
        self.spent_boxes = 0
        self.best = math.inf

    def spend(self, evaluations: int = 0, boxes: int = 0, best: float = math.inf) -> None:
        """Count work that was done, and keep the best objective value so far, if there is one."""
        self.spent_evaluations += evaluations
        self.spent_boxes += boxes
        self.best = min(self.best, best)
        if self.observer is not None:
            self.observer(self)

    @property
    def share(self) -> float:
        """Share of the limit nearest to its end that is spent, over all runs, in [0, 1], 0 without limits."""
        limits = (
            (self.elapsed, self.seconds),
            (self.spent_evaluations, self.evaluations),
            (self.spent_boxes, self.boxes),
        )
        shares = [spent / limit if limit > 0 else 1.0 for spent, limit in limits if limit is not None]
        return (self.run - 1 + min(max(shares, default=0.0), 1.0)) / self.runs

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._now() - self.started

    def _now(self) -> float:
        return time.monotonic()

    @property
    def left(self) -> float | None:
        """Seconds that are left, at least 0. None without a limit."""
        return None if self.seconds is None else max(0.0, self.seconds - self.elapsed)

    def rest(self, boxes: int | None = None, observer: Callable[[Budget], None] | None = None) -> Budget:
        """Return a budget of the seconds that are left, whose messages name the whole."""
        stated = self.seconds if self.stated is None else self.stated
        return Budget(seconds=self.left, boxes=boxes, observer=observer, stated=stated)

    def part(self, searches: int) -> Budget:
        """Return one search's equal part of the seconds and boxes that are left for so many, without observer."""
        left = self.left
        boxes = None if self.boxes is None else max(0, self.boxes - self.spent_boxes) // searches
        return Budget(seconds=None if left is None else left / searches, boxes=boxes, stated=self.stated)

    def has_room(self, step: float) -> bool:
        """Return whether a step of so many seconds, and what follows the search, end within the limit."""
        return self.seconds is None or self.elapsed + (1.0 + self.after) * step <= self.seconds

    @property
    def reason(self) -> str:
        """The limit that was reached, or an empty string while there is budget left."""
        if self.seconds is not None and self.elapsed >= self.seconds:
            return f"{self.seconds if self.stated is None else self.stated:g} seconds used up"
        if self.evaluations is not None and self.spent_evaluations >= self.evaluations:
            return f"{self.evaluations} evaluations used up"
        if self.boxes is not None and self.spent_boxes >= self.boxes:
            return f"{self.boxes} boxes used up"
        return ""

    @property
    def exhausted(self) -> bool:
        """Whether any limit is reached."""
        return bool(self.reason)


class ProcessorBudget(Budget):
    """A budget of the processor's seconds for this process, which do not depend on other work on the machine."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.started = self._now()

    def _now(self) -> float:
        return time.process_time()
