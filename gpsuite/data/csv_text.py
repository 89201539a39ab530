"""From a file to the rows of a table: finding, decoding and splitting, before any column is chosen."""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from gpsuite.data.csv_columns import csv_error, first_repeated, shorten
from gpsuite.data.spec import MISSING
from gpsuite.errors import DataError, nearest
from gpsuite.text import visible

Row: TypeAlias = tuple[int, list[str]]  # the line of the file it begins in, counted from 1, and its cells

_OTHER_SEPARATORS = {";": ";", "\t": "\\t", "|": "|", ",": ","}


def csv_path(text: str) -> Path:
    """Return the file meant by `dataset.path`: as it stands, else with a leading `~` expanded."""
    path = Path(text)
    if text.startswith("~") and not os.path.lexists(path):
        return Path(os.path.expanduser(text))
    return path


def parse_separator(text: str) -> str:
    r"""Return the separating character; the two characters `\t` mean a tab.

    Raises:
        DataError: if it is not one character, or one that CSV uses itself.
    """
    separator = "\t" if text == "\\t" else text
    if len(separator) != 1 or separator in '"\r\n\0':
        text = "must be one character, or \\t for a tab"
        raise csv_error("separator", repr(separator), text, "e.g. dataset.separator=';'")
    return separator


def read_bytes(text: str, key: str = "path") -> bytes:
    """Return the content of the file `dataset.KEY` names.

    Raises:
        DataError: if there is none (with the nearest name in its folder), or it is a folder, empty or unreadable.
    """
    if text in (MISSING, ""):
        raise csv_error(key, text, "no file named", f"set dataset.{key}=FILE.csv")
    path = csv_path(text)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise csv_error(key, text, "is a folder", "name the CSV file in it")
        if not stat.S_ISREG(mode):
            raise csv_error(key, text, "is not a regular file", "store the table in a file first")
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_such_file(text, path, key) from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise csv_error(key, text, f"cannot be read: {reason}", "check its name and permissions") from error
    if not data.strip():
        raise csv_error(key, text, "the file is empty", "it needs a line of column names, then the rows")
    return data


def decode(path: str, data: bytes, key: str = "path") -> str:
    """Return the text of a UTF-8 file, with or without byte order mark.

    Raises:
        DataError: if it is not UTF-8, or binary.
    """
    fix = "export the table as 'CSV UTF-8'"
    if b"\0" in data:
        raise csv_error(key, path, "is not a text CSV (it holds binary data)", fix)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise csv_error(key, path, f"is not a text CSV in UTF-8 (line {line})", fix) from error


def split_rows(path: str, text: str, separator: str, key: str = "path") -> Iterator[Row]:
    """Yield the rows that are not blank, the column names first.

    Raises:
        DataError: where the quoting is broken.
    """
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        start = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            hint = "look for a quote that is not closed, or not doubled inside a quoted cell"
            raise csv_error(key, path, f"line {start}: not valid CSV ({error})", hint) from error
        if row is None:
            return
        if len(row) > 1 or (row and row[0].strip()):
            yield start, row


def read_header(
    path: str, rows: Iterator[Row], separator: str, *, key: str = "path", least: int = 2
) -> list[str]:
    """Return the column names, stripped of blanks, from the first row; control characters are written out.

    Raises:
        DataError: if there are fewer than `least` columns (the separator is probably another), or two have the same
            name.
    """
    _, cells = next(rows, (0, []))
    header = [cell.strip() for cell in cells]
    if len(header) < least:
        line = "".join(header)
        others = [shown for mark, shown in _OTHER_SEPARATORS.items() if mark in line and mark != separator]
        fix = f"set dataset.separator='{others[0]}'" if others else "it needs a target and one input at least"
        shown = "\\t" if separator == "\t" else separator
        raise csv_error("separator", f"'{shown}'", f"only one column found in {path}: {shorten(line)!r}", fix)
    header = [visible(name) for name in header]
    repeated = first_repeated(header)
    if repeated is not None:
        fix = "the first line must hold the column names, all different"
        raise csv_error(key, path, f"two columns are named {shorten(repeated)!r}", fix)
    return header


def _no_such_file(text: str, path: Path, key: str) -> DataError:
    folder = path.parent
    if not os.path.isdir(folder):
        return csv_error(
            key, text, f"there is no folder '{shorten(str(folder), 300)}'", f"check dataset.{key}"
        )
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    return csv_error(key, text, f"no such file{nearest(path.name, names)}", f"looked in {folder.absolute()}")
