"""Text of users: what they typed, and what is in their files on its way to terminals, pages and figures.

What a file says reaches a terminal through `visible`, Markdown through `markdown`, a page through `html`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import textwrap
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TextIO

# What acts instead of being shown, or is not seen: control characters (escape sequences begin with one), marks that
# reverse the direction of writing, unusual line ends, what Unicode says to ignore if it is not known (zero-width
# characters, fillers, tags), and surrogates (bytes of names that are not UTF-8).
_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)

# What acts in Markdown. Not every bracket and star: tables are read as text, too. A link, a footnote and their
# definitions need `](`, `][` or `]:`, emphasis a `_` that no letter precedes. Code of plain words may stay code.
_MARKS = re.compile(
    r"`[\w./=~ -]+`|[\\|<`]|\](?=[(\[:])|&(?=#?\w+;)|(?<!\w)_"
    r"|^(?:>|[-+](?=\s|$)|#(?=#{0,5}(?:\s|$))|\d(?=\d{0,8}[.)](?:\s|$))|[-=](?=[-= ]*$))"  # begins a block
    r"|(?<=\s)#(?=#*$)"  # ends a heading
)
_PAIRED = ("*", "$", "~")  # act in pairs only. A lone one stays, as in the name of a run
_LONGEST_NAME = 80
USUAL_WIDTH, NARROWEST = 80, 40  # letters of a line

# Texts that the grammar of settings reads unchanged. Digits make a number of the same text.
_PLAIN = re.compile(
    r"(?!(?:true|false|null|nan|inf)$)[a-z_][\w.-]*(?: [a-z_\d][\w.-]*)*|0|[1-9]\d{0,17}", re.IGNORECASE | re.ASCII
)


def visible(text: str) -> str:
    r"""Return the text on one line with every character that would act written out, such as `\x1b` or `\u202e`."""
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def visible_name(text: str) -> str:
    """Return the visible text, cut to `_LONGEST_NAME`: a name must not push what we say about it out of sight."""
    shown = visible(text[: _LONGEST_NAME + 1])
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 3]}..."


def visible_lines(text: str) -> str:
    """Return the text with its line ends kept and every other acting character written out."""
    return "\n".join(visible(line) for line in text.split("\n"))


def markdown(text: str) -> str:
    """Return the text on one line of Markdown, also in a table, that shows it as it is: no link, picture or HTML."""
    shown = _MARKS.sub(_mark, visible(text.replace("\n", " ")).strip(" "))
    for mark in _PAIRED:
        if shown.count(mark) > 1:
            shown = shown.replace(mark, f"&#{ord(mark)};")
    return shown


def markdown_code(text: str) -> str:
    """Return a name as code in Markdown. A name with marks that act even there is shown as text."""
    return f"`{text}`" if visible(text) == text and not set(text) & set("`|<\\") else markdown(text)


def html(text: str) -> str:
    """Return the text as HTML that shows it as it is, line ends included, also in an attribute."""
    return escape(visible_lines(text))


def _mark(found: re.Match[str]) -> str:
    mark = found[0]
    if len(mark) > 1:
        return mark
    if mark in "\\|":
        return f"\\{mark}"
    if mark == "<":
        return "&lt;"
    return f"&#{ord(mark)};"


def counted(number: int, noun: str) -> str:
    """Return a number of things: `1 row`, `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def line_width(stream: TextIO) -> int:
    """Return how many letters a line may have: those of the terminal, or of a usual one if there is none."""
    columns = shutil.get_terminal_size((USUAL_WIDTH, 24)).columns if stream.isatty() else USUAL_WIDTH
    return max(columns, NARROWEST)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return a line of text as lines of at most `width` letters, broken between words only. `indent`: after the first.

    A word that is longer than a line stays whole.
    """
    found = textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )
    return found or [""]


def fitted(text: str, stream: TextIO) -> str:
    """Return lines of text as wide as a terminal, wrapped at words. As they are where the stream is none.

    One that begins with two blanks stays: a row of a table, or a command to be copied.
    """
    if not stream.isatty():
        return text
    width = line_width(stream)
    lines = (
        [line] if line.startswith("  ") else wrapped(line, width, "  " if line.startswith("- ") else "")
        for line in text.split("\n")
    )
    return "\n".join(each for line in lines for each in line)


def wrapped_command(words: Sequence[str], width: int) -> list[str]:
    """Return a command for a shell in lines that are pasted as one: all but the last end with a backslash."""
    lines = [""]
    for word in map(shlex.quote, words):
        if lines[-1] and len(lines[-1]) + len(word) + 3 > width:
            lines.append(f"   {word}")
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return [*(f"{line} \\" for line in lines[:-1]), lines[-1]]


def list_word(key: str, texts: Sequence[str]) -> str:
    """Return the word that sets a list of texts, with the quotes that the grammar of settings and a shell need."""
    from hydra.core.override_parser.types import Quote, QuotedString

    shown = [text if _PLAIN.fullmatch(text) else QuotedString(text, Quote.double).with_quotes() for text in texts]
    word = f"{key}=[{','.join(shown)}]"
    return word if shown == list(texts) and " " not in word else shlex.quote(word)


def typed_path(text: str) -> Path:
    """Return the path that a user means: as typed if it exists, otherwise with a leading `~` expanded."""
    path = Path(text)
    if text.startswith("~") and not os.path.lexists(path):
        return Path(os.path.expanduser(text))
    return path
