"""Tables on stdout: drawn on a terminal, in brief where asked; tab separated and never truncated otherwise."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gpsuite.text import visible

SHORTEST = 8  # letters of a column that are never cut
FOLDABLE = 1.3  # a table this much wider than the terminal is still readable with folded cells


def show_table(title: str, rows: Sequence[Mapping[str, Any]], brief: Sequence[Mapping[str, Any]] | None = None) -> None:
    """Print rows with the same columns; on a terminal `brief` instead, one line each, cut to its width."""
    if not rows:
        print(f"{visible(title)}: none")
        return
    columns = list(rows[0])
    if sys.stdout.isatty():
        if brief is None:
            _draw(title, columns, rows)
        else:
            show_lines(brief)
        return
    print("\t".join(columns))
    for row in rows:
        print("\t".join(_cell(row.get(column)) for column in columns))


def show_lines(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print one line per row, the widest columns except the first cut until they fit the terminal."""
    if not rows:
        return
    columns = list(rows[0])
    table = [columns, *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    room = shutil.get_terminal_size().columns - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths[1:], default=0) > SHORTEST:
        widths[widths.index(max(widths[1:]), 1)] -= 1
    for line in table:
        print("  ".join(_cut(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cut(cell: str, width: int) -> str:
    return f"{cell:<{width}}" if len(cell) <= width else f"{cell[: width - 1]}…"


def _draw(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw a table if it fits, otherwise one block per row: columns folded to a few letters are unreadable."""
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, highlight=False)
    widths = [max(len(column), *(len(_cell(row.get(column))) for row in rows)) for column in columns]
    if sum(widths) + 3 * len(widths) > FOLDABLE * console.width:
        _blocks(columns, rows)
        return
    table = Table(title=visible(title), title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    console.print(table)


def _blocks(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    width = max(map(len, columns[1:]), default=0)
    for row in rows:
        print(_cell(row.get(columns[0])))
        for column in columns[1:]:
            if _cell(row.get(column)):
                print(f"  {column:<{width}}  {_cell(row.get(column))}")


def _cell(value: Any) -> str:
    return "" if value is None else visible(" ".join(str(value).split()))
