"""Output of commands: tables that wrap at words on a terminal, tab separated and whole on a pipe. JSON on request."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gpsuite.text import fitted, line_width, visible, visible_lines, wrapped, wrapped_command

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2  # letters between columns
# how a cell that is one of these words is coloured, on a terminal that allows it
STYLES = {
    **dict.fromkeys(("ok", "reproduced", "confirmed", "complete", "yes"), "green"),
    **dict.fromkeys(("note", "undecided"), "yellow"),
    **dict.fromkeys(("problem", "differs", "refuted", "changed"), "bold red"),
    **dict.fromkeys(("missing", "not run"), "dim"),
}


def show_table(title: str, rows: Sequence[Mapping[str, Any]], brief: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Print rows with the same columns. On a terminal `brief` instead, if given."""
    if not rows:
        print(f"{visible(title)}: none")
    elif sys.stdout.isatty():
        show_lines(rows if brief is None else brief)
    else:
        columns = list(rows[0])
        print("\t".join(columns))
        for row in rows:
            print("\t".join(_cell(row.get(column)) for column in columns))


def show_lines(rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw a table as wide as the terminal: wide columns wrap at words. Rows that have no room are blocks."""
    if not rows:
        return
    columns = list(rows[0])
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    widths = _widths([columns, *cells], line_width(sys.stdout) - GAP * (len(columns) - 1))
    if widths is None:
        _blocks(columns, cells)
    else:
        _draw(columns, cells, widths)


def _widths(table: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """Return the columns' widths within the room, none narrower than its longest word. None if that is impossible."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    least = [
        min(max((len(word) for cell in column for word in cell.split()), default=0), width)
        for column, width in zip(zip(*table, strict=True), widths, strict=True)
    ]
    while sum(widths) > room:
        spare = [width - narrow for width, narrow in zip(widths, least, strict=True)]
        if not any(spare):
            return None
        widest = max((place for place in range(len(widths)) if spare[place]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


def _draw(columns: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold", collapse_padding=True)
    numeric = [all(_is_number(row[place]) for row in cells) for place in range(len(columns))]
    for column, width, number in zip(columns, widths, numeric, strict=True):
        table.add_column(Text(column), width=width, overflow="fold", justify="right" if number else "left")
    for row in cells:
        table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
    console().print(table)


def console() -> Console:
    """Return what draws on stdout: as wide as the terminal, also one that cannot move its cursor. NO_COLOR holds."""
    from rich.console import Console

    # without a height a dumb terminal is treated as one of 80 columns
    return Console(markup=False, highlight=False, width=line_width(sys.stdout), height=24)


def _is_number(cell: str) -> bool:
    return not cell or cell.replace(".", "", 1).replace("-", "", 1).isdigit()


def _blocks(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print each row as its first cell, and below it every other one behind its column's name."""
    width, name = line_width(sys.stdout), max(map(len, columns[1:]), default=0)
    for row in cells:
        print("\n".join(wrapped(row[0], width)))
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                print("\n".join(wrapped(f"  {column:<{name}}  {cell}", width, " " * (name + 4))))


def say(text: str, stream: TextIO | None = None) -> None:
    """Print a line of text to stdout or another stream. On a terminal it wraps at words."""
    stream = stream or sys.stdout
    print(fitted(text, stream), file=stream)


def say_command(words: Sequence[str]) -> None:
    """Print a command that can be pasted into a shell, as wide as the terminal."""
    width = line_width(sys.stdout) if sys.stdout.isatty() else sys.maxsize
    print(visible_lines("\n".join(wrapped_command(words, width))))


def _cell(value: Any) -> str:
    return "" if value is None else visible(" ".join(str(value).split()))


def show_json(value: Any) -> None:
    """Print one JSON object. Numbers are numbers, infinities and NaN, which JSON has not, are null."""
    print(json.dumps(plain(value), ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return a value of what JSON has."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:  # a number of numpy
        return plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(cell: str) -> str | float | None:
    """Return a table's cell as the number that it is, None if it is empty, or its text."""
    try:
        return int(cell) if cell.lstrip("-").isdigit() else float(cell)
    except ValueError:
        return cell or None
