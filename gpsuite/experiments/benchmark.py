"""What a family offers to `gpsuite bench`: our work beside a reference's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Work = Callable[[], object]


@dataclass(frozen=True)
class BenchCase:
    """Ours against a reference.

    Attributes:
        case: what is computed, with its size.
        reference: what it is held against.
        prepare: called once; returns our work and the reference's work.
        goal: largest allowed ratio ours / reference.
        pairs: repetitions of both, where a slow reference allows fewer than usual.
        count: says from the result of either work how much it did ("163 boxes"); "" where it says nothing.
    """

    case: str
    reference: str
    prepare: Callable[[], tuple[Work, Work]]
    goal: float
    pairs: int | None = None
    count: Callable[[Any], str] | None = None
