"""Plain words in messages, docstrings, comments, settings, remarks, notes, README, guide and CONTRIBUTING.

The word list, sentences, first lines and help entries.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from gpsuite.config.explain import field_meanings
from tests.config.test_explain import schemas
from tests.test_prose import PROSE

ROOT = Path(__file__).parents[1]

# Each pattern and what to write instead.
PATTERNS = {
    "anew": (r"\banew\b", "again; for computing, recompute"),
    "beside": (r"\bbeside\b", "next to, with"),
    "stands for": (r"\bst(?:and|ands|ood|anding) (?:for|in|at|on|as|next|under|once|there|by|only|together)\b", "is"),
    "else": (r"(?<!\bor )(?<!\banyone )(?<!\bsomeone )(?<!thing )\belse\b(?!where)|\bor else\b", "otherwise"),
    "likewise": (r"\blikewise\b", "also"),
    "of which": (r"\bof which\b", "two sentences"),
    # not a part of a number of things, as in "one of them" or "both of these"
    "of them": (
        r"(?<!\bone )(?<!\bsome )(?<!\bnone )(?<!\beach )(?<!\ball )(?<!\bmost )(?<!\bany )(?<!\bboth )(?<!\bpart )"
        r"(?<!\bmany )(?<!\bhalf )(?<!\bfewer )(?<!\bmore )(?<!\btwo )(?<!\d )(?<!\bfew )\bof (?:them|these|those)\b"
        r"(?=[.,;:)]|$| (?:that|which|is|are|has|have|and|in|as)\b)",
        "two sentences",
    ),
    "where for if": (
        r"\b[Ww]here (?:there (?:is|are|was|were)|none\b|it (?:is|was|has|does|can|may|fails)|they (?:are|were|do))",
        "if",
    ),
    "held against": (r"\bh(?:e|o)ld(?:s|ing)? against\b", "compared with"),
    "whatever": (r"\b[Ww]hatever\b", "regardless of"),
    "says so": (r"\bsa(?:y|ys|id|ying) so\b", "reports"),
    "is told": (r"\b(?:is|are|was|were|be|being) told\b", "reports"),
    "alone": (r"\balone\b", "only"),
    "one X a Y": (
        r"\b(?:[Oo]ne|two|three|\d+) (?:bars?|blocks?|boxe?s?|colours?|columns?|curves?|digits?|draws?|entry|files?|"
        r"images?|letters?|lines?|maps?|marks?|models?|numbers?|outputs?|panels?|points?|process(?:es)?|rows?|s|seeds?|"
        r"steps?|tables?|tasks?|texts?|threads?|ticks?|values?|words?) an? [a-z]+",
        "per",
    ),
    "own": (
        r"(?<!\bits )(?<!\btheir )(?<!\bhis )(?<!\bour )(?<!\b[Yy]our )(?<!\bmy )(?<!\bone's )(?<!'s )(?<!s' )"
        r"(?<![,_`])\b[Oo]wn\b(?![:`)=,])"
        r"|\b(?:of|on) (?:its|their) own(?=[.,;:)]|$| (?:and|or|but|that|with|in|if|to|is|as|by)\b)",
        "name the owner",
    ),
    "mend": (r"\bmend(?:s|ed|ing)?\b", "fix"),
    "decimals": (r"(?<![\w.)\]}/*])(?<!\w\()\.\d", "0.95"),
    # not in brackets, in formulas, or before an entry of a list (`name, ...`, `name: ...`, `name = ...`)
    "semicolon": (
        r";(?: (?:[a-z]{2,}|a)(?! ?[,:=<>~+*/^_()\[|.\d])(?= )| (?:[A-Z`][a-z]+)(?= [a-z])|$)",
        "a full stop",
    ),
    "rest": (r"(?<!against )\b(?:the|The) rest\b", "remainder, others"),
    "contest": (r"\bcontests?\b", "comparison"),
    "face": (r"\bfaces?\b", "exports"),
    "sealed": (r"\b(?:un)?seal(?:s|ed|ing)?\b", "checksummed"),
    "lead": (r"\b(?:the|a|The|A|its|their|of|in) leads?\b", "margin"),
    "published value": (r"\bpublished values?\b", "the paper's value"),
    "goes on": (r"\bgo(?:es)? on\b|\bwent on\b|\bgoing on\b", "continues, resumes"),
    "would be lost": (r"\bwould be lost\b", "file exists; choose another name"),
    "everything random": (r"\bof everything random\b", "random seed"),
    "shared out": (r"\bshared? out\b", "shared among"),
    "paid for": (r"\b(?:paid|pays?|paying) (?:for|with)\b", "holds for all at once"),
    "of values and claims": (r"\b(?:values and claims|claims and values)\b", "K of N reproduced"),
    "settle": (r"\bsettles?d?\b", "decide"),
    "whom": (r"\bwhom\b|\bowe[sd]?\b", "credit"),
    "that there are not": (r"\bthat (?:there )?(?:are|is|were|was) not\b(?=[.,;:)]|$)", "fewer than"),
    "set down": (r"\bset down\b", "written, fixed"),
    "nor": (r"(?<!\w)[Nn]or\b", "and not"),
    "the like": (r"\bthe like\b", "name it"),
    "in vain": (r"\bin vain\b", "without result"),
    "takes for": (r"\b(?:takes?|took|taken) (?:\w+ )?for (?:a|an|one|what|the)\b", "treats as"),
    "comes out": (r"\b(?:come|comes|came) out\b", "is"),
    "by itself": (r"\b(?:by|of) (?:itself|themselves)\b", "automatically"),
    "apart": (r"\b(?:told|kept|counted|tell|count) apart\b", "separately"),
    "meant": (r"\bis meant\b|\bare meant\b", "name it"),
    "asked for": (r"\basked for\b|\basks? for\b", "requested"),
}


class Allowed(NamedTuple):
    """An exception: texts of a path that hold this part may have these patterns."""

    patterns: str
    path: str
    part: str
    reason: str


EXCEPTIONS: tuple[Allowed, ...] = (
    Allowed("else, semicolon", "gpsuite/commands/completion.py", "compadd", "a script of a shell"),
    Allowed("semicolon", "gpsuite/commands/completion.py", "compopt", "a script of a shell"),
    Allowed("decimals", "gpsuite/experiments/guarantee/answer.py", "max-width", "a style sheet"),
    Allowed("alone", "gpsuite/reporting/metrics.py", "by rounding alone", "a label in published tables"),
    Allowed("paid for", "gpsuite/reporting/metrics.py", "choice of M paid for", "a label in published tables"),
    Allowed(
        "own", "gpsuite/experiments/active_learning/toy_tables.py", "models whose own", "a published table's column"
    ),
    Allowed("own", "gpsuite/experiments/wasserstein/toy_bands.py", "own points", "a cell of a published table"),
    Allowed("own", "gpsuite/experiments/perturbation/region.py", "own units", "a label in published figures"),
    Allowed("own", "gpsuite/experiments/league/plan.py", "own spread", "titles in published tables"),
    Allowed("decimals", "gpsuite/experiments/robustness/pixel_maps.py", "at most .05", "a published table's column"),
    Allowed("one X a Y", "conf/paper/li2022.yaml", "iteration 15 marks a region", "marks is a verb here"),
    Allowed("own", "gpsuite/methods/robustness/multiclass/paper_softmax_bound.py", "own is [B", "a variable"),
    Allowed("own", "conf/experiment/robustness/distribution_", "protocol=own", "a value of a setting"),
    Allowed("semicolon", "gpsuite/methods/pac_bayes/sparse/objective.py", "[V diag(gv); V; ", "a formula"),
)
# Keys of conf whose texts are not read: published comparisons hold conditions, values and units letter by letter, and
# citations keep the form of their publishers.
STORED = {"condition", "published", "unit", "citation", "reference"}
MOST_WORDS = 25
# Files with a long sentence, and why.
LONG_SENTENCES = {"gpsuite/experiments/guarantee/answer.py": "a style sheet"}
# prepositions, relatives and conditions: an entry that begins so has no subject
NO_BEGINNING = frozenset(
    {"of", "to", "in", "for", "by", "on", "at", "with", "from", "as", "that", "what", "which", "how", "where", "when"}
    | {"if", "is", "are", "was", "and", "or", "per", "than", "whose"}
)


class Text(NamedTuple):
    """One text that a person reads."""

    kind: str  # message, docstring, comment, setting, note
    path: str
    line: int
    text: str
    owner: str = ""  # of a docstring: module, class or function


def _joined(node: ast.expr) -> str | None:
    """Return the text of a string literal, with {} for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_joined(each) or "" if isinstance(each, ast.Constant) else "{}" for each in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _joined(node.left), _joined(node.right)
        if left is not None and right is not None:
            return left + right
    return None


