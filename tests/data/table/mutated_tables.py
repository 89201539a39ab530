"""Made-up tables whose numbers are known, written in the ways people write them; and files with bytes changed."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray

GAPS = ("", "NA", "NaN", "null", "?", "n/a")


@dataclass(frozen=True, eq=False)
class Written:
    """A table as written, and what must come back.

    Attributes:
        content: of the file.
        X: inputs of the rows without gaps [N', D].
        y: targets [N'].
        names: of the inputs.
        lost: rows with a gap.
        warts: how it is written.
    """

    content: bytes
    X: FloatArray
    y: FloatArray
    names: tuple[str, ...]
    lost: int
    warts: tuple[str, ...]


def written_table(rng: np.random.Generator) -> Written:
    """Return a table of 12 to 40 rows with a random choice of warts."""
    rows, inputs = int(rng.integers(12, 41)), int(rng.integers(1, 5))
    digits = int(rng.integers(1, 7))
    values = np.round(rng.normal(0.0, 10.0 ** rng.integers(-1, 4), (rows, inputs + 1)), digits)
    names = [str(name) for name in rng.choice(["x", "Größe", "a b", "T [K]", "p,q", "weight"], inputs, replace=False)]
    warts = {name for name in WARTS if rng.random() < 0.15}
    if "decimal comma" in warts:
        values += (np.abs(values) == np.floor(np.abs(values))) * 0.5  # every cell shows its comma
    separator = str(rng.choice([",", ";", "\t", "|"])) if "decimal comma" not in warts else ";"
    cells = [[_number(value, warts) for value in row] for row in values]
    lost = _with_gaps(cells, rng, warts)
    header = [*names, "target"]
    table = [header, *cells]
    if "id" in warts:
        table = [["id", *header], *([str(number), *row] for number, row in enumerate(cells, 1))]
    if "constant" in warts:
        table = [[*row, "7" if number else "batch"] for number, row in enumerate(table)]
    if "units" in warts:
        table.insert(1, ["[mm]"] * len(table[0]))
    kept = [row for row in range(rows) if row not in lost]
    content = _text(table, separator, rng, warts)
    return Written(content, values[kept, :-1], values[kept, -1], tuple(names), len(lost), tuple(sorted(warts)))


WARTS = (
    "decimal comma", "gaps", "id", "constant", "units", "sep line", "title", "utf-16", "latin-1", "bom", "quotes",
    "crlf", "blank lines", "trailing separators", "padding", "exponents", "percent", "unicode minus",
)  # fmt: skip


def _number(value: float, warts: set[str]) -> str:
    text = f"{value:.17e}" if "exponents" in warts else repr(float(value))
    text = repr(float(text)) if "e" not in text else text
    if "decimal comma" in warts:
        text = text.replace(".", ",")
    if "unicode minus" in warts and "latin-1" not in warts:
        text = text.replace("-", "\u2212", 1) if text.startswith("-") else text
    return f"{text}%" if "percent" in warts else text


def _with_gaps(cells: list[list[str]], rng: np.random.Generator, warts: set[str]) -> set[int]:
    if "gaps" not in warts:
        return set()
    lost = {int(row) for row in rng.choice(len(cells), int(rng.integers(1, 3)), replace=False)}
    for row in lost:
        cells[row][int(rng.integers(len(cells[row])))] = str(rng.choice(GAPS))
    return lost


def _text(table: list[list[str]], separator: str, rng: np.random.Generator, warts: set[str]) -> bytes:
    stream = io.StringIO()
    writer = csv.writer(
        stream,
        delimiter=separator,
        quoting=csv.QUOTE_ALL if "quotes" in warts else csv.QUOTE_MINIMAL,
        lineterminator="\n",
    )
    padded = [[f" {cell}" for cell in row] if "padding" in warts else row for row in table]
    writer.writerows([*row, ""] if "trailing separators" in warts else row for row in padded)
    lines = stream.getvalue().splitlines()
    if "blank lines" in warts:
        lines = [*lines[:1], "", *lines[1:], "", ""]
    if "title" in warts:
        lines = ["Measured by somebody", "", *lines]
    if "sep line" in warts:
        lines = [f"sep={separator}", *lines]
    text = ("\r\n" if "crlf" in warts else "\n").join(lines) + "\n"
    if "utf-16" in warts:
        return text.encode("utf-16")
    if "latin-1" in warts:
        return text.encode("latin-1")
    return text.encode("utf-8-sig" if "bom" in warts else "utf-8")


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the file with bytes, cells or lines changed, left out, doubled or put elsewhere."""
    lines = content.split(b"\n")
    for _ in range(int(rng.integers(1, 4))):
        kind, at = int(rng.integers(7)), int(rng.integers(len(lines)))
        line = lines[at]
        spot = int(rng.integers(len(line) + 1))
        if kind == 0:
            junk = rng.choice([b'"', b",", b";", b"\t", b"x", b"NA", b"-", b".", b"\xe9", b"\r", b"e5", b"1_0", b"inf"])
            lines[at] = line[:spot] + bytes(junk) + line[spot:]
        elif kind == 1:
            lines[at] = line[:spot] + line[spot + int(rng.integers(1, 5)) :]
        elif kind == 2:
            lines.insert(int(rng.integers(len(lines) + 1)), line)
        elif kind == 3 and len(lines) > 2:
            lines.pop(at)
        elif kind == 4:
            lines[at] = line[:spot] + bytes([int(rng.integers(256))]) + line[spot + 1 :]
        elif kind == 5:
            cells = line.split(b",")
            cells[int(rng.integers(len(cells)))] = bytes(
                rng.choice([b"", b"?", b"n/a", b"yes", b"1,5", b"2020-01-01", b"1e400"])
            )
            lines[at] = b",".join(cells)
        else:
            lines = lines[:at] + lines[at:][: int(rng.integers(1, len(lines) + 1))]
    return b"\n".join(lines)
