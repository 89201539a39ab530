"""`gpsuite publish`: copy what may be committed to results/published."""

from __future__ import annotations

import sys

from gpsuite.commands.words import experiment_names, read_words
from gpsuite.engine.folder import RUN
from gpsuite.errors import ResultsError, UserError
from gpsuite.reporting.publish import publish
from gpsuite.reporting.runs import folders_with
from gpsuite.text import visible_lines

HELP = """
gpsuite publish experiment ... [results_dir=DIR]

Copies tables, figures, comparison, configuration and run.json of every finished run of the experiments named
to results/published. Records and arrays, which may hold rows of third-party data, stay behind.
"""


def main(words: list[str]) -> int:
    """Publish every finished run of the experiments named."""
    given = read_words(words)
    if not given.names:
        raise UserError("publish: name the experiments to publish, for example pac_bayes/epsilon_boston")
    runs = [
        folder
        for name in experiment_names(given.names)
        for folder in folders_with(given.results_dir, name, RUN)
    ]
    if not runs:
        raise UserError(f"publish: no finished run of {', '.join(given.names)} under {given.results_dir}")
    code = 0
    for folder in runs:
        try:
            print(publish(folder, given.results_dir))
        except ResultsError as error:  # one run's damage does not keep the others back
            print(f"gpsuite: {visible_lines(str(error))}", file=sys.stderr)
            code = 2
    return code
