"""One statement, one row: the rows of several runs that are parts of one statement of a paper, joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpsuite.reporting.comparison import ComparisonRow, Verdict

# the verdict on a statement is the first of these on a part. A part without a run does not count next to others
_WEIGHT: tuple[Verdict, ...] = ("differs", "undecided", "reproduced", "not run")
TOGETHER = "cells of all parts"  # in place of a share's interval


def join_parts(rows: Iterable[ComparisonRow], part_of: Mapping[str, str]) -> dict[str, tuple[str, ComparisonRow]]:
    """Return statement -> id of the part that decides it, and the joined row.

    Args:
        part_of: id of a part -> id of its statement.
    """
    found: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        if row.id in part_of:
            found.setdefault(part_of[row.id], []).append(row)
    return {name: _joined(name, parts) for name, parts in found.items()}


def _joined(name: str, parts: Sequence[ComparisonRow]) -> tuple[str, ComparisonRow]:
    run = [part for part in parts if part.verdict != "not run"] or parts
    verdict = min((part.verdict for part in run), key=_WEIGHT.index)
    deciding = [part for part in run if part.verdict == verdict]
    chosen = max(deciding, key=_shortfall)
    told = [f"{part.dataset}: {part.verdict}{f', {part.note}' if part.note else ''}" for part in parts]
    joined = replace(
        chosen,
        id=name,
        dataset=_list(part.dataset for part in run),
        method=_list(part.method for part in run),
        note="; ".join(told),
        remark=next((part.remark for part in deciding if part.remark), ""),  # written for the statement
        standard_error=None,
        interval="",
        difference=None,
    )
    cells = [(part.ours, part.n) for part in run if part.asked == "in all cells" and part.interval]
    if len(cells) == len(run):
        total = sum(n or 0 for _, n in cells)
        held = sum((ours or 0.0) * (n or 0) for ours, n in cells)
        joined = replace(joined, ours=held / total if total else None, n=total, interval=TOGETHER)
    return chosen.id, joined


def _shortfall(row: ComparisonRow) -> float:
    """Return a number that is the larger, the further ours is on the wrong side of a limit."""
    if row.ours is None:
        return 0.0
    return row.ours if row.asked.startswith("at most") else -row.ours


def _list(texts: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(part for text in texts for part in text.split(", ")))
