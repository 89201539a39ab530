"""Name -> builder tables, one per kind; a module registers what it offers when it is imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from gpsuite.errors import unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named builders of one kind, named as on the command line (`dataset`, `method`, ...)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that stores its argument under `name`.

        Raises:
            ValueError: if the name is taken.
        """

        def store(item: T) -> T:
            if name in self._items:
                raise ValueError(f"{self.kind} '{name}' is registered twice")
            self._items[name] = item
            return item

        return store

    def get(self, name: str) -> T:
        """Return the item; the UserError for an unknown name lists the valid ones."""
        if name not in self._items:
            raise unknown_name(self.kind, name, self._items)
        return self._items[name]

    def __contains__(self, name: str) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._items))


def import_members(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, by its `__name__` and `__path__`: each registers what it offers."""
    for member in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{member.name}")
