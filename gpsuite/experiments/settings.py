"""Rules of settings, declared where a setting is: `rows: Annotated[int, at_least(2)]`.

Default values are only in the experiment's YAML. A class has `check()` only for rules on several settings at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError, unknown
from gpsuite.experiments.base import require


def require_one_output(data: Dataset) -> None:
    """Raise `UserError` if a dataset has several outputs. Only of the user's own table they can choose one."""
    names = ", ".join(data.target_names)
    if data.y.shape[1] != 1 and data.name == "csv":
        raise UserError(f"dataset.target: one column is needed, not {names}", key="dataset.target")
    if data.y.shape[1] != 1:
        told = f"one output is needed, it has {names}\nchoose another dataset: gpsuite list datasets"
        raise UserError(f"dataset={data.name}: {told}", key="dataset")


@dataclass(frozen=True)
class Rule:
    """A condition on one value.

    Attributes:
        holds: whether a value meets it. NaN meets none.
        allowed: what is allowed, in words that follow `key=value: `.
    """

    holds: Callable[[Any], bool]
    allowed: str

    def check(self, key: str, value: object) -> None:
        """Raise `UserError` unless the value meets the rule."""
        require(self.holds(value), key, value, self.allowed)


@dataclass(frozen=True)
class OneOf:
    """A rule that allows some names: those given, or what a function returns when a value is checked."""

    names: Iterable[str] | Callable[[], Iterable[str]]

    def check(self, key: str, value: str) -> None:
        """Raise `UserError`, with the nearest valid name, unless the value is one of the names."""
        names = list(self.names() if callable(self.names) else self.names)
        if value not in names:
            raise unknown(f"{key}={value}: unknown {key}", value, names, key)


def one_of(names: Iterable[str] | Callable[[], Iterable[str]]) -> OneOf:
    """Allow these names."""
    return OneOf(names)


def at_least(least: int) -> Rule:
    """Allow `least` and more."""
    return Rule(lambda value: value >= least, f"must be {least} or more")


def within(low: int, high: int) -> Rule:
    """Allow low, high and what lies between."""
    return Rule(lambda value: low <= value <= high, f"must be from {low} to {high}")


def between(low: float, high: float) -> Rule:
    """Allow what lies between low and high, neither of them included."""
    return Rule(lambda value: low < value < high, f"must lie between {low:g} and {high:g}")


# beyond these ends squares overflow
positive = Rule(lambda value: 1e-100 <= value <= 1e100, "must be a number above 0, at most 1e100")
not_negative = Rule(lambda value: 0 <= value < math.inf, "must be 0 or more, and finite")
filled = Rule(bool, "needs at least one value")
unique = Rule(lambda values: len(set(values)) == len(values), "must not have a value twice")
increasing = Rule(lambda values: sorted(values) == list(values), "must increase")

Count = Annotated[int, at_least(1)]
Positive = Annotated[float, positive]
Share = Annotated[float, between(0, 1)]


def check_settings(settings: Any, prefix: str = "") -> None:
    """Check every field of a dataclass of settings by its rules, then call its `check()` if it has one.

    A rule on a list's element holds for each element. A field that may be None has no rules when it is. Numbers are
    finite.

    Args:
        settings: of the right types.
        prefix: of the keys in messages, such as `method.`.

    Raises:
        UserError: naming the first key with an impossible value, the value and what is allowed.
    """
    hints = get_type_hints(type(settings), include_extras=True)
    for each in fields(settings):
        _check_value(prefix + each.name, getattr(settings, each.name), hints[each.name])
    if hasattr(settings, "check"):
        settings.check()


def _check_value(key: str, value: Any, hint: Any) -> None:
    if value is None:
        return
    if is_dataclass(value):
        check_settings(value, f"{key}.")
    elif get_origin(hint) is Annotated:
        plain, *rules = get_args(hint)
        for rule in rules:
            rule.check(key, value)
        _check_value(key, value, plain)
    elif get_origin(hint) in (Union, UnionType):
        for choice in get_args(hint):
            if choice is not NoneType:
                _check_value(key, value, choice)
    elif get_origin(hint) is list:
        for element in value:
            _check_value(key, element, get_args(hint)[0])
    elif isinstance(value, float):
        require(math.isfinite(value), key, value, "must be a finite number")
