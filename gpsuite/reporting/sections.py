"""Part of the pages on one run: figures with captions, tables, comparison, facts, failures, provenance."""

from __future__ import annotations

import csv
import io
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import unescape
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from gpsuite.errors import ResultsError
from gpsuite.reporting.catalogue import ExperimentNote, FigureNote
from gpsuite.reporting.collect import PUBLISHED, RunFolder, find_runs, rows_of_runs
from gpsuite.reporting.comparison import DECIDED, ComparisonRow, read_comparison
from gpsuite.reporting.figures import COUNTS, counted
from gpsuite.reporting.files import RECHECKED, as_number, cannot, list_folder, present, read_bytes, read_mapping
from gpsuite.reporting.joint_figures import FOLDER, JOINT
from gpsuite.untrusted import UnusableFileError

T = TypeVar("T")
MAX_ROWS = 40  # of a table, shown on the page. All are in its CSV
UNFINISHED = "not finished: run the same command again to resume"
_ERRORS = {"standard_error", "interval_low", "low"}
_PLACE = re.compile(r"(Fig|Table|Sec|App|Theorem|Lemma|Eq|Prop)s?\.? ")
_TABLES_LIMIT = 1_000_000  # characters
_FAILURES_SHOWN = 10
_TRACEBACK_LINES = 15
_KINDS = {"fig": "Fig.", "table": "Table"}


@dataclass
class Figure:
    """A figure to embed.

    Attributes:
        anchor: its place on the page.
        source: empty if the page has no room for it, or shows the same elsewhere.
        same: anchor of the figure that is the same, byte by byte.
        size: width and height in pixels. Zeros if it is not embedded.
        picture: whether it shows images, whose colours must stay.
    """

    name: str
    link: str
    path: Path
    anchor: str
    note: FigureNote
    caption: str = ""
    source: str = ""
    same: str = ""
    size: tuple[int, int] = (0, 0)
    picture: bool = False

    @property
    def alt(self) -> str:
        """Text for a screen reader."""
        return self.caption or self.name.replace("_", " ")


@dataclass
class PageTable:
    """A CSV file's beginning, as texts, and the caption of its Markdown file."""

    name: str
    link: str
    caption: str = ""
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""


@dataclass
class Section:
    """Part of the page on one run.

    Args:
        left_out: what it leaves out of the paper's setting, such as `3 of 10 repetitions`.
        study: whether it has other settings, which cannot be compared with anything printed.
        finished: whether all tasks ended without a failure.
        cpu_seconds: of all its tasks.
    """

    run: RunFolder
    anchor: str
    title: str
    badges: list[str]
    answer: list[str]
    facts: list[tuple[str, str]]
    provenance: list[tuple[str, str]]
    failures: list[dict[str, str]]
    hidden_failures: int
    notes: list[str]
    comparison: list[ComparisonRow]
    problems: list[str]
    left_out: list[str] = field(default_factory=list)
    study: bool = False
    finished: bool = False
    cpu_seconds: float = 0.0
    figures: list[Figure] = field(default_factory=list)
    tables: list[PageTable] = field(default_factory=list)


def read_sections(results_dir: Path, conf_dir: Path, known: Mapping[str, ExperimentNote]) -> list[Section]:
    """Return the sections of all runs, with the values that conf/paper has today, and captions that count them."""
    newest = rows_of_runs(results_dir, conf_dir)
    sections = []
    for run in find_runs(results_dir):
        section = read_section(run, results_dir, known.get(run.experiment, ExperimentNote()))
        section.comparison = newest.get(run.path, section.comparison)
        for figure in section.figures:
            numbers = figure.path.with_suffix(".csv")
            figure.caption = caption(figure.note, numbers, section.comparison, section.study)
        sections.append(section)
    return sections


