"""`gpsuite publish`: copy what may be committed to results/published."""

from __future__ import annotations

from gpsuite.commands.words import experiment_names, read_words
from gpsuite.engine.folder import RUN
from gpsuite.errors import UserError
from gpsuite.reporting.publish import publish

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
    copied = 0
    for name in experiment_names(given.names):
        for path in sorted((given.results_dir / name).glob(f"*/{RUN}")):
            print(publish(path.parent, given.results_dir))
            copied += 1
    if not copied:
        raise UserError(f"publish: no finished run of {', '.join(given.names)} under {given.results_dir}")
    return 0
