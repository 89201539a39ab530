"""Task params: frozen dataclasses, one for each kind of task, and the plain JSON that their keys are hashed from.

A field may say in its metadata how it stands in the JSON::

    problem: Problem = field(metadata=INLINE)  # the problem's own fields, not an object of them
    limit: float | None = field(default=None, metadata=OPTIONAL)  # left out when it is None
    broken: str = field(metadata=named("break"))
    search: str = field(default="published", metadata=left_out_as("published"))  # keys older than it stay
    title: str = field(metadata=LEFT_OUT)  # for people: it changes no number
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from typing import Any, TypeVar

Json = Any  # None, bool, int, float, str, list or dict of the same

Name = TypeVar("Name", bound=str)

INLINE = {"inline": True}
OPTIONAL = {"optional": True}
LEFT_OUT = {"left_out": True}


def named(name: str) -> dict[str, str]:
    """Return the metadata of a field that has another name in the JSON."""
    return {"json": name}


def left_out_as(value: Json) -> dict[str, Json]:
    """Return the metadata of a field that is left out of the JSON when it has this value."""
    return {"left_out_as": value}


def choice(value: str, valid: Iterable[Name]) -> Name:
    """Return a word of the settings as what it is known to be: one of the valid ones.

    Raises:
        ValueError: if it is none of them.
    """
    for known in valid:
        if known == value:
            return known
    raise ValueError(f"{value}: must be one of {', '.join(valid)}")


def plain(value: object) -> Json:
    """Return params as plain JSON values: a dataclass as an object of its fields, a tuple as a list.

    Raises:
        ValueError: if two fields of a dataclass, those of inlined ones included, have the same name.
    """
    if is_dataclass(value):
        pairs = [pair for field in fields(value) for pair in _members(field, getattr(value, field.name))]
        if len(dict(pairs)) < len(pairs):
            raise ValueError(f"{type(value).__name__}: two fields have the same name in the JSON")
        return dict(pairs)
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value


def _members(field: Field[Any], value: object) -> Iterator[tuple[str, Json]]:
    """Yield what a field adds to its object: nothing, one member, or its value's own members."""
    if field.metadata.get("inline"):
        yield from plain(value).items()
    elif field.metadata.get("left_out") or (value is None and field.metadata.get("optional")):
        return
    elif "left_out_as" not in field.metadata or value != field.metadata["left_out_as"]:
        yield field.metadata.get("json", field.name), plain(value)