def read_section(run: RunFolder, results_dir: Path, known: ExperimentNote) -> Section:
    """Read a run's folder, complete or not. What cannot be read is named in the section's problems.

    Links are relative to `results_dir`. `known` is what conf/ says of the experiment.
    """
    problems: list[str] = []
    about = tried(problems, read_mapping, run.path / "run.json")
    if about is None:
        about, problems = {}, problems or [UNFINISHED]
    comparison: list[ComparisonRow] = []
    if present(run.path / "comparison.csv"):
        comparison = tried(problems, read_comparison, run.path) or []
    failures = [item for item in _list(about.get("failures")) if isinstance(item, dict)]
    return Section(
        run=run,
        anchor=_anchor("run", run.name),
        title=str(about.get("title") or run.experiment),
        badges=_badges(run, about),
        answer=[str(line) for line in _list(about.get("answer"))],
        facts=_facts(run, about),
        provenance=_provenance(about),
        failures=[_failure(item, results_dir / ".records" / run.family) for item in failures[:_FAILURES_SHOWN]],
        hidden_failures=max(0, len(failures) - _FAILURES_SHOWN),
        notes=[str(note) for note in _list(about.get("notes"))],
        comparison=comparison,
        problems=problems,
        # what the user has left out of the paper's setting, and what `scale=paper` itself does
        left_out=[str(text) for text in [*_list(about.get("left_out")), about.get("below_paper")] if text],
        study=bool(run.tag and about.get("not_comparable")),
        finished=about.get("status") == "done",
        cpu_seconds=as_number(about.get("cpu_seconds")) or 0.0,
        figures=[
            _figure(path, run, results_dir, known)
            for path in tried(problems, list_folder, run.path / "figures") or []
            if path.suffix == ".png"
        ],
    )


def places(text: str) -> set[str]:
    """Return the places of a paper that a text names: `Sec. 6.1, Fig. 2-3` is `Sec. 6.1`, `Fig. 2` and `Fig. 3`.

    Words without a number are kept as they are.
    """
    found: set[str] = set()
    kind = ""
    for part in text.split(", "):
        match = _PLACE.match(part)
        if match:
            kind = match[1] + ("." if match[0].rstrip(" ").endswith(".") else "")
        number = part[match.end() :] if match else part
        span = re.fullmatch(r"(\d+)-(\d+)", number)
        if span and kind:
            found |= {f"{kind} {each}" for each in range(int(span[1]), int(span[2]) + 1)}
        elif match or (kind and number[:1].isdigit()):
            found.add(f"{kind} {number.split(' ')[0]}")
        else:
            found.add(part)
    return found


def caption(note: FigureNote, csv_path: Path, rows: Iterable[ComparisonRow], study: bool = False) -> str:
    """Return a figure's caption: what is drawn, how many values are behind it, what was found.

    Args:
        note: what is drawn, and which place of the paper it corresponds to.
        csv_path: the numbers that it shows.
        rows: its run's comparison with the paper's values.
        study: whether the run has other settings, so that it decides nothing of the paper.
    """
    found = f"A study in addition to {note.of} of the paper." if study and note.of else _found(note, rows)
    count = _behind(csv_path)
    if "{n} " in note.shows:  # where the caption says of what: `means over {n} splits`
        shown = note.shows.replace("{n} ", f"{count.rstrip('.')} " if count else "")
        return " ".join(text for text in (shown, found) if text)
    return " ".join(text for text in (note.shows, count, found) if text)


def _behind(path: Path) -> str:
    """Return how many values are behind a mark. Empty if the numbers do not say."""
    try:
        table = list(csv.DictReader(io.StringIO(read_bytes(path).decode("utf-8"), newline="")))
    except (OSError, ValueError, csv.Error, UnusableFileError):
        return ""
    columns = set(table[0]) if table else set()
    if not columns & _ERRORS:
        return ""
    count = counted({name: [line[name] for line in table] for name in COUNTS if name in columns})
    return f"{count}." if count else ""


def _found(note: FigureNote, rows: Iterable[ComparisonRow]) -> str:
    """Return what was found of the values that the paper states at the figure's place."""
    if not note.of:
        return ""
    own = [row for row in rows if row.id in note.values or (not note.values and stated_at(note.of, row))]
    verdicts = Counter(row.verdict for row in own)
    decided = sum(verdicts[name] for name in DECIDED)
    place = f"Corresponds to {note.of} of the paper"
    if not decided:
        return f"{place}."
    if decided == 1:
        return f"{place}: its one value or claim {'is reproduced' if verdicts['reproduced'] else 'differs'}."
    return f"{place}: {verdicts['reproduced']} of {decided} reproduced."


def stated_at(of: str, row: ComparisonRow) -> bool:
    """Return whether the paper states a value at one of these places. Facts about the data are not the figure's."""
    return row.basis not in ("measurement", "dataset") and bool(places(of) & places(row.where))


