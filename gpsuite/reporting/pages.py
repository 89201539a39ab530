"""One self-contained HTML page over all results."""

from __future__ import annotations

import base64
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
from gpsuite.reporting.atomic import cannot, write_text
from gpsuite.reporting.comparison import collect_comparisons
from gpsuite.reporting.contents import group_by_verdict, group_missing, row_anchor
from gpsuite.reporting.equations import NONE, package_equations
from gpsuite.reporting.reading import list_folder, present, read_bytes, read_mapping
from gpsuite.reporting.rows import VERDICTS, ComparisonRow, read_comparison
from gpsuite.reporting.runs import SCALES, RunFolder, family_order, find_runs
from gpsuite.text import visible_lines

T = TypeVar("T")

MAX_ROWS = 40
"""Rows of a table shown on the page; the rest is in its CSV."""

UNFINISHED = "not finished: run the same command again to resume"

_PAGE_LIMIT = 4_900_000  # bytes; figures fill what the rest leaves
_TABLES_LIMIT = 1_000_000  # characters
_FAILURES_SHOWN = 10
_TRACEBACK_LINES = 15

_TITLES = {
    "pac_bayes": "PAC-Bayes bounds",
    "robustness": "Certified robustness",
    "perturbation": "Perturbation confidence regions",
    "active_learning": "Safe active learning",
    "wasserstein": "Wasserstein inference",
}


@dataclass
class Table:
    """A CSV file's beginning, as texts, and the caption of the Markdown file beside it."""

    name: str
    link: str
    caption: str = ""
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""


@dataclass
class Figure:
    """A figure to embed; `source` stays empty when the page has no room for it."""

    name: str
    link: str
    path: Path
    alt: str
    source: str = ""


@dataclass
class Section:
    """What the page shows of one run."""

    run: RunFolder
    anchor: str
    title: str
    badges: list[str]
    facts: list[tuple[str, str]]
    provenance: list[tuple[str, str]]
    failures: list[dict[str, str]]
    hidden_failures: int
    notes: list[str]
    comparison: list[ComparisonRow]
    problems: list[str]
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    @property
    def verdicts(self) -> list[tuple[str, int]]:
        """Each verdict that occurs, with its count."""
        return _count_verdicts(self.comparison)


def write_report(results_dir: Path, conf_dir: Path) -> tuple[Path, list[str]]:
    """Write `results_dir`/report.html: every run's figures, tables, comparison and provenance.

    The page needs neither network nor other files, stays under 5 MB (what does not fit is linked), and is the
    same for the same results. Files that cannot be read are left out and named.

    Returns:
        the page, and what is wrong with the files that it had to leave out.

    Raises:
        ResultsError: if it cannot be written.
        ValueError: if a file of conf/paper is malformed.
    """
    sections = [_section(run, results_dir) for run in find_runs(results_dir)]
    _fill_tables(sections, results_dir)
    problems: list[str] = []
    timed = results_dir / "bench" / "bench.csv"
    bench = _tried(problems, partial(_table, results_dir), timed) if present(timed) else None
    families: dict[str, list[Section]] = {}
    for section in sorted(sections, key=lambda section: family_order(section.run.family)):
        families.setdefault(section.run.family, []).append(section)
    best = collect_comparisons(results_dir, conf_dir)
    anchors = {section.run.path: section.anchor for section in sections}
    newest = {item.run.path: item.rows for item in best if item.run is not None and not item.problem}
    for section in sections:  # also shows the values added to conf/paper since the run
        section.comparison = newest.get(section.run.path, section.comparison)
    content = {
        "families": [(_TITLES.get(family, family), found) for family, found in families.items()],
        "verdicts": _count_verdicts(row for item in best for row in item.rows),
        "groups": group_by_verdict(best, anchors),
        "missing": group_missing(best, conf_dir),
        "bench": bench if bench is not None and bench.rows else None,
        "equations": [each for each in package_equations() if each.reference != NONE],
    }
    _fill_figures(sections, _PAGE_LIMIT - len(_render(content).encode("utf-8", "backslashreplace")))
    path = results_dir / "report.html"
    write_text(path, _render(content))
    problems += [text for section in sections for text in section.problems if text != UNFINISHED]
    return path, problems


