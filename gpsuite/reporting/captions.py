"""Captions of figures in sentences: what is drawn, how many repetitions, which interval, what was found."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gpsuite.reporting.catalogue import FigureNote
from gpsuite.reporting.figures import COUNTS, counted
from gpsuite.reporting.reading import read_bytes
from gpsuite.reporting.rows import ComparisonRow

_ERRORS = {"standard_error", "interval_low", "low"}
_PLACE = re.compile(r"(Fig|Table|Sec|App|Theorem|Lemma|Eq|Prop)s?\.? ")


def places(text: str) -> set[str]:
    """Return the places of a paper that a text names, one by one.

    `Sec. 6.1, Fig. 2-3` is `Sec. 6.1`, `Fig. 2` and `Fig. 3`; words without a number stand as they are.
    """
    found: set[str] = set()
    kind = ""
    for part in text.split(", "):
        match = _PLACE.match(part)
        if match:
            kind = match[1] + ("." if match[0].rstrip(" ").endswith(".") else "")
        number = part[match.end() :] if match else part
        span = re.fullmatch(r"(\d+)-(\d+)", number)
        if span and kind:
            found |= {f"{kind} {each}" for each in range(int(span[1]), int(span[2]) + 1)}
        elif match or (kind and number[:1].isdigit()):
            found.add(f"{kind} {number.split(' ')[0]}")
        else:
            found.add(part)
    return found


def caption(note: FigureNote, csv_path: Path, rows: Iterable[ComparisonRow], study: bool = False) -> str:
    """Return a figure's caption.

    Args:
        note: what is drawn, and what of the paper it stands for.
        csv_path: the numbers that it shows.
        rows: its run's comparison with the published values.
        study: whether the run has settings of its own, so that nothing of the paper is decided by it.
    """
    stands = f"A study beside {note.of} of the paper." if study and note.of else _found(note, rows)
    return " ".join(text for text in (note.shows, _behind(csv_path), stands) if text)


def _behind(path: Path) -> str:
    """Return how many values are behind a mark, and which interval its numbers have; nothing where they do not say."""
    try:
        table = list(csv.DictReader(io.StringIO(read_bytes(path).decode("utf-8"), newline="")))
    except (OSError, ValueError, csv.Error):
        return ""
    columns = set(table[0]) if table else set()
    if not columns & _ERRORS:
        return ""
    count = counted({name: [line[name] for line in table] for name in COUNTS if name in columns})
    named = sorted({line["interval"] for line in table if line.get("interval")})
    said = [
        count,
        f"the CSV has each mean's {' or '.join(named)}" if named else "",
    ]
    text = "; ".join(part for part in said if part)
    return f"{text[:1].upper() if not count else text[:1]}{text[1:]}." if text else ""


def _found(note: FigureNote, rows: Iterable[ComparisonRow]) -> str:
    """Return what was found of the figure's own values: what the paper does not state there is none."""
    if not note.of:
        return ""
    own = [row for row in rows if row.id in note.values or (not note.values and stated_at(note.of, row))]
    verdicts = Counter(row.verdict for row in own)
    decided = sum(verdicts[name] for name in ("reproduced", "partly", "not reproduced"))
    stands = f"Stands for {note.of} of the paper"
    if not decided:
        return f"{stands}."
    if decided == 1:
        [only] = (name for name in ("reproduced", "partly", "not reproduced") if verdicts[name])
        return f"{stands}: its one value or claim is {only}{' reproduced' if only == 'partly' else ''}."
    misses = [f"{verdicts[name]} {name}" for name in ("partly", "not reproduced") if verdicts[name]]
    rest = f", {', '.join(misses)}" if misses else ""
    return f"{stands}: of {decided} values and claims {verdicts['reproduced']} are reproduced{rest}."


def stated_at(of: str, row: ComparisonRow) -> bool:
    """Tell whether the paper states a value at one of these places; facts about the data are not the figure's."""
    return row.basis not in ("measurement", "dataset") and bool(places(of) & places(row.where))
