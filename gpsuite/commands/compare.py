"""`gpsuite compare`: the papers' numbers and claims, and ours."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpsuite.commands.tables import STYLES, console, show_json, show_lines, show_table
from gpsuite.commands.words import experiment_names, read_words
from gpsuite.config.files import conf_dir
from gpsuite.reporting.catalogue import read_papers
from gpsuite.reporting.collect import RunComparison, collect_comparisons
from gpsuite.reporting.comparison import DECIDED, VERDICTS, ComparisonRow
from gpsuite.reporting.papers import COUNTED, in_words
from gpsuite.reporting.tables import ours_text
from gpsuite.text import line_width, visible, wrapped
from gpsuite.untrusted import leaving_links
from gpsuite.waiting import doing, done

HELP = """
gpsuite compare [experiment ...] [results_dir=DIR] [format=json]

Counts the verdicts, one line per experiment. Then follows what differs, and one line per paper. Shipped runs of the
largest scale are counted, and published runs if you have not run the experiment. With an experiment's name every value
is shown, and its runs with other settings. A pipe gets every value, whole and tab separated.

Verdicts on printed numbers and claims: reproduced, differs, undecided, not run. Facts about the data, identities and
numbers of the authors' code are checked: the count says how many hold. A comparison that cannot be read is named and
left out. Then the exit code is 2.
"""


def main(words: list[str]) -> int:
    """Print the comparison of the experiments named, all by default."""
    given = read_words(words, reads=True)
    names = experiment_names(given.names) if given.names else None
    doing("reading comparisons")
    found = collect_comparisons(given.results_dir, conf_dir(), names)
    done()
    if given.json:
        rows = [_numbers(run, row) for run in found for row in run.rows]
        show_json({"comparison": rows, "verdicts": Counter(row["verdict"] for row in rows)})
    elif sys.stdout.isatty() and any(run.rows for run in found):
        _show(found, details=names is not None)
    else:
        rows = [_columns(run, row) for run in found for row in run.rows]
        show_table("comparison with the published numbers", rows)
    problems = dict.fromkeys([*leaving_links(given.results_dir), *(run.problem for run in found if run.problem)])
    for problem in problems:
        print(f"gpsuite: {visible(problem)}", file=sys.stderr)
    return 2 if problems else 0


def _show(found: Sequence[RunComparison], details: bool) -> None:
    shown = [run for run in found if run.rows]
    counts = [_counts(run) for run in shown]
    empty = [column for column in counts[0] if not any(row[column] for row in counts)]
    show_lines([{column: text for column, text in row.items() if column not in empty} for row in counts])
    if any(run.run is not None and run.run.published for run in shown):
        print("* as published")
    rows = [row for run in shown for row in run.rows]
    for run in shown:
        if details and len(shown) > 1:
            print(f"\n{_name(run)}")
        for row in (row for row in run.rows if details or row.verdict == "differs"):
            _show_row(row, why=details and row.verdict == "differs")
    print()
    authors = {note.name: note.authors for note in read_papers(conf_dir())}
    for paper in dict.fromkeys(row.paper for row in rows):
        told = f"{authors.get(paper) or paper}: {in_words([row for row in rows if row.paper == paper])}"
        print("\n".join(wrapped(visible(told), line_width(sys.stdout), "    ")))


def _counts(run: RunComparison) -> dict[str, Any]:
    verdicts = Counter(row.verdict for row in run.rows if row.basis in COUNTED)
    checked = [row for row in run.rows if row.basis not in COUNTED and row.verdict in DECIDED]
    return {
        "experiment and run": _name(run),
        **{verdict: verdicts[verdict] or "" for verdict in VERDICTS},
        "checks": f"{sum(row.verdict == 'reproduced' for row in checked)} of {len(checked)}" if checked else "",
    }


def _name(run: RunComparison) -> str:
    name = "" if run.run is None else f" {run.run.path.name}{'*' if run.run.published else ''}"
    return f"{run.experiment}{name}"


def _show_row(row: ComparisonRow, *, why: bool) -> None:
    """Print what the paper says of one quantity and what we find, then the quantity in full, and why they differ."""
    from rich.text import Text

    numbers = {"paper": row.published, "ours": ours_text(row), "n": row.n}
    told = ", ".join(f"{name} {value}" for name, value in numbers.items() if value not in ("", None))
    head = Text.assemble(f"\n{row.id}  ", (row.verdict, STYLES.get(row.verdict, "")), visible(f"  {told}"))
    console().print(head)
    texts = [
        ", ".join(text for text in (row.quantity.rstrip("."), row.method, row.condition) if text),
        *([row.why] if why else []),
    ]
    for text in texts:
        print("\n".join(wrapped(f"    {visible(text)}", line_width(sys.stdout), "    ")))


def _numbers(run: RunComparison, row: ComparisonRow) -> dict[str, Any]:
    numbers = {"ours": row.ours, "standard_error": row.standard_error, "n": row.n, "difference": row.difference}
    texts = {key: value for key, value in _columns(run, row).items() if key not in ("ours ± s.e.", *numbers)}
    return {**texts, **numbers}


def _columns(run: RunComparison, row: ComparisonRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "experiment": row.experiment,
        "run": "" if run.run is None else run.run.path.name,
        "where": row.where,
        "quantity": row.quantity,
        "condition": row.condition,
        "published": row.published,
        "ours ± s.e.": ours_text(row),
        "n": row.n,
        "difference": "" if row.difference is None else f"{row.difference:.2g}",
        "verdict": row.verdict,
        "note": row.note,
        "kind": row.basis,
        "asked": row.asked,
        "cause": row.cause,
        "remark": row.remark,
        "method": row.method,  # last, so that the places of the others stay
    }
