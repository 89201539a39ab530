"""`gpsuite report`: one HTML page over all results, redrawn without computing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

from gpsuite.commands.tables import show_json
from gpsuite.commands.words import read_words
from gpsuite.config.files import conf_dir
from gpsuite.errors import UserError
from gpsuite.reporting.gallery import write_gallery
from gpsuite.reporting.pages import write_report
from gpsuite.text import visible
from gpsuite.waiting import doing, done

HELP = """
gpsuite report [results_dir=DIR] [format=json]

Writes report.html, which needs no network: what your runs answer, each paper with its verdicts, and every run with
figures, tables, comparison, command and provenance. A published run is shown if you have no run of its name.
published/README.md shows only these, for readers on a code host.
"""


def main(words: list[str]) -> int:
    """Write the page and print its path."""
    given = read_words(words)
    if given.names:
        raise UserError(f"{given.names[0]}: report takes no names. It covers all results")
    if not given.results_dir.is_dir():
        raise UserError(
            f"results_dir={given.results_dir}: no such folder, so there is nothing to report\n"
            "start with: gpsuite run tour",
            key="results_dir",
        )
    if given.json:
        show_json({"files": [show_page(given.results_dir, sys.stderr)]})
    else:
        show_page(given.results_dir)
    return 0


def show_page(results_dir: Path, stream: TextIO | None = None) -> Path:
    """Write the pages of a results folder. Print report.html's path to `stream` or stdout, and faults to stderr."""
    doing("writing the page")
    path, problems = write_report(results_dir, conf_dir())
    write_gallery(results_dir, conf_dir())
    done()
    for problem in problems:
        print(f"gpsuite: {visible(problem)}", file=sys.stderr)
    print(visible(str(path)), file=stream)
    return path
