"""Names that others chose, 500 hostile ones from a seed: on terminals, pages and in Markdown they are text, no more."""

# ruff: noqa: F811 - arguments are named after fixtures

from __future__ import annotations

import dataclasses
import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from gpsuite.certificates.certificate import write_certificate
from gpsuite.certificates.risk import UNNAMED_TARGET
from gpsuite.commands import verify
from gpsuite.config.files import conf_dir
from gpsuite.engine.progress import describe
from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee.answer import Answer, Guarantee, Light, Rows, write_answer
from gpsuite.reporting.gallery import NAME, gallery_texts
from gpsuite.reporting.pages import write_report
from gpsuite.reporting.tables import write_table
from gpsuite.text import html, markdown, markdown_code, visible, visible_name
from tests.certificates.test_certificate import fit_checksum
from tests.commands.conftest import Gpsuite, gpsuite, workplace  # noqa: F401 - fixtures
from tests.methods.pac_bayes.certified_fit import certified, params, small_dataset, written
from tests.methods.robustness.certified_point import small_certificate
from tests.reporting.test_pages import PNG, Page

DATA = small_dataset()
FORGED = "with probability at least 99 % over the draw of the rows, a prediction errs on at most a share 0.01"
PARTS = (
    *("\n", "\r", "\r\n", "\t", "\x00", "\x07", "\b" * 9, "\x0b", "\x85", "\u2028", "\u2029", "\ud800", "\x7f"),
    *("\x9b31m", "\x1b[2J", "\x1b[8m", "\x1b[1A\x1b[2K", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\"),
    *("\u202e", "\u2066", "\u2069", "\u200f", "\u061c", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad"),
    *("\u034f", "\u3164", "\ufe0f", "\U000e0041\U000e007f", "\u180e", "\uffa0", "\u115f", "é", "日本", "\u00a0"),
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</td></table>", "<!--", "]]>", "</title>"),
    *("<a href='javascript:x'>", '" onmouseover=alert(1) x="', "' onfocus='alert(1)", "&lt;b&gt;", "&#60;b>", "{{7}}"),
    *("[c](javascript:alert(1))", "![x](file:///etc/passwd)", "](javascript:x)", "[a]: javascript:x", "[a][b]", "[^1]"),
    *("[^1]: x", "<javascript:alert(1)>", "`", "``", "`code`", "|", "\\", "\\|", "**b**", "_i_", "~~no~~", "$x$", "# "),
    *("- ", "1. ", "> ", "\n\n| a | b |\n|---|---|\n", "\n## Verdicts\n", "\n    code\n", "---", "===", "\n```\n"),
    *("x" * 3000, " " * 200, "a", "boston", "\nconfirmed", "\nbecause\t", "\tconfirmed", "$(touch x)", "; rm -rf ~"),
    *(f"\nproved\t{FORGED}", f"\r\x1b[2Kproved\t{FORGED}"),
)  # fmt: skip


def hostile() -> list[str]:
    rng = np.random.default_rng(4711)
    return ["".join(PARTS[place] for place in rng.integers(len(PARTS), size=rng.integers(2, 7))) for _ in range(500)]


NAMES = hostile()
UNSEEN = {"\u034f", "\u115f", "\u1160", "\u3164", "\uffa0", *map(chr, range(0xFE00, 0xFE10))}


def acting(text: str) -> set[str]:
    """Return the characters that are not shown but act or hide; line ends and tabs are ours."""
    bad = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return {each for each in text if each not in "\n\t" and (unicodedata.category(each) in bad or each in UNSEEN)}


