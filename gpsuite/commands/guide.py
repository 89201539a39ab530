"""`gpsuite guide`: the pages of the guide in a terminal, without network."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

from gpsuite.commands.tables import console, show_json, show_lines, show_table
from gpsuite.commands.words import read_words
from gpsuite.errors import UserError, unknown
from gpsuite.text import line_width, wrapped

HELP = """
gpsuite guide [PAGE] [format=json]

Prints a page of the guide. Without PAGE it lists the pages. A terminal gets wrapped text, a pipe gets the Markdown.

gpsuite guide start            from a CSV to a checked certificate
gpsuite guide certify | less   a long page, screen by screen
"""

INDEX = "README.md"
_ENTRY = re.compile(r"- \[(.+?)\]\(([\w-]+)\.md\): (.+)")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
_ITEM = re.compile(r"(\s*(?:[-*]|\d+\.) )(.*)", re.DOTALL)
_FENCE = "```"


class Page(NamedTuple):
    """A page as the index lists it."""

    section: str
    name: str
    title: str
    about: str


def main(words: list[str]) -> int:
    """Print a page, or the list of pages.

    Raises:
        UserError: for a page that does not exist, with the nearest name.
    """
    given = read_words(words)
    if len(given.names) > 1:
        raise UserError(f"{given.names[1]}: guide takes one page\ngpsuite guide {given.names[0]}")
    found = pages()
    if not given.names:
        _show_pages(found, as_json=given.json)
        return 0
    name = given.names[0].removesuffix(".md")
    if name not in [page.name for page in found]:
        raise unknown(f"{name}: no such page", name, [page.name for page in found])
    text = page_text(name)
    if given.json:
        show_json({"page": name, "text": text})
    elif sys.stdout.isatty():
        _show(text)
    else:
        print(text, end="")
    return 0


def guide_dir() -> Path:
    """Return the folder of the pages: inside the installed package, or in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "guide"
    return inside if inside.is_dir() else package.parent / ".github" / "guide"


def page_text(name: str) -> str:
    """Return the Markdown of a page."""
    return (guide_dir() / f"{name}.md").read_text(encoding="utf-8")


def pages() -> list[Page]:
    """Return the pages in the order of the index."""
    found, section = [], ""
    for line in (guide_dir() / INDEX).read_text(encoding="utf-8").splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        entry = _ENTRY.fullmatch(line)
        if entry:
            found.append(Page(section, entry[2], entry[1], entry[3]))
    return found


def _show_pages(found: list[Page], *, as_json: bool) -> None:
    rows = [page._asdict() for page in found]
    if as_json:
        show_json({"pages": rows})
    elif not sys.stdout.isatty():
        show_table("pages", rows)
    else:
        longest = max(len(page.name) for page in found)
        for section in dict.fromkeys(page.section for page in found):
            print(f"\n{section}")
            show_lines([{"page": f"{p.name:<{longest}}", "about": p.about} for p in found if p.section == section])
        print("\ngpsuite guide PAGE prints one")


def _show(text: str) -> None:
    """Print Markdown on a terminal: text wrapped, tables drawn, code as it is."""
    item = False
    for number, block in enumerate(_blocks(text)):
        item, before = bool(_ITEM.match(block[0])), item
        if number and not (item and before):
            print()
        _show_block(block, line_width(sys.stdout))


def _show_block(block: list[str], width: int) -> None:
    from rich.text import Text

    first = block[0]
    if first.startswith((_FENCE, "    ")):
        indent = "    " if first.startswith(_FENCE) else ""
        print("\n".join(indent + line for line in block if not line.startswith(_FENCE)))
    elif first.startswith("#"):
        console().print(Text(_plain(first.lstrip("# ")), style="bold"))
    elif first.startswith("|"):
        head, _, *rows = [[_plain(cell.strip()) for cell in _cells(line)] for line in block]
        show_lines([dict(zip(_distinct(head), row, strict=True)) for row in rows])
    else:
        mark = _ITEM.match("\n".join(block))
        lead, content = (mark[1], mark[2]) if mark else ("", "\n".join(block))
        lines = wrapped(_plain(" ".join(content.split())), width - len(lead))
        print("\n".join([lead + lines[0], *(" " * len(lead) + line for line in lines[1:])]))


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of each paragraph, item, heading, table and piece of code."""
    block: list[str] = []
    fenced = False
    for line in text.splitlines():
        if line.startswith("<!--"):
            continue
        code = fenced or (line.startswith("    ") and (not block or block[0].startswith("    ")))
        begins = bool(_ITEM.match(line)) or line.startswith(("#", "|")) != bool(block and block[0].startswith("|"))
        if block and not code and (not line.strip() or begins):
            yield block
            block = []
        if line.startswith(_FENCE):
            fenced = not fenced
        if line.strip() or fenced:
            block.append(line)
    if block:
        yield block


def _cells(line: str) -> list[str]:
    return re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))


def _distinct(names: list[str]) -> list[str]:
    """Return names that differ: blanks are added to one that occurs twice."""
    return [name + " " * names[:place].count(name) for place, name in enumerate(names)]


def _plain(text: str) -> str:
    """Return text without the marks of links and emphasis. A link to a page becomes the command that prints it."""

    def shown(link: re.Match[str]) -> str:
        target = re.sub(r"^([\w-]+)\.md(#.*)?$", r"gpsuite guide \1", link[2])
        return f"{link[1]} ({target})"

    words = re.sub(r"(?<![\w`])(\*\*?)(?=\S)([^*`]+?)(?<=\S)\1(?![\w`])", r"\2", _LINK.sub(shown, text))
    return unescape(re.sub(r"\\([\\|])", r"\1", words))
