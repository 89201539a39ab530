"""Name -> builder tables, one per kind. A module registers what it offers when it is imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from gpsuite import plugins
from gpsuite.errors import unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named builders of one kind, named as on the command line (`dataset`, `method`, ...).

    Plug-ins may add items of class `of` by entry points of the group `entry_points`.
    """

    def __init__(self, kind: str, entry_points: str = "", of: type = object) -> None:
        self.kind = kind
        self._entry_points = entry_points
        self._of = of
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
        """Return the item, ours or a plug-in's. The UserError for an unknown name lists the valid ones."""
        if name not in self._items and self._entry_points:
            found = plugins.load(self._entry_points, name, self._of)
            if found is not None:
                self._items[name] = found
        if name not in self._items:
            raise unknown_name(self.kind, name, self._items)
        return self._items[name]

    def faults(self) -> list[str]:
        """Import what plug-ins add, and return a sentence for each that is broken."""
        found = []
        for name in plugins.names_in(self._entry_points):
            try:
                self.get(name)
            except plugins.PluginError as error:
                found.append(str(error))
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._items))


def import_members(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, by its `__name__` and `__path__`: each registers what it offers."""
    for member in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{member.name}")