def tried(problems: list[str], read: Callable[[Path], T], path: Path) -> T | None:
    """Return what `read` finds. None for a damaged file, which is added to the problems."""
    try:
        return read(path)
    except ResultsError as error:
        if str(error) not in problems:  # a link to a folder hides all its files
            problems.append(str(error))
        return None


def _anchor(kind: str, *names: str) -> str:
    """Return an id on the page, different for different names: `-` replaces only `/`."""
    shown = {"/": "-", "_": "_"}
    letters = (each if each.isalnum() else shown.get(each, f".{ord(each):x}.") for each in "/".join(names))
    return f"{kind}-{''.join(letters)}"


def _figure(path: Path, run: RunFolder, results_dir: Path, known: ExperimentNote) -> Figure:
    note = known.figures.get(path.stem, FigureNote())
    return Figure(path.stem, _link(path, results_dir), path, _anchor("figure", run.name, path.stem), note)


def joint_figures(results_dir: Path) -> list[Figure]:
    """Return the figures that several runs answer together. The user's runs replace published ones."""
    found = {}
    for root in (results_dir / PUBLISHED, results_dir):
        for path in tried([], list_folder, root / FOLDER) or []:
            name = path.stem
            if path.suffix == ".png" and name in JOINT:
                # `Fig. 3` of `reeb2018_fig3`
                place = re.sub(r".*_(fig|table)(\d+)$", lambda part: f"{_KINDS[part[1]]} {part[2]}", name)
                note = FigureNote(place, JOINT[name].shows)
                link = _link(path, results_dir)
                found[name] = Figure(name, link, path, f"joint-{name}", note, caption=note.shows)
    return list(found.values())


def _badges(run: RunFolder, about: Mapping[str, Any]) -> list[str]:
    tasks = _dict(about.get("tasks"))
    marks = [
        ("published", run.published),
        ("not finished", not about),
        ("stand-in data: made up, not the paper's", any(data.get("stand_in") for data in _datasets(about))),
        ("smoke scale: only a run through the code", run.scale == "smoke"),
        ("failed tasks: see below", any(tasks.get(status) for status in ("error", "diverged"))),
        ("ended by its budget of time", bool(tasks.get("budget"))),
        ("infeasible tasks: cannot be computed as set", bool(tasks.get("infeasible"))),
        ("part of the paper's setting", bool(_list(about.get("left_out")))),
        ("below the paper's setting", bool(about.get("below_paper"))),
        ("changed settings: not the shipped experiment", bool(run.tag)),
        ("changed code: it ran with uncommitted changes", bool(_dict(about.get("git")).get("dirty"))),
    ]
    rechecked = _rechecked(run, about.get("finished"))
    return [text for text, given in marks if given] + ([rechecked] if rechecked else [])


def _rechecked(run: RunFolder, finished: object) -> str:
    """Return whether and when records were computed again and agreed. Empty if that was before this run ended."""
    found = tried([], read_mapping, run.path / RECHECKED) or {}
    for ended in ("passed", "failed"):
        day = str(found.get(ended) or "")
        if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:+]{8,20}", day) and day >= str(finished or ""):
            return f"recheck {ended} on {day[:10]}"
    return ""


