"""Text of users: what they typed, and what is in their files on its way to terminals, pages and figures."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

# What acts instead of being shown: control characters (escape sequences begin with one), marks that reverse the
# direction of writing, unusual line ends, and surrogates (bytes of names that are not UTF-8).
_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")

# What the grammar of settings reads as the text itself; digits make a number of the same text.
_PLAIN = re.compile(
    r"(?!(?:true|false|null|nan|inf)$)[a-z_][\w.-]*(?: [a-z_\d][\w.-]*)*|0|[1-9]\d{0,17}", re.IGNORECASE | re.ASCII
)


def visible(text: str) -> str:
    r"""Return the text on one line with every character that would act written out, such as `\x1b` or `\u202e`."""
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def visible_lines(text: str) -> str:
    """Return the text with its line ends kept and every other acting character written out."""
    return "\n".join(visible(line) for line in text.split("\n"))


def counted(number: int, noun: str) -> str:
    """Return a number of things: `1 row`, `2 rows`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
