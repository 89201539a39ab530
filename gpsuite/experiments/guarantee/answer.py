"""An answer as data, and its three forms: lines of a terminal, answer.md, and page.html with pictures and tables."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gpsuite.reporting.files import cannot, read_bytes, write_text
from gpsuite.text import html, markdown, visible_name
from gpsuite.untrusted import UnusableFileError, read_png

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:1rem auto;padding:0 1rem;color:#222}"
    "img{max-width:100%;height:auto}figure{margin:.5rem 0}table{border-collapse:collapse;font-size:14px}"
    "td,th{border:1px solid #ccc;padding:.2rem .5rem;text-align:left}div.wide{overflow-x:auto}"
    ".headline{font-size:1.25rem}.light{padding:.5rem 1rem;border-left:.5rem solid;font-weight:600}"
    ".green{border-color:#1a7f37}.amber{border-color:#b58900}.red{border-color:#b00;color:#b00}"
    "code,p,li{overflow-wrap:anywhere}summary{cursor:pointer;font-size:1.25rem;font-weight:600}"
    "@media(min-width:60rem){.pictured{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:1.5rem}}"
)


@dataclass(frozen=True)
class Guarantee:
    """One line of an answer.

    Attributes:
        name: as in `Check.needed_by`.
        probability: with which it holds: `99 %`, or `Proved`.
        assumes: follows "if" in about five words. Empty if nothing is assumed of the data.
        says: what holds.
        use: what it is for.
        needs: what would make it say something. Not empty where it says nothing.
        picture: the figure that shows it.
        own_rows: whether it is about the run's predicted rows only.
    """

    name: str
    probability: str = ""
    assumes: str = ""
    says: str = ""
    use: str = ""
    needs: str = ""
    picture: str = ""
    own_rows: bool = False

    @property
    def line(self) -> str:
        """The sentence. `promised` finds the name in it again."""
        condition = f" if {self.assumes}" if self.assumes else ""
        name = "" if self.own_rows else f"{self.name}, "
        return f"{self.probability}{condition}: {self.says} ({name}for {self.use})."


def promised(lines: Sequence[str]) -> set[str]:
    """Return the names of the guarantees in the sentences that are kept with a model."""
    return {found[1] for line in lines if (found := re.search(r" \(([^(]+), for [^(]+\)\.$", line))}


@dataclass(frozen=True)
class Light:
    """Whether the answer can be relied on: the assumption that matters most, and what to do."""

    colour: Literal["green", "amber", "red"]
    says: str

    @property
    def line(self) -> str:
        return f"{self.colour.capitalize()}: {self.says}"


@dataclass(frozen=True)
class Rows:
    """The first predicted rows as a table of texts, its first line the heading, and where all of them are."""

    title: str = ""
    table: Sequence[Sequence[str]] = ()
    says: Sequence[str] = ()
    commands: Sequence[str] = ()

    def lines(self) -> list[str]:
        """Return the table with columns of equal width."""
        cells = [[visible_name(cell) for cell in row] for row in self.table]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return ["  ".join(["", *map(str.rjust, row, widths)]) for row in cells]


@dataclass(frozen=True)
class Answer:
    """Answer of a run about a table.

    Attributes:
        title: of file and page.
        headline: what the model predicts and how well, two or three sentences.
        light: see there.
        guarantees: the strongest first. Those with `needs` share a line at the end.
        rows: predictions.
        details: sentences.
        pictures: figure -> what it shows, for figures that belong to no guarantee. `headline` belongs to the headline.
    """

    title: str
    headline: str
    light: Light
    guarantees: Sequence[Guarantee] = ()
    rows: Rows = field(default_factory=Rows)
    details: Sequence[str] = ()
    pictures: dict[str, str] = field(default_factory=dict)

    @property
    def promises(self) -> list[Guarantee]:
        """The guarantees that say something."""
        return [each for each in self.guarantees if not each.needs]

    @property
    def silent(self) -> list[str]:
        """The one line on guarantees that say nothing, if there are some."""
        names = ", ".join(f"{each.name} (needs {each.needs})" for each in self.guarantees if each.needs)
        return [f"Says nothing here: {names}."] if names else []

    @property
    def kept(self) -> list[str]:
        """Part that is kept with the model: headline, light, and what holds of any rows, not only the run's."""
        lines = [each.line for each in self.promises if not each.own_rows]
        return [self.headline, self.light.line, *lines, *self.silent]

    def lines(self, folder: Path) -> list[str]:
        """Return the lines of a terminal. Those that begin with two blanks are not to be wrapped."""
        rows = self.rows
        table = ["", rows.title, *rows.lines()] if rows.table else []
        commands = [f"  {each}" for each in rows.commands]
        said = [self.headline, self.light.line, *(each.line for each in self.promises), *self.silent]
        return [*said, *table, *rows.says, *commands, f"Details and pictures: {folder / 'page.html'}"]