def _facts(run: RunFolder, about: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("reproduces", ", ".join(str(about[key]) for key in ("paper", "figure") if about.get(key))),
        ("status", about.get("status")),
        ("tasks", _pairs(about.get("tasks"))),
        ("scale", run.scale),
        ("settings changed", ", ".join(str(name) for name in _list(about.get("changed")))),
        ("data", ", ".join(_data(data) for data in _datasets(about))),
        ("CPU time of all tasks", _seconds(about.get("cpu_seconds"))),
        ("command", shlex.join(str(word) for word in _list(about.get("command")))),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _datasets(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_dict(each) for each in (_list(about.get("datasets")) or [about.get("dataset")])]


def _data(dataset: Mapping[str, Any]) -> str:
    name = str(dataset.get("name") or "")
    licence = f" ({dataset['licence']})" if dataset.get("licence") else ""
    return f"made-up stand-in for {name}" if dataset.get("stand_in") else name + licence


def _provenance(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    git = _dict(about.get("git"))
    changed = " with uncommitted changes" if git.get("dirty") else ""
    memory = as_number(about.get("peak_memory_mb"))
    hashes = [str(data["content_hash"]) for data in _datasets(about) if "content_hash" in data]
    facts = [
        ("commit", f"{git['commit']}{changed}" if git.get("commit") else ""),
        ("versions", _pairs(about.get("versions"))),
        ("machine", _pairs(about.get("machine"))),
        ("threads", about.get("threads")),
        ("seed", about.get("seed")),
        ("dataset hash", ", ".join(hashes)),
        ("started", about.get("started")),
        ("finished", about.get("finished")),
        ("wall time of the last command", _seconds(about.get("wall_seconds"))),
        ("peak memory", None if memory is None else f"{memory:.0f} MB"),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _failure(item: Mapping[str, Any], records: Path) -> dict[str, str]:
    """Return a failed task's texts. Its traceback is a file in the folder of records."""
    name = Path(str(item.get("traceback") or "")).name
    try:
        text = read_bytes(records / name).decode("utf-8", "replace")
    except (OSError, ValueError, UnusableFileError):  # no such file, or no name that a file could have
        text = ""
    return {
        "task": str(item.get("task", "")),
        "reason": str(item.get("reason", "")),
        "traceback": "\n".join(text.splitlines()[-_TRACEBACK_LINES:]),
        "file": name,
    }


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _pairs(value: object) -> str:
    return ", ".join(f"{name} {content}" for name, content in _dict(value).items())


def _seconds(value: object) -> str:
    seconds = as_number(value)
    if seconds is None or seconds < 120:
        return "" if seconds is None else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _link(path: Path, results_dir: Path) -> str:
    return quote(os.fsencode(path.relative_to(results_dir).as_posix()))


def fill_tables(
    sections: Sequence[Section], results_dir: Path, titles: Mapping[str, str], known: Mapping[str, ExperimentNote]
) -> None:
    """Read the sections' tables while there is room, shipped runs' first. Methods appear by their titles."""
    room = _TABLES_LIMIT
    for section in sorted(sections, key=lambda section: bool(section.run.tag)):
        folder, problems = section.run.path / "tables", section.problems
        whole = known.get(section.run.experiment, ExperimentNote()).whole_tables
        for path in tried(problems, list_folder, folder) or []:
            read = partial(read_table, results_dir, titles, most=None if path.stem in whole else MAX_ROWS)
            table = tried(problems, read, path) if path.suffix == ".csv" else None
            if table is None:
                continue
            size = sum(len(cell) + 10 for row in table.rows for cell in row)
            if size > room:
                table.header, table.rows = [], []
                table.note = "not shown, to keep the page small"
            else:
                room -= size
            section.tables.append(table)


def read_table(results_dir: Path, titles: Mapping[str, str], path: Path, *, most: int | None = MAX_ROWS) -> PageTable:
    """Return the first rows of a CSV file, all of them if `most` is None. A ResultsError if it cannot be read."""
    try:
        lines = csv.reader(io.StringIO(read_bytes(path).decode("utf-8"), newline=""))
        header = next(lines, [])
        named = {place for place, name in enumerate(header) if name == "method"}
        rows = [
            [titles.get(cell, cell) if place in named else _shorten(cell) for place, cell in enumerate(line)]
            for line in islice(lines, most)
        ]
        hidden = sum(1 for _ in lines)
    except (OSError, ValueError, csv.Error) as error:
        raise cannot("read", path, error) from error
    note = f"first {len(rows)} of {len(rows) + hidden} rows" if hidden else ""
    return PageTable(path.stem, _link(path, results_dir), _caption(path.with_suffix(".md")), header, rows, note)


def _caption(path: Path) -> str:
    """Return the first line of a table in Markdown, without its escapes. Empty if there is no such file."""
    try:
        text = read_bytes(path).decode("utf-8")
    except (OSError, ValueError):
        return ""
    return unescape(re.sub(r"\\([\\|])", r"\1", text.split("\n", 1)[0].strip()))


def _shorten(cell: str) -> str:
    # decimal numbers only. The CSV keeps all digits
    if not any(mark in cell for mark in ".eE"):
        return cell
    try:
        return f"{float(cell):.5g}"
    except ValueError:
        return cell
