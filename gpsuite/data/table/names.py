"""Columns of a table that the user names. Names may hold commas, brackets, quotes or spaces."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpsuite.errors import DataError
from gpsuite.text import visible

_SHOWN_CHARACTERS = 80
_SHOWN_VALUE = 300  # long enough that a path keeps its file name


def csv_error(key: str, value: object, text: str, *more: str, fix: Mapping[str, str] | None = None) -> DataError:
    """Return the error for a wrong `dataset.KEY=VALUE`.

    Args:
        key: key without `dataset.`.
        value: given value.
        text: description of the fault.
        more: further lines.
        fix: values of keys, without `dataset.`, that fix it.
    """
    first = f"dataset.{key}={shorten(str(value), _SHOWN_VALUE)}: {text}"
    fixed = {f"dataset.{name}": given for name, given in (fix or {}).items()}
    return DataError("\n".join([first, *more]), key=f"dataset.{key}", fix=fixed)


def shorten(text: str, length: int = _SHOWN_CHARACTERS) -> str:
    """Return the text on one line of at most `length` characters."""
    line = " ".join(text.splitlines())
    return line if len(line) <= length else line[: length - 3] + "..."


def name_list(names: Sequence[str]) -> str:
    """Return all names in the list syntax of `dataset.inputs`. They are read back as the same names."""
    return f"[{', '.join(_quoted(name) for name in names)}]"


def _quoted(name: str) -> str:
    line = " ".join(name.splitlines())
    return f'"{line}"' if "," in line or line[:1] in "\"'" else line


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first repeated name, or None if all are different."""
    seen = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def choose_columns(key: str, value: Any, header: Sequence[str]) -> list[int]:
    """Return the column numbers that `dataset.KEY=VALUE` names.

    A text is first read as one column name, then as `[a, b]` or `a, b`. A name with a comma is recognised and may be in
    quotes.

    Args:
        key: `target` or `inputs`.
        value: a text, or a sequence of names.
        header: the table's column names, all different.

    Raises:
        DataError: if a name is not in the table (with the nearest one), is named twice, or none is named.
    """
    position = {name: column for column, name in enumerate(header)}
    if isinstance(value, str):
        names = _split_names(visible(value.strip()), position)  # as the header shows them
    elif isinstance(value, Sequence):
        names = [visible(str(name).strip()) for name in value]
    else:
        names = [str(value)]
    if not names:
        raise csv_error(key, value, "names no column", f"columns: {name_list(header)}")
    if any(name not in position for name in names):
        raise _no_such_columns(key, value, names, header)
    repeated = first_repeated(names)
    if repeated is not None:
        raise csv_error(key, value, f"names column {shorten(repeated)!r} twice", "name it once")
    return [position[name] for name in names]


def split_values(value: Any) -> list[str]:
    """Return the values of a list setting: `a`, `a, b`, `[a, "b, c"]`, or a list already."""
    if value is None:
        return []
    if not isinstance(value, str):
        return [str(each).strip() for each in (value if isinstance(value, Sequence) else [value])]
    text = value.strip()
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return [_unquoted(each.strip()) for each in re.findall(r'"[^"]*"|[^,]+', inner) if each.strip()]


def values_by_column(value: Any, header: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of a setting such as `dataset.na` by column. Values for all columns have the empty name."""
    found: dict[str, list[str]] = {}
    for item in split_values(value):
        places = [place for place, letter in enumerate(item) if letter == "="]
        named = next((place for place in reversed(places) if item[:place].strip() in header), None)
        name, text = ("", item) if named is None else (item[:named].strip(), item[named + 1 :].strip())
        found.setdefault(name, []).append(_unquoted(text))
    return found


def other_columns(path: str, target: Any, used: Sequence[int], header: Sequence[str]) -> list[int]:
    """Return the numbers of the columns that are not `used`: the default inputs.

    Raises:
        DataError: if none is left, or a column has no name.
    """
    inputs = [column for column in range(len(header)) if column not in used]
    if not inputs:
        text = "no input is left: every other column is a target or left out"
        raise csv_error("target", target, text, "name fewer targets, or ignore fewer columns (dataset.ignore)")
    unnamed = [column for column in inputs if not header[column]]
    if unnamed:
        named = [header[column] for column in inputs if header[column]]
        text = f"column {unnamed[0] + 1} has no name (a stored row number?)"
        raise csv_error("path", path, text, f"name it, or leave it out: dataset.inputs={name_list(named)}")
    return inputs


def _split_names(text: str, columns: Iterable[str]) -> list[str]:
    known = set(columns)
    if text in known:
        return [text]
    pieces = (text[1:-1] if text.startswith("[") and text.endswith("]") else text).split(",")
    if not pieces[-1].strip() and "" not in known:
        pieces.pop()
    longest = 1 + max(name.count(",") for name in known)
    names = []
    start = 0
    while start < len(pieces):
        name, start = _next_name(pieces, start, longest, known)
        names.append(name)
    return names


def _next_name(pieces: list[str], start: int, longest: int, known: set[str]) -> tuple[str, int]:
    """Return the longest known name made of the next pieces, or the next piece, and where to continue."""
    for stop in range(min(start + longest, len(pieces)), start, -1):
        candidate = ",".join(pieces[start:stop]).strip()
        for name in (candidate, _unquoted(candidate)):
            if name in known:
                return name, stop
    return _unquoted(pieces[start].strip()), start + 1


def _unquoted(text: str) -> str:
    return text[1:-1].strip() if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text


def _no_such_columns(key: str, value: Any, names: Sequence[str], header: Sequence[str]) -> DataError:
    """Return the error that names all missing columns, with the fix if each has a near name."""
    near = {name: name if name in header else _nearest(name, header) for name in names}
    text = "; ".join(
        f"no column {shorten(name)!r}" + (f". Did you mean '{near[name]}'?" if near[name] else "")
        for name in dict.fromkeys(names)
        if name not in header
    )
    fixed = list(near.values())
    usable = all(fixed) and len(set(fixed)) == len(fixed)
    fix = {key: fixed[0] if len(fixed) == 1 else name_list(fixed)} if usable else None
    return csv_error(key, value, text, f"columns: {name_list(header)}", fix=fix)


def _nearest(name: str, header: Sequence[str]) -> str:
    """Return the column of the same letters or the nearest name, or an empty string."""
    same = [column for column in header if column.casefold() == name.casefold()]
    return (same or difflib.get_close_matches(name, header, n=1, cutoff=0.5) or [""])[0]