def _literals(node: ast.AST, documented: set[int]) -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and id(child) not in documented:
            text = _joined(child)
            if text is not None:
                yield child.lineno, text
                if isinstance(child, ast.JoinedStr):  # texts inside the fields
                    for each in child.values:
                        yield from _literals(each, documented) if isinstance(each, ast.FormattedValue) else ()
                continue
        if id(child) not in documented:
            yield from _literals(child, documented)


def _sentence(text: str) -> bool:
    """Whether a literal is words for a reader, not a key, a path or a pattern."""
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= 2 and " " in text.strip() and "(?" not in text


def _python_texts(path: Path) -> Iterator[Text]:
    source = path.read_text(encoding="utf-8")
    name = str(path.relative_to(ROOT))
    tree = ast.parse(source)
    documented: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                documented.add(id(first.value))
                yield Text("docstring", name, first.lineno, first.value.value, type(node).__name__)
    for line, text in _literals(tree, documented):
        if _sentence(text):
            yield Text("message", name, line, text)
    yield from _comments(source, name)


def _comments(source: str, name: str) -> Iterator[Text]:
    """Yield comments; lines of comments that follow each other are one text."""
    held: list[str] = []
    start, last = 0, -2
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text = token.string.lstrip("# ")
        if re.match(r"(?:noqa|type: ignore|pragma|fmt:|mypy:|!)", text):
            text = text.partition(" - ")[2]
        whole = token.line.lstrip().startswith("#")
        if held and whole and token.start[0] == last + 1:
            held.append(text)
        else:
            if held:
                yield Text("comment", name, start, "\n".join(held))
            held, start = [text], token.start[0]
        last = token.start[0] if whole else -2
    if held:
        yield Text("comment", name, start, "\n".join(held))


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, str):
        yield value


