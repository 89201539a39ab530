"""The guide: its pages are listed, printed by a command, and what the tutorial shows is what its commands print."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpsuite import cli
from gpsuite.commands.guide import guide_dir, page_text, pages
from gpsuite.errors import UserError

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
AGREES = 0.05  # relative: what other processors' last bits become after a search


class Screen(io.StringIO):
    """What is written, on a terminal."""

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, *words: str, terminal: bool = False, columns: int = 80) -> str:
    stdout = Screen() if terminal else io.StringIO()
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", stdout)
    assert cli.dispatch(words) == 0
    return stdout.getvalue()


def test_the_index_lists_every_page_by_its_title() -> None:
    files = {path.stem for path in guide_dir().glob("*.md")} - {"README"}
    assert {page.name for page in pages()} == files
    assert len(pages()) == len(files)
    for page in pages():
        assert f"# {page.title}\n" in page_text(page.name)


def test_pages_are_listed_and_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = printed(monkeypatch, "guide")
    assert [line.split("\t")[1] for line in listed.splitlines()[1:]] == [page.name for page in pages()]
    on_screen = printed(monkeypatch, "guide", terminal=True)
    assert all(f"{page.name} " in on_screen for page in pages())
    assert printed(monkeypatch, "guide", "start") == page_text("start")
    assert printed(monkeypatch, "guide", "start.md") == page_text("start")
    found = json.loads(printed(monkeypatch, "guide", "security", "format=json"))
    assert found == {"page": "security", "text": page_text("security")}


@pytest.mark.parametrize("name", [page.name for page in pages()])
def test_a_terminal_gets_wrapped_text_and_code_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = printed(monkeypatch, "guide", name, terminal=True, columns=100)
    prose = [line.rstrip() for line in shown.splitlines() if not line.startswith("  ")]
    assert [line for line in prose if re.search(r"\]\(|\*\*|<!--|^#|&\w+;", line)] == []
    assert [line for line in prose if len(line) > 100] == []
    indented = re.sub(r"^```.*?^```", "", page_text(name), flags=re.DOTALL | re.MULTILINE)
    code = re.findall(r"^    (?!-)(\S.*)$", indented, flags=re.MULTILINE)
    assert [line for line in code if line not in [each.strip() for each in shown.splitlines()]] == []


def test_an_unknown_page_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"certfy: no such page. Did you mean 'certify'") as found:
        cli.dispatch(["guide", "certfy"])
    assert found.value.better == ("certfy", "certify")
    with pytest.raises(UserError, match="guide takes one page"):
        cli.dispatch(["guide", "start", "certify"])


def blocks(text: str) -> list[list[str]]:
    """Return the indented blocks of a page, each as its lines."""
    found = re.findall(r"(?:^    .*\n)+", text, flags=re.MULTILINE)
    return [[line[4:] for line in block.splitlines()] for block in found]


def is_command(block: list[str]) -> bool:
    return block[0].startswith(("gpsuite ", "python ", "head "))


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run the tutorial's commands and return what each printed."""
    folder, found = tmp_path_factory.mktemp("tutorial"), {}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GPSUITE_OFFLINE": "1"}
    for command in (line for block in blocks(page_text("start")) if is_command(block) for line in block):
        python = command.replace("gpsuite ", "python -m gpsuite ", 1) if command.startswith("gpsuite ") else command
        words = python.replace("python ", f"{sys.executable} ", 1)
        ended = subprocess.run(["bash", "-c", words], cwd=folder, env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, f"{command}\n{ended.stderr}"
        found[command] = ended.stdout
    predictions = (folder / "predictions.csv").read_text(encoding="utf-8").splitlines()
    assert len(predictions) == 4 and "spread_low" in predictions[0]
    return found


def outputs(text: str) -> Iterator[tuple[str, str]]:
    """Yield each part of a block that shows an output, with the command before it; `...` stands for lines left out."""
    command = ""
    for block in blocks(text):
        if is_command(block):
            command = block[-1]
        else:
            yield from ((command, part) for part in " ".join(" ".join(block).split()).split(" ... "))


def holds(whole: str, part: str) -> bool:
    """Whether a text has a part, but for its numbers, which agree roughly."""
    pattern = re.escape(NUMBER.sub("\0", part)).replace("\0", f"({NUMBER.pattern})")
    stated = [float(number) for number in NUMBER.findall(part)]
    return any(
        all(abs(float(a) - b) <= AGREES * abs(b) for a, b in zip(found.groups(), stated, strict=True))
        for found in re.finditer(pattern, whole)
    )


@pytest.mark.timeout(1200)
def test_the_tutorial_prints_what_it_shows(tutorial: dict[str, str]) -> None:
    shown = list(outputs(page_text("start")))
    assert len(shown) > 4
    assert [part for command, part in shown if not holds(" ".join(tutorial[command].split()), part)] == []


@pytest.mark.timeout(1200)
def test_the_readme_shows_lines_of_the_tutorial_s_answer(tutorial: dict[str, str]) -> None:
    [answer] = [text for command, text in tutorial.items() if command.startswith("gpsuite certify")]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [command, lines] = blocks(readme)[:2]
    assert command[0].split() == next(c for c in tutorial if c.startswith("gpsuite certify")).split()[:6]
    assert [line for line in lines if not holds(" ".join(answer.split()), " ".join(line.split()))] == []