def _render(content: Mapping[str, object]) -> str:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible_lines(value) if type(value) is str else value,  # not its own mark-up
    )
    environment.filters["number"] = _number
    environment.globals["row_anchor"] = row_anchor
    template = Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(content)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _count_verdicts(rows: Iterable[ComparisonRow]) -> list[tuple[str, int]]:
    counts = Counter(row.verdict for row in rows)
    return [(verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict]]


def _tried(problems: list[str], read: Callable[[Path], T], path: Path) -> T | None:
    """Return what `read` finds; None where it finds damage, which is noted."""
    try:
        return read(path)
    except ResultsError as error:
        problems.append(str(error))
        return None


def _section(run: RunFolder, results_dir: Path) -> Section:
    problems: list[str] = []
    about = _tried(problems, read_mapping, run.path / "run.json")
    if about is None:
        about, problems = {}, problems or [UNFINISHED]
    comparison: list[ComparisonRow] = []
    if present(run.path / "comparison.csv"):
        comparison = _tried(problems, read_comparison, run.path) or []
    failures = [item for item in _list(about.get("failures")) if isinstance(item, dict)]
    title = str(about.get("title") or run.experiment)
    return Section(
        run=run,
        anchor="run-" + "".join(letter if letter.isalnum() else "-" for letter in run.name),
        title=title,
        badges=_badges(run, about),
        facts=_facts(run, about),
        provenance=_provenance(about),
        failures=[
            _failure(item, results_dir / ".records" / run.family) for item in failures[:_FAILURES_SHOWN]
        ],
        hidden_failures=max(0, len(failures) - _FAILURES_SHOWN),
        notes=[str(note) for note in _list(about.get("notes"))],
        comparison=comparison,
        problems=problems,
        figures=[
            Figure(path.stem, _link(path, results_dir), path, f"{title}: {path.stem.replace('_', ' ')}")
            for path in _tried(problems, list_folder, run.path / "figures") or []
            if path.suffix == ".png"
        ],
    )


def _badges(run: RunFolder, about: Mapping[str, Any]) -> list[str]:
    tasks = _dict(about.get("tasks"))
    marks = [
        ("not finished", not about),
        ("stand-in data", any(data.get("stand_in") for data in _datasets(about))),
        ("smoke scale", run.scale == "smoke"),
        ("failed tasks", any(tasks.get(status) for status in ("error", "diverged"))),
        ("ended by its budget", bool(tasks.get("budget"))),
        ("infeasible tasks", bool(tasks.get("infeasible"))),
        ("own settings", bool(run.tag)),
        ("changed code", bool(_dict(about.get("git")).get("dirty"))),
    ]
    return [text for text, given in marks if given]