def _yaml_texts(path: Path) -> Iterator[Text]:
    source = path.read_text(encoding="utf-8")
    name = str(path.relative_to(ROOT))
    stack = [yaml.compose(source, Loader=yaml.CSafeLoader)]
    while stack:
        each = stack.pop()
        if isinstance(each, yaml.MappingNode):
            stack.extend(value for key, value in each.value if key.value not in STORED)
        elif isinstance(each, yaml.SequenceNode):
            stack.extend(each.value)
        elif each is not None and _sentence(each.value):
            yield Text("setting", name, each.start_mark.line + 1, each.value)
    lines = [(number, line.strip()) for number, line in enumerate(source.split("\n"), 1)]
    held: list[tuple[int, str]] = []
    for number, line in [*lines, (0, "")]:
        if line.startswith("#") and not line.startswith("# @package"):
            held.append((number, line.lstrip("# ")))
        elif held:
            yield Text("comment", name, held[0][0], "\n".join(text for _, text in held))
            held = []


def _notes(path: Path) -> Iterator[Text]:
    """Yield the paragraphs, entries of lists and rows of tables of a page. Commands are not read."""
    name, start, held = str(path.relative_to(ROOT)), 1, list[str]()
    for number, line in enumerate([*path.read_text(encoding="utf-8").split("\n"), ""], 1):
        if held and (not line.strip() or line.startswith(("* ", "|", "    "))):
            yield Text("note", name, start, "\n".join(held))
            held = []
        if line.strip() and not line.startswith("    "):
            start, held = (number, [line]) if not held else (start, [*held, line])


def _prose(text: Text) -> str:
    """Return a text on one line without code in backticks, doctest lines and brackets that hold a semicolon."""
    shown = re.sub(r"``[^`]*``|`[^`]*`", "`x`", text.text)
    shown = "\n".join(line for line in shown.split("\n") if not line.strip().startswith((">>>", "...")))
    return re.sub(r"\([^()]*;[^()]*\)", lambda found: found[0].replace(";", ","), re.sub(r"\s+", " ", shown))


@cache
def texts() -> tuple[Text, ...]:
    """Return every text that a person reads: package, settings, README, guide, CONTRIBUTING and published notes."""
    found: list[Text] = []
    for path in sorted((ROOT / "gpsuite").rglob("*.py")):
        found += _python_texts(path)
    for path in sorted((ROOT / "conf").rglob("*.yaml")):
        found += _yaml_texts(path)
    for path in [*PROSE, *sorted((ROOT / "results/published").rglob("NOTES.md"))]:
        found += _notes(path)
    return tuple(found)


