"""A budget owns the clock: seconds, evaluations or boxes, whichever ends first."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Limits of one task and what it has spent; `None` means no limit.

    A search asks `exhausted` between steps and returns its best valid answer when it is true.

    Attributes:
        seconds: wall-clock limit, measured from construction or the last `restart`.
        evaluations: limit on objective evaluations.
        boxes: limit on branch-and-bound boxes.
    """

    seconds: float | None = None
    evaluations: int | None = None
    boxes: int | None = None
    spent_evaluations: int = 0
    spent_boxes: int = 0
    started: float = field(default_factory=time.monotonic)

    def restart(self) -> None:
        """Start the clock and the counters anew."""
        self.started = time.monotonic()
        self.spent_evaluations = 0
        self.spent_boxes = 0

    def spend(self, evaluations: int = 0, boxes: int = 0) -> None:
        """Count work that was done."""
        self.spent_evaluations += evaluations
        self.spent_boxes += boxes

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def reason(self) -> str:
        """Which limit was reached, or an empty string while there is budget left."""
        if self.seconds is not None and self.elapsed >= self.seconds:
            return f"{self.seconds:g} seconds used up"
        if self.evaluations is not None and self.spent_evaluations >= self.evaluations:
            return f"{self.evaluations} evaluations used up"
        if self.boxes is not None and self.spent_boxes >= self.boxes:
            return f"{self.boxes} boxes used up"
        return ""

    @property
    def exhausted(self) -> bool:
        """Whether any limit is reached."""
        return bool(self.reason)
