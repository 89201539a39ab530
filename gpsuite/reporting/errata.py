"""ERRATA.md: errors in the papers and in their authors' code, each with the test that shows it: conf/errata.yaml."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from gpsuite.reporting.catalogue import PaperNote

NAME = "ERRATA.md"
KINDS = {
    "formula": "formula",
    "text": "statement in words",
    "data": "fact about data",
    "code": "authors' code against the paper",
}
_HEAD = """# Errors found in the papers and their code

Made by `gpsuite report` from `conf/errata.yaml`: what is printed or done, what holds instead, the test that shows it
(tests of MNIST and SPAM need GPSUITE_DATA_PATH).
Comparisons with printed results and claims are in [Published results](README.md).
"""


@dataclass(frozen=True)
class Erratum:
    """An error in a paper, in notes on it, or in its authors' code.

    Args:
        paper: the paper's file in conf/paper, `reeb2018`.
        kind: a key of `KINDS`.
        where: in the paper.
        found: what is printed or done there.
        holds: what holds instead.
        test: that shows it, `tests/path.py::function`.
    """

    paper: str
    kind: str
    where: str
    found: str
    holds: str
    test: str


def read_errata(conf_dir: Path) -> list[Erratum]:
    """Return the entries of `conf_dir`/errata.yaml in their order. None if there is no such file.

    Raises:
        ValueError: if an entry has other fields than `Erratum`, or a kind that is not one of `KINDS`.
    """
    path = conf_dir / "errata.yaml"
    if not path.exists():
        return []
    entries: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    names = {field.name for field in fields(Erratum)}
    found = []
    for entry in entries["errata"]:
        if set(entry) != names or entry["kind"] not in KINDS:
            raise ValueError(f"conf/errata.yaml: {entry} needs {sorted(names)}, kind one of {sorted(KINDS)}")
        found.append(Erratum(**{name: " ".join(str(entry[name]).split()) for name in names}))
    return found


def errata_text(papers: Sequence[PaperNote], errata: Sequence[Erratum]) -> str:
    """Return the page as Markdown, with a table per paper."""
    lines = [_HEAD]
    for paper in papers:
        rows = [
            [KINDS[each.kind], each.where, each.found, each.holds, f"`{each.test}`"]
            for each in errata
            if each.paper == paper.name
        ]
        if rows:
            table = markdown_table(["kind", "where", "found there", "holds instead", "test"], rows)
            lines += [f"## {paper.title}", "", f"{paper.authors}, {paper.venue}.", "", *table, ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table's lines. Cells are Markdown with escaped bars and brackets."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines]


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split())).replace("<", "&lt;")