@cache
def flagged(name: str) -> tuple[Text, ...]:
    """Return the texts with a banned pattern that no exception allows."""
    pattern = re.compile(PATTERNS[name][0])
    return tuple(each for each in texts() if pattern.search(_prose(each)) and not _allowed(name, each))


def _allowed(name: str, text: Text) -> bool:
    shown = _prose(text)
    return any(
        name in each.patterns.split(", ") and text.path.startswith(each.path) and each.part in shown
        for each in EXCEPTIONS
    )


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a message, each of its lines by itself."""
    for line in re.sub(r"`[^`]*`", "x", text).split("\n"):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z{(])", line)


def _words(sentence: str) -> int:
    return len(re.findall(r"[\w{}'-]*[A-Za-z{][\w{}'-]*", sentence))


def _shown(found: Sequence[Text]) -> str:
    return "\n".join(f"{each.path}:{each.line}: {_prose(each)[:120]}" for each in found[:20])


@pytest.mark.parametrize("name", PATTERNS)
def test_no_text_has_a_banned_pattern(name: str) -> None:
    found = flagged(name)
    assert not found, f"{len(found)} with {name!r}; write: {PATTERNS[name][1]}\n{_shown(found)}"


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=lambda each: f"{each.patterns}: {each.part[:20]}")
def test_every_exception_has_a_reason_and_is_needed(exception: Allowed) -> None:
    assert exception.reason
    for name in exception.patterns.split(", "):
        pattern = re.compile(PATTERNS[name][0])
        assert any(
            each.path.startswith(exception.path) and exception.part in _prose(each) and pattern.search(_prose(each))
            for each in texts()
        ), name


def test_sentences_of_messages_have_at_most_25_words() -> None:
    long = [
        each
        for each in texts()
        if each.kind == "message" and each.path not in LONG_SENTENCES
        for sentence in _sentences(each.text)
        if _words(sentence) > MOST_WORDS
    ]
    assert not long, _shown(long)


def test_docstrings_begin_with_what_the_reader_gets() -> None:
    found = [each for each in texts() if each.kind == "docstring" and re.match(r"(?:What|Whom) \w", each.text.strip())]
    assert not found, _shown(found)


def test_help_entries_begin_with_a_noun_or_a_verb() -> None:
    wrong = {
        f"{schema.__name__}.{name}: {meaning}"
        for schema in schemas().values()
        for name, meaning in field_meanings(schema).items()
        if meaning.partition(" ")[0] in NO_BEGINNING
    }
    assert not wrong, "\n".join(sorted(wrong))


# One faulty sentence for each pattern: a pattern that no longer finds its fault fails here.
FAULTS = {
    "anew": "compute it anew",
    "beside": "the table beside it",
    "stands for": "it stands for a tab",
    "else": "one if found, else zero",
    "likewise": "upper: likewise",
    "of which": "rows of which one is empty",
    "of them": "the name of them.",
    "where for if": "NaN where there is none",
    "held against": "it is held against the paper",
    "whatever": "whatever it costs",
    "says so": "the file says so",
    "is told": "the user is told",
    "alone": "by the inputs alone",
    "one X a Y": "one row a task",
    "own": "an own table",
    "mend": "it must be mended",
    "decimals": "a share of .95",
    "semicolon": "it ended; run it again",
    "rest": "the rest is rounding",
    "contest": "a contest of methods",
    "face": "the face of the package",
    "sealed": "records are sealed",
    "lead": "a lead of a class",
    "published value": "the published value",
    "goes on": "it goes on",
    "would be lost": "a file which would be lost",
    "everything random": "of everything random",
    "shared out": "shared out among classes",
    "paid for": "it is paid for",
    "of values and claims": "2 values and claims",
    "settle": "which settles it",
    "whom": "whom to cite",
    "that there are not": "rows that there are not",
    "set down": "a rule set down before",
    "nor": "no rows nor columns",
    "the like": "boxes and the like",
    "in vain": "it waits in vain",
    "takes for": "takes it for a leak",
    "comes out": "it comes out as one",
    "by itself": "it moves by itself",
    "apart": "counted apart",
    "meant": "which is meant",
    "asked for": "as asked for",
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_finds_its_fault(name: str) -> None:
    assert re.search(PATTERNS[name][0], _prose(Text("message", "", 1, FAULTS[name])))
