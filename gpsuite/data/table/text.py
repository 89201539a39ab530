"""From a file's name to its text: finding, reading and decoding."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
from pathlib import Path

from gpsuite.data.spec import MISSING
from gpsuite.data.table.names import csv_error, shorten
from gpsuite.errors import DataError, nearest
from gpsuite.text import typed_path

_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


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
        raise csv_error(key, "", "no file named", f"set dataset.{key}=FILE.csv")
    path = typed_path(text)
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


def decode(path: str, data: bytes, key: str = "path", *, strict: bool = False) -> tuple[str, list[str]]:
    """Return the text of a file and what was decided: UTF-8 or UTF-16 with a mark, else Windows-1252 (not if strict).

    Raises:
        DataError: if it is binary, or not UTF-8 and `strict`.
    """
    fix = "export the table as 'CSV UTF-8'"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not strict:
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode("utf-16"), ["the file is read as UTF-16"]
    if data.startswith(b"\x1f\x8b"):
        raise csv_error(key, path, "is compressed by gzip", "unpack it first, with gunzip")
    if b"\0" in data:
        raise csv_error(key, path, "is not a text CSV (it holds binary data)", fix)
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        if not strict and not _BINARY.search(data[:4096]):
            with contextlib.suppress(UnicodeDecodeError):
                return data.decode("cp1252"), [
                    f"the file is not UTF-8 (line {line}) and read as Windows-1252"
                ]
            return data.decode("latin-1"), [f"the file is not UTF-8 (line {line}) and read as Latin-1"]
        raise csv_error(key, path, f"is not a text CSV in UTF-8 (line {line})", fix) from error


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
