"""`gpsuite data`: what datasets there are, fetching them, verifying their files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from gpsuite.commands.list import dataset_lines
from gpsuite.commands.show import show_table
from gpsuite.commands.words import read_words
from gpsuite.config.files import conf_dir
from gpsuite.data.catalogue import dataset_names, describe, read_spec
from gpsuite.data.files import fetch, verify
from gpsuite.data.spec import DatasetSpec
from gpsuite.errors import DataError, UserError, unknown_name
from gpsuite.text import visible_lines

HELP = """
gpsuite data list                   rows, inputs, licence, and where each dataset was found
gpsuite data fetch [name ...]       download what is missing into data/, verified by SHA-256
gpsuite data verify [name ...]      read every file and compare its SHA-256; exit code 1 when one has changed

Files are looked up in $GPSUITE_DATA_PATH (a list of folders), then in data/ (data_dir=DIR).
"""

ACTIONS = ("list", "fetch", "verify")


def main(words: list[str]) -> int:
    """Do what the first word says with the datasets named, all by default."""
    given = read_words(words)
    if not given.names:
        raise UserError(f"data: say what to do\nvalid: {', '.join(ACTIONS)}")
    action, names = given.names[0], given.names[1:]
    if action not in ACTIONS:
        raise unknown_name("data", action, ACTIONS)
    known = dataset_names(conf_dir())
    for name in names:
        if name not in known:
            raise unknown_name("dataset", name, known)
    if action == "list":
        rows = [row for row in describe(conf_dir(), given.data_dir) if not names or row.name in names]
        show_table("datasets", [asdict(row) for row in rows], dataset_lines(rows))
        return 0
    chosen = list(_named_datasets(names or known))
    return _fetch(chosen, given.data_dir) if action == "fetch" else _verify(chosen, given.data_dir)


def _named_datasets(names: Sequence[str]) -> Iterator[DatasetSpec]:
    """Yield the specs that have files of their own (all but the user's CSV)."""
    for name in names:
        spec = read_spec(conf_dir(), name)
        if isinstance(spec, DatasetSpec):
            yield spec


def _fetch(chosen: Sequence[DatasetSpec], data_dir: Path) -> int:
    """Fetch every dataset; one that fails does not stop the others."""
    code = 0
    for spec in chosen:
        try:
            paths = fetch(spec, data_dir)
        except DataError as error:
            print(f"gpsuite: {visible_lines(str(error))}", file=sys.stderr)
            code = 1
            continue
        for path in paths.values():
            print(path)
        if not paths:
            print(f"{spec.name}: embedded, nothing to fetch")
    return code


def _verify(chosen: Sequence[DatasetSpec], data_dir: Path) -> int:
    """Print every file's state; 1 when a file was changed (a missing file is only reported)."""
    rows = []
    for spec in chosen:
        for state in verify(spec, data_dir):
            rows.append(
                {
                    "dataset": spec.name,
                    "file": state.name,
                    "state": f"{state.state} (optional)" if state.optional else state.state,
                    "path": state.path,
                    "hash": state.hash_kind,
                    "expected": state.expected,
                    "found": state.found,
                }
            )
        if not spec.files:
            rows.append(
                {
                    "dataset": spec.name,
                    "file": "(embedded)",
                    "state": "verified when loaded",
                    "path": "",
                    "hash": "sha256 of the arrays",
                    "expected": spec.content_sha256,
                    "found": "",
                }
            )
    show_table("files", rows)
    return 1 if any(str(row["state"]).startswith("changed") for row in rows) else 0
