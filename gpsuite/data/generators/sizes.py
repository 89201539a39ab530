"""Sizes of samples: a number of points, with or without repetitions before it."""

from __future__ import annotations

from typing import TypeAlias

Size: TypeAlias = int | tuple[int, ...]


def as_shape(size: Size) -> tuple[int, ...]:
    """Return `(..., n)` for `n` or `(..., n)`.

    Raises:
        ValueError: if there is no number of points, or a number is not positive.
    """
    shape = (size,) if isinstance(size, int) else tuple(size)
    if not shape or min(shape) < 1:
        raise ValueError(f"size={size}: must be n or (..., n) of positive numbers")
    return shape
