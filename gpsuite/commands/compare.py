"""`gpsuite compare`: published numbers and claims beside ours."""

from __future__ import annotations

import math
import sys
from typing import Any

from gpsuite.commands.show import show_table
from gpsuite.commands.words import experiment_names, read_words
from gpsuite.config.files import conf_dir
from gpsuite.reporting.comparison import ComparisonRow, RunComparison, collect_comparisons
from gpsuite.reporting.tables import mean_and_error
from gpsuite.text import visible

HELP = """
gpsuite compare [experiment ...] [results_dir=DIR]

published | ours +- standard error | n | difference | verdict, for the shipped runs of the largest scale;
naming an experiment also shows its runs with other settings.
Verdicts: reproduced, partly, not reproduced, not run, not comparable.
A comparison that cannot be read is named and left out; the exit code is then 2.
"""


def main(words: list[str]) -> int:
    """Print the comparison of the experiments named, all by default."""
    given = read_words(words)
    names = experiment_names(given.names) if given.names else None
    found = collect_comparisons(given.results_dir, conf_dir(), names)
    rows = [_columns(run, row) for run in found for row in run.rows]
    show_table("comparison with the published numbers", rows)
    problems = [run.problem for run in found if run.problem]
    for problem in problems:
        print(f"gpsuite: {visible(problem)}", file=sys.stderr)
    return 2 if problems else 0


def _columns(run: RunComparison, row: ComparisonRow) -> dict[str, Any]:
    if row.ours is None:
        ours = ""
    else:
        ours = f"{row.ours:g}" if math.isinf(row.ours) else mean_and_error(row.ours, row.standard_error)
    return {
        "id": row.id,
        "experiment": row.experiment,
        "run": run.run.path.name if run.run is not None else "",
        "where": row.where,
        "quantity": row.quantity,
        "condition": row.condition,
        "published": row.published,
        "ours ± s.e.": ours,
        "n": row.n,
        "difference": "" if row.difference is None else f"{row.difference:.2g}",
        "verdict": row.verdict,
        "note": row.note,
    }
