"""Tables of limits: what lies at a limit is taken or refused as the docstring says, and so is what is beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from gpsuite.errors import UserError

TINY = 5e-324
"""The smallest number above zero."""


@dataclass(frozen=True)
class Limit:
    """What is called with one value, and values that it takes and refuses."""

    name: str
    call: Callable[[Any], object]
    taken: tuple[Any, ...]
    refused: tuple[Any, ...]


def sides(limits: Sequence[Limit]) -> pytest.MarkDecorator:
    """Run a test for every value of every limit; its arguments are `limit`, `value` and `refused`."""
    cases = [
        pytest.param(limit, value, refused, id=f"{limit.name}={value}")
        for limit in limits
        for refused, values in ((False, limit.taken), (True, limit.refused))
        for value in values
    ]
    return pytest.mark.parametrize(("limit", "value", "refused"), cases)


def check(limit: Limit, value: object, refused: bool) -> None:
    """Fail unless the value is refused, or taken."""
    if refused:
        with pytest.raises((ValueError, UserError)):
            limit.call(value)
    else:
        limit.call(value)
