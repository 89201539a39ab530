"""Tables on stdout: drawn by rich on a terminal, tab separated and never truncated otherwise."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any


def show_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows that share their columns."""
    if not rows:
        print(f"{title}: none")
        return
    columns = list(rows[0])
    if sys.stdout.isatty():
        _draw(title, columns, rows)
        return
    print("\t".join(columns))
    for row in rows:
        print("\t".join(_cell(row.get(column)) for column in columns))


def _draw(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_lines=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns), style=None)
    Console(markup=False, highlight=False).print(table, markup=False)


def _cell(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())