def write_answer(folder: Path, answer: Answer) -> list[str]:
    """Write answer.md and page.html from the answer, and the tables and figures in the run's folder.

    Returns:
        what is wrong with the pictures and tables that were left out.

    Raises:
        ResultsError: if a file cannot be read or written.
    """
    write_text(folder / "answer.md", "\n".join([*_markdown(folder, answer), ""]))
    faults: list[str] = []
    write_text(folder / "page.html", "\n".join([*_page(folder, answer, faults), ""]))
    return faults


def _markdown(folder: Path, answer: Answer) -> Iterator[str]:
    yield from (f"# {markdown(answer.title)}", "", markdown(answer.headline), "")
    yield from (f"**{answer.light.colour.capitalize()}:** {markdown(answer.light.says)}", "")
    yield from (f"- {markdown(line)}" for line in (*(each.line for each in answer.promises), *answer.silent))
    rows = answer.rows
    if rows.table:
        heading, *others = ([markdown(cell) for cell in row] for row in rows.table)
        yield from ("", f"## {markdown(rows.title)}", "", _cells(heading), _cells(["---:"] * len(heading)))
        yield from map(_cells, others)
    yield ""
    yield from (f"{markdown(text)}\n" for text in rows.says)
    yield from (f"    {command}\n" for command in rows.commands)
    yield from ("## Details", "", *(f"- {markdown(text)}" for text in answer.details))
    assumptions = folder / "tables" / "assumptions.md"
    if assumptions.exists():
        yield from ("", read_bytes(assumptions).decode("utf-8"))


def _cells(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _page(folder: Path, answer: Answer, faults: list[str]) -> Iterator[str]:
    """Yield the lines of the page. `faults` gets what is wrong with the pictures and tables that it leaves out."""
    figures, title = _figures(folder, faults), html(answer.title)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
    headline = f'<p class="headline">{html(answer.headline)}</p>'
    light = f'<p class="light {answer.light.colour}">{html(answer.light.line)}</p>'
    yield _pictured("div", headline + light, figures.pop("headline", ""))
    yield "<h2>Guarantees</h2><ul>"
    yield from (_pictured("li", html(each.line), figures.pop(each.picture, "")) for each in answer.promises)
    yield from (f"<li>{html(line)}</li>" for line in answer.silent)
    yield "</ul>"
    if answer.rows.table:
        yield f"<h2>{html(answer.rows.title)}</h2>{_table(answer.rows.table)}"
    yield from (f"<p>{html(text)}</p>" for text in answer.rows.says)
    yield from (f"<p><code>{html(command)}</code></p>" for command in answer.rows.commands)
    yield "<details><summary>Details</summary><ul>"
    yield from (f"<li>{html(text)}</li>" for text in answer.details)
    yield "</ul>"
    yield from (_pictured("div", html(answer.pictures.get(name, "")), each) for name, each in figures.items())
    yield from _tables(folder, faults)
    yield "</details></body></html>"


def _pictured(tag: str, inner: str, figure: str) -> str:
    """Return an element with its picture next to it, on a narrow screen below it."""
    if not figure:
        return f"<{tag}>{inner}</{tag}>"
    return f'<{tag}><div class="pictured"><div>{inner}</div>{figure}</div></{tag}>'


def _figures(folder: Path, faults: list[str]) -> dict[str, str]:
    found = {}
    for path in sorted((folder / "figures").glob("*.png")):
        try:
            source = base64.b64encode(read_png(path)).decode("ascii")
        except UnusableFileError as error:
            faults.append(str(error))
        else:
            image = f'<img alt="{html(path.stem)}" src="data:image/png;base64,{source}">'
            found[path.stem] = f"<figure>{image}</figure>"
    return found


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [
        "".join(f"<{tag}>{html(cell)}</{tag}>" for cell in row)
        for row, tag in zip(rows, ["th", *["td"] * (len(rows) - 1)], strict=True)
    ]
    return f'<div class="wide"><table>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'


def _tables(folder: Path, faults: list[str]) -> Iterator[str]:
    import pandas as pd

    options: dict[str, Any] = {"index": False, "escape": False, "float_format": "{:.4g}".format}
    for path in sorted((folder / "tables").glob("*.csv")):
        if path.stem == "statistics":
            continue
        try:
            table = pd.read_csv(io.BytesIO(read_bytes(path))).rename(columns=html)
        except (OSError, ValueError) as error:
            faults.append(str(cannot("read", path, error)))
        else:
            table = table.map(lambda cell: html(cell) if isinstance(cell, str) else cell)
            yield f'<h2>{html(path.stem)}</h2><div class="wide">{table.to_html(**options)}</div>'
