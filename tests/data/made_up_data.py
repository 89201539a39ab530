"""Small made-up datasets and tables for the data tests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpsuite.data import CsvSpec, DatasetSpec, FileSpec

CONF_DIR = Path(__file__).resolve().parents[2] / "conf"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def made_up(content: bytes = b"1 2 3\n" * 50, *, file: str = "table.txt", urls: tuple[str, ...] = ()) -> DatasetSpec:
    """Return the description of a dataset of one file."""
    return DatasetSpec(
        name="made_up",
        title="made up",
        task="regression",
        loader="boston",
        rows=50,
        n_inputs=2,
        files=[FileSpec(name=file, sha256=sha256(content), urls=list(urls))],
        licence="none",
        citation="nobody",
    )


def table(rows: int = 12, header: str = "a,b,y") -> list[str]:
    """Return the lines of a good table: the header and rows of three different numbers."""
    return [header, *(f"{i},{i * i % 7}.5,{3 * i - 1}e-1" for i in range(rows))]


def write(folder: Path, lines: Sequence[str] | bytes, name: str = "t.csv") -> str:
    """Write a file and return its path as a user would type it."""
    content = lines if isinstance(lines, bytes) else ("\n".join(lines) + "\n").encode()
    (folder / name).write_bytes(content)
    return str(folder / name)


def csv_spec(path: str, target: Any = "y", **changes: Any) -> CsvSpec:
    """Return the description of a user's table."""
    return CsvSpec(path=path, target=target, **changes)
