"""Plain words: sentences of README, guide, CONTRIBUTING and published notes are short."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# --- sentences of README, guide, CONTRIBUTING and notes ---

LONGEST, LONGEST_MEAN = 30, 18  # words of a sentence, and of all sentences of a page on average
PROSE = [ROOT / "README.md", ROOT / ".github/CONTRIBUTING.md", *sorted((ROOT / ".github/guide").glob("*.md"))]
NOTES = sorted((ROOT / "results/published").rglob("NOTES.md"))
NO_TEXT = ("#", "|", "![")  # how headings, tables and pictures begin
SHORTENED = re.compile(r"\b(et al|Fig|Eq|e\.g|i\.e|vs)\.|\.\.\.")  # a full stop that ends no sentence


def paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs and items of Markdown as one line each: without code, tables, headings, pictures and remarks."""
    text = re.sub(r"^```.*?^```$|^<!--.*?-->$", "", text, flags=re.DOTALL | re.MULTILINE)
    block: list[str] = []
    code = False
    for line in [*text.splitlines(), ""]:
        mark = re.match(r"\s*([-*]|\d+\.) ", line)
        code = line.startswith("    ") and not mark and (code or not block)
        ends = not line.strip() or code or mark or line.lstrip().startswith(NO_TEXT)
        if ends and block:
            yield " ".join(block)
            block = []
        if line.strip() and not code and not line.lstrip().startswith(NO_TEXT):
            block.append(line[mark.end() :] if mark else line.strip())


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph; code in it counts as one word, a link as its text."""
    plain = re.sub(r"`[^`]*`", "CODE", paragraph)
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
    plain = SHORTENED.sub(lambda found: found[0].replace(".", ""), plain)
    return [each for each in re.split(r"(?<=[.!?])[*_)\"']*\s+", plain) if words(each)]


def words(sentence: str) -> int:
    """Return the number of words."""
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


@pytest.mark.parametrize("path", [*PROSE, *NOTES], ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_are_short(path: Path) -> None:
    found = [each for part in paragraphs(path.read_text(encoding="utf-8")) for each in sentences(part)]
    assert found
    assert [each for each in found if words(each) > LONGEST] == []
    assert sum(map(words, found)) / len(found) < LONGEST_MEAN


def test_what_is_no_sentence_is_not_counted() -> None:
    text = (
        "# A heading\n\nOne `code with words`, see [two words](a.md#b). Three et al. 2018\ngo on.\n\n"
        "    code that is no text\n\n1. An item.\n   It goes on.\n\n       more code\n\n| a | table |\n"
        "```python\nfenced = 1\n```\n- Last one"
    )
    found = [sentences(each) for each in paragraphs(text)]
    assert found == [
        ["One CODE, see two words.", "Three et al 2018 go on."], ["An item.", "It goes on."], ["Last one"],
    ]  # fmt: skip
    assert [words(each) for each in found[0]] == [5, 6]