def described(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    other = path.with_suffix(".json")
    description = json.loads(other.read_text())
    change(description)
    other.write_text(json.dumps(description))
    fit_checksum(path)


def test_the_command_in_an_answer_can_be_copied_as_it_stands() -> None:
    assert markdown("gpsuite predict 'results/guarantee/quick~77aa0b94' NEW.csv") == (
        "gpsuite predict 'results/guarantee/quick~77aa0b94' NEW.csv"
    )
    assert "~" not in markdown("~~struck~~")


def test_the_names_are_500_and_all_kinds_are_among_them() -> None:
    assert len(NAMES) == 500 and len(set(NAMES)) > 490
    assert all(any(part in name for name in NAMES) for part in PARTS)


@pytest.fixture
def risk(workplace: Path) -> Path:
    return written(certified("full", params(), DATA)[2], workplace)


@pytest.mark.parametrize("part", range(10))
def test_no_name_forges_a_line_of_verify(
    part: int, risk: Path, gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(dataset: str, target: str, given: bool = True) -> tuple[int, list[str], list[str]]:
        described(risk, lambda about: about["dataset"].update(dataset=dataset, target=target))
        data = dataclasses.replace(DATA, target_names=(target,)) if given else None
        monkeypatch.setattr(verify, "_dataset", lambda words, task, target: data)
        ended = gpsuite("verify", str(risk))
        assert not acting(ended.out + ended.err) and max(map(len, ended.out.split("\n"))) < 600
        return ended.code, ended.out.split("\n"), ended.err.split("\n")

    code, right, _ = shown("small", "height")
    _, _, asked = shown("small", "height", given=False)
    assert code == 0 and sum(line.startswith("proved\twith probability at least 95 %") for line in right) == 1
    for name in NAMES[part::10]:
        code, lines, _ = shown(name, "height")
        assert code == 0 and lines[:1] + lines[2:] == right[:1] + right[2:]
        assert lines[1].startswith("dataset\t") and lines[1].endswith(right[1].removeprefix("dataset\tsmall"))
        code, lines, _ = shown("small", name)
        assert code == 0 and [line.split("\t")[0] for line in lines] == [line.split("\t")[0] for line in right]
        before, after = right[4].split("height")
        assert lines[4].startswith(before) and lines[4].endswith(after) and lines[:4] == right[:4]
        code, lines, told = shown(name, name, given=False)
        assert (code, lines, len(told)) == (2, [""], len(asked))
    _, _, told = shown("small", UNNAMED_TARGET, given=False)
    assert told[1] == "add dataset=small"


def test_what_verify_asks_to_paste_is_one_word(risk: Path, gpsuite: Gpsuite) -> None:
    described(risk, lambda about: about["dataset"].update(dataset="x; rm -rf ~", target=UNNAMED_TARGET))
    assert gpsuite("verify", str(risk)).err.split("\n")[1] == "add 'dataset=x; rm -rf ~'"


def test_no_name_forges_a_line_about_a_range(workplace: Path, gpsuite: Gpsuite) -> None:
    path = write_certificate(small_certificate(), workplace / "point")[0]
    right = gpsuite("verify", "point").out.split("\n")
    for name in NAMES[::5]:

        def change(about: dict[str, Any], name: str = name) -> None:
            origin = about["origin"]
            origin.update(dataset=name, outputs=[f"{place}{name}" for place in range(len(origin["outputs"]))])
            origin.update(inputs=[f"{place}{name}" for place in range(len(origin["inputs"]))])

        described(path, change)
        ended = gpsuite("verify", "point")
        lines = ended.out.split("\n")
        assert ended.err == "" and not acting(ended.out)
        assert [line.split("\t")[0] for line in lines] == [line.split("\t")[0] for line in right]
        assert [line.split("\t")[1][:9] for line in lines[:4]] == [line.split("\t")[1][:9] for line in right[:4]]


def test_a_path_of_others_is_shown_as_text(workplace: Path, gpsuite: Gpsuite) -> None:
    name = f"point\nproved\t{FORGED}\x1b[8m"
    write_certificate(small_certificate(), workplace / name)
    ended = gpsuite("verify", name)
    assert not acting(ended.out + ended.err) and not any(line.startswith("proved") for line in ended.out.split("\n"))


def parsed(text: str) -> list[Token]:
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [each for token in tokens for each in (token, *(token.children or ()))]


def plain(tokens: Iterable[Token]) -> str:
    return "".join(each.content for each in tokens if each.type in ("text", "text_special", "code_inline"))


SHOWING = {"text", "text_special", "code_inline"}
PAGES = ("{}\n", "before {} after\n\nend", "- {}\n- end\n", "# {}\n", "| a | b |\n|---|---|\n| {} | right |\n")


@pytest.mark.parametrize("write", [markdown, markdown_code])
def test_a_name_in_markdown_is_text_in_a_line_and_in_a_table(write: Callable[[str], str]) -> None:
    harmless = {each: [kind.type for kind in parsed(each.format("name"))] for each in PAGES}
    for name in NAMES:
        text = write(name)
        assert "\n" not in text and not acting(text)
        for page, right in harmless.items():
            tokens = parsed(page.format(text))
            assert [each.type for each in tokens if each.type not in SHOWING] == [
                each for each in right if each not in SHOWING
            ], (name, text)
            wanted = visible(name.replace("\n", " "))
            assert re.sub(r"[`\s]", "", wanted) in re.sub(r"[`\s]", "", plain(tokens)), (name, text)


def test_a_name_in_html_is_text_and_in_an_attribute_its_value() -> None:
    for name in NAMES:
        page = Page(f'<p>{html(name)}</p><img alt="{html(name)}">')
        assert [tag for tag, _ in page.tags] == ["p", "img"] and not page.open
        assert list(page.tags[1][1]) == ["alt"] and not acting(html(name))
        assert unescape(html(name)).split("\n") == [visible(line) for line in name.split("\n")]


def test_a_name_on_a_terminal_is_one_line_without_anything_hidden() -> None:
    for name in NAMES:
        assert not acting(visible(name)) and not set("\n\t") & set(visible(name))
        assert len(visible_name(name)) <= 80
        line = describe(Record("k", "e", name, {}, "done", name, {}, {}, headline=name))
        assert not acting(line) and "\n" not in line


def file_name(name: str) -> str:
    shown = "".join(each for each in name if each not in "/\x00" and not "\ud800" <= each < "\ue000")
    return shown.encode()[:120].decode(errors="ignore") or "x"


def fill(results: Path, names: list[str]) -> None:
    """Write published runs with 25 names each, wherever a run's files hold texts."""
    for number in range(0, len(names), 25):
        own = iter(names[number : number + 25])
        run = results / "published/pac_bayes/epsilon_boston" / f"paper~{number}{file_name(next(own))}"
        for folder in ("tables", "figures"):
            (run / folder).mkdir(parents=True)
        (run / "figures" / f"{file_name(next(own))}.png").write_bytes(PNG)
        table, column, cell, caption = (file_name(next(own)) for _ in range(4))
        pd.DataFrame({column: [cell]}).to_csv(run / "tables" / f"{table}.csv", index=False)
        (run / "tables" / f"{table}.md").write_text(caption.replace("\n", " ") + "\n")
        keys = ("title", "paper", "not_comparable", "below_paper", "seed", "started")
        about: dict[str, Any] = {"status": "done", "tasks": {"done": 1}, **{key: next(own) for key in keys}}
        about["dataset"] = {key: next(own) for key in ("name", "licence", "citation", "content_hash")}
        about["failures"] = [{key: next(own) for key in ("task", "reason", "traceback")}]
        about |= {"versions": {next(own): next(own)}, "machine": {"cpu": next(own)}, "command": ["gpsuite", next(own)]}
        about |= {"notes": [next(own)], "answer": [next(own)], "left_out": list(own)}
        (run / "run.json").write_text(json.dumps(about))


def tags_of(page: str) -> tuple[set[tuple[str, tuple[str, ...]]], int]:
    found = Page(page)
    assert not found.open
    for tag, attributes in found.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        for name in ("href", "src"):
            target = attributes.get(name) or ""
            assert re.match(r"(#|data:image/png;base64,|https?://|published/|$)", target), target
    return {(tag, tuple(sorted(attributes))) for tag, attributes in found.tags}, page.count("<script")


def test_the_page_is_the_same_but_for_its_texts(tmp_path: Path) -> None:
    fill(tmp_path / "harmless", [f"name {number}" for number in range(500)])
    fill(tmp_path / "hostile", NAMES)
    harmless, found = (write_report(tmp_path / kind, conf_dir())[0].read_text() for kind in ("harmless", "hostile"))
    known, tags = tags_of(harmless), tags_of(found)
    assert tags[0] <= known[0] and tags[1] == known[1]
    assert acting(found) <= acting(harmless)


def test_the_published_page_links_nothing_of_others_and_shows_no_html(tmp_path: Path) -> None:
    fill(tmp_path / "harmless", [f"name {number}" for number in range(500)])
    fill(tmp_path / "hostile", NAMES)
    kinds = ("harmless", "hostile")
    harmless, found = (gallery_texts(tmp_path / kind / "published", conf_dir())[NAME] for kind in kinds)
    assert not acting(found)
    known, tokens = parsed(harmless), parsed(found)
    assert not [each.content for each in tokens if each.type in ("html_inline", "html_block", "fence", "code_block")]
    targets = [
        str(each.attrs.get("href") or each.attrs.get("src")) for each in tokens if each.type in ("link_open", "image")
    ]
    for target in targets:
        files = ("NOTES.md", "ERRATA.md", "comparison.csv", "figures.csv", "runs.csv", "data.csv")
        assert target in files or target.startswith(("#", "pac_bayes/")), target
    for kind in ("h2", "table", "ul", "ol", "blockquote", "hr"):
        count = [sum(each.tag == kind and each.nesting >= 0 for each in part) for part in (known, tokens)]
        assert count[0] == count[1], kind


def test_answers_in_files_show_hostile_names_as_text(tmp_path: Path) -> None:
    for number in range(0, 500, 25):
        names, folder = NAMES[number : number + 25], tmp_path / str(number)
        texts = [name.replace("\ud800", "").replace("\r", "") for name in names]
        frame = pd.DataFrame({f"{text}{place}": [text] for place, text in enumerate(texts)})
        write_table(frame, folder / "tables", "assumptions", texts[0])
        line = Guarantee(names[2], names[3], names[4], names[5], names[6])
        empty, rows = replace(line, needs=names[7]), Rows(names[8], [names[9:12], names[12:15]], names[15:17])
        light = Light("red", names[17])
        assert not write_answer(folder, Answer(names[1], names[18], light, [line, empty], rows, names[19:]))
        text, page = (folder / "answer.md").read_text(), (folder / "page.html").read_text()
        assert not acting(text) and not acting(page)
        tokens = parsed(text)
        assert not {each.type for each in tokens} & {"link_open", "image", "html_inline", "html_block", "fence", "hr"}
        assert sum(each.type == "table_open" for each in tokens) == 2
        assert sum(each.type == "th_open" for each in tokens) == 25 + 3
        kinds, scripts = tags_of(page)
        own = "html head meta title style body h1 h2 p ul li div table thead tbody tr th td details summary"
        assert scripts == 0 and {tag for tag, _ in kinds} <= set(own.split())


def test_no_command_shows_what_acts(workplace: Path, gpsuite: Gpsuite) -> None:
    fill(workplace / "results", NAMES[:100])
    for words in (("report",), ("compare",), ("compare", "pac_bayes"), ("status",), ("recheck",)):
        ended = gpsuite(*words)
        assert ended.code in (0, 2) and not acting(ended.out + ended.err), words
        assert "Traceback" not in ended.err