def _facts(run: RunFolder, about: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("reproduces", ", ".join(str(about[key]) for key in ("paper", "figure") if about.get(key))),
        ("status", about.get("status")),
        ("tasks", _pairs(about.get("tasks"))),
        ("scale", run.scale),
        ("settings changed", ", ".join(str(name) for name in _list(about.get("changed")))),
        ("data", ", ".join(_data(data) for data in _datasets(about))),
        ("wall time", _seconds(about.get("wall_seconds"))),
        ("command", shlex.join(str(word) for word in _list(about.get("command")))),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _datasets(about: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what run.json says of its dataset, or of each of several."""
    return [_dict(each) for each in (_list(about.get("datasets")) or [about.get("dataset")])]


def _data(dataset: Mapping[str, Any]) -> str:
    name = str(dataset.get("name") or "")
    licence = f" ({dataset['licence']})" if dataset.get("licence") else ""
    return f"made-up stand-in for {name}" if dataset.get("stand_in") else name + licence


def _provenance(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    git = _dict(about.get("git"))
    commit = (
        f"{git['commit']}{' with uncommitted changes' if git.get('dirty') else ''}"
        if git.get("commit")
        else ""
    )
    memory = _float(about.get("peak_memory_mb"))
    facts = [
        ("commit", commit),
        ("versions", _pairs(about.get("versions"))),
        ("machine", _pairs(about.get("machine"))),
        ("threads", about.get("threads")),
        ("seed", about.get("seed")),
        (
            "dataset hash",
            ", ".join(str(data["content_hash"]) for data in _datasets(about) if "content_hash" in data),
        ),
        ("started", about.get("started")),
        ("finished", about.get("finished")),
        ("CPU time", _seconds(about.get("cpu_seconds"))),
        ("peak memory", None if memory is None else f"{memory:.0f} MB"),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _failure(item: Mapping[str, Any], records: Path) -> dict[str, str]:
    """Return a failed task's texts; its traceback is a file among the records, by name."""
    name = Path(str(item.get("traceback") or "")).name
    try:
        text = read_bytes(records / name).decode("utf-8", "replace")
    except (OSError, ValueError):  # none, or a name that no file can have
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
    seconds = _float(value)
    if seconds is None or seconds < 120:
        return "" if seconds is None else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _float(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def _link(path: Path, results_dir: Path) -> str:
    return quote(os.fsencode(path.relative_to(results_dir).as_posix()))


def _fill_figures(sections: Sequence[Section], room: int) -> None:
    """Embed figures while there is room: each run's first, then each second; shipped and larger scales lead."""
    queue = [
        (position, bool(section.run.tag), SCALES.index(section.run.scale), number, figure)
        for number, section in enumerate(sections)
        for position, figure in enumerate(section.figures)
    ]
    for *_, number, figure in sorted(queue, key=lambda item: item[:4]):
        try:
            if figure.path.stat().st_size * 4 // 3 + 40 > room:
                continue
            content = read_bytes(figure.path)
        except OSError as error:
            sections[number].figures.remove(figure)
            sections[number].problems.append(str(cannot("read", figure.path, error)))
            continue
        figure.source = "data:image/png;base64," + base64.b64encode(content).decode("ascii")
        room -= len(figure.source)


def _fill_tables(sections: Sequence[Section], results_dir: Path) -> None:
    room, read_table = _TABLES_LIMIT, partial(_table, results_dir)
    for section in sections:
        folder, problems = section.run.path / "tables", section.problems
        for path in _tried(problems, list_folder, folder) or []:
            table = _tried(problems, read_table, path) if path.suffix == ".csv" else None
            if table is None:
                continue
            size = sum(len(cell) + 10 for row in table.rows for cell in row)
            if size > room:
                table.header, table.rows = [], []
                table.note = "not shown, to keep the page small"
            else:
                room -= size
            section.tables.append(table)


def _table(results_dir: Path, path: Path) -> Table:
    try:
        lines = csv.reader(io.StringIO(read_bytes(path).decode("utf-8"), newline=""))
        header = next(lines, [])
        rows = [[_shorten(cell) for cell in line] for line in islice(lines, MAX_ROWS)]
        hidden = sum(1 for _ in lines)
    except (OSError, ValueError, csv.Error) as error:
        raise cannot("read", path, error) from error
    note = f"first {MAX_ROWS} of {MAX_ROWS + hidden} rows" if hidden else ""
    return Table(path.stem, _link(path, results_dir), _caption(path.with_suffix(".md")), header, rows, note)


def _caption(path: Path) -> str:
    """Return the first line of a table in Markdown, without its escapes; nothing if there is no such file."""
    try:
        text = read_bytes(path).decode("utf-8")
    except (OSError, ValueError):
        return ""
    return unescape(re.sub(r"\\([\\|])", r"\1", text.split("\n", 1)[0].strip()))


def _shorten(cell: str) -> str:
    """Round what is a decimal number; the CSV keeps all digits."""
    if not any(mark in cell for mark in ".eE"):
        return cell
    try:
        return f"{float(cell):.5g}"
    except ValueError:
        return cell
