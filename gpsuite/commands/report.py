"""`gpsuite report`: one HTML page over all results, redrawn without computing."""

from __future__ import annotations

from gpsuite.commands.words import read_words
from gpsuite.config.files import conf_dir
from gpsuite.errors import UserError
from gpsuite.reporting.pages import write_report

HELP = """
gpsuite report [results_dir=DIR]

Writes report.html: every run with figures, tables, comparison, command and provenance, readable offline.
"""


def main(words: list[str]) -> int:
    """Write the page and print its path."""
    given = read_words(words)
    if given.names:
        raise UserError(f"{given.names[0]}: report takes no names; it covers all results")
    print(write_report(given.results_dir, conf_dir()))
    return 0
