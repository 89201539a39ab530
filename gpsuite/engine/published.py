"""The records under results/published, where a store looks for what it does not hold itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from gpsuite.engine.archive import Archive, Sealed
from gpsuite.reporting.archives import ARCHIVE
from gpsuite.text import visible


class PublishedRecords:
    """The published records of a family; an archive that cannot be read is named once, on stderr, and left out.

    Args:
        results_dir: the results folder.
        family: first part of the experiments' names.
    """

    def __init__(self, results_dir: Path, family: str) -> None:
        self.folder = results_dir / "published" / family
        self.used = False  # whether a record was taken from here

    def get(self, key: str) -> Sealed | None:
        """Return the record of a key from the first archive that has it, or None."""
        archive = self._places.get(key)
        self.used = self.used or archive is not None
        return None if archive is None else archive.get(key)

    @cached_property
    def _places(self) -> dict[str, Archive]:
        places: dict[str, Archive] = {}
        for archive, keys in self._readable():
            for key in keys:
                places.setdefault(key, archive)
        return places

    def _readable(self) -> Iterator[tuple[Archive, list[str]]]:
        for path in sorted(self.folder.glob(f"*/*/{ARCHIVE}")):
            archive = Archive(path)
            try:
                yield archive, archive.keys
            except (
                Exception
            ) as error:  # a damaged archive raises a dozen kinds, from LZMAError to MemoryError
                text = f"{path}: damaged records, count as missing ({type(error).__name__}: {error})"
                print(f"gpsuite: {visible(text)}", file=sys.stderr)
