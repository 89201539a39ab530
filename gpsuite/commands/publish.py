"""`gpsuite publish`: copy what may be committed to results/published."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gpsuite.commands.tables import show_json
from gpsuite.commands.words import experiment_names, read_words
from gpsuite.config.files import conf_dir
from gpsuite.engine.folder import PLAN, RUN, pack_run
from gpsuite.errors import ResultsError, UserError
from gpsuite.reporting.collect import SCALES, folders_with
from gpsuite.reporting.files import ARCHIVE, read_mapping
from gpsuite.reporting.gallery import write_gallery
from gpsuite.reporting.joint_figures import draw_joint_figures
from gpsuite.reporting.publish import publish
from gpsuite.text import visible, visible_lines

MOST_BYTES = 80_000_000  # of all published records together: everybody clones the repository

HELP = """
gpsuite publish experiment ... [results_dir=DIR] [format=json]

Copies tables, figures, comparison, configuration and run.json of every finished run of the experiments named to
results/published. Of several scales with one tag, or none, the largest is copied.

The run's records go to records.zip. So a fresh clone redraws the run without computing, and `gpsuite recheck` computes
some of them again. Arrays that hold rows of a dataset are not published, and arrays from which nothing is drawn are
not. Some of scikit-learn's digits are, which are free. A figure that several published runs answer is drawn once.
"""


def main(words: list[str]) -> int:
    """Publish the finished runs of the experiments named, of each tag the largest."""
    given = read_words(words, reads=True)
    if not given.names:
        raise UserError("publish: name the experiments to publish, for example pac_bayes/epsilon_boston")
    runs = [
        (name, folder)
        for name in experiment_names(given.names)
        for folder in _largest(folders_with(given.results_dir, name, RUN))
    ]
    if not runs:
        raise UserError(f"publish: no finished run of {', '.join(given.names)} under {given.results_dir}")
    code, written = 0, []
    for name, folder in runs:
        try:
            written.append(publish(folder, given.results_dir, partial(_packed, name, folder, given.results_dir)))
            _warn_of_changes(folder)
        except ResultsError as error:  # one run's damage does not keep the others back
            print(f"gpsuite: {visible_lines(str(error))}", file=sys.stderr)
            code = 2
    written += draw_joint_figures(given.results_dir / "published", conf_dir())
    write_gallery(given.results_dir, conf_dir())
    if given.json:
        show_json({"files": written, "exit_code": code})
    for path in () if given.json else written:
        print(visible(str(path)))
    return code


def _warn_of_changes(folder: Path) -> None:
    # others can compute again only what a commit holds
    git = (read_mapping(folder / RUN) or {}).get("git")
    if isinstance(git, dict) and git.get("dirty"):
        print(f"gpsuite: {visible(str(folder))}: computed from files with changes that no commit has", file=sys.stderr)


def _largest(folders: Sequence[Path]) -> list[Path]:
    """Return the run at the largest scale of each tag: a smaller one was to try it out."""
    best: dict[str, Path] = {}
    for folder in folders:
        scale, _, tag = folder.name.partition("~")
        if scale not in SCALES:
            print(f"gpsuite: {visible(str(folder))}: left out, no run has such a name", file=sys.stderr)
        elif tag not in best or SCALES.index(scale) < SCALES.index(best[tag].name.partition("~")[0]):
            best[tag] = folder
    kept = set(best.values())
    for folder in folders:
        larger = best.get(folder.name.partition("~")[2])
        if folder not in kept and larger is not None:
            print(f"gpsuite: {visible(str(folder))}: left out, there is {larger.name}", file=sys.stderr)
    return [folder for folder in folders if folder in kept]


def _packed(experiment: str, folder: Path, results_dir: Path) -> dict[str, bytes]:
    """Return the run's archive of records by its name.

    Raises:
        ResultsError: if all published records would become too large.
    """
    packed = pack_run(experiment, folder / PLAN, results_dir)
    earlier = results_dir / "published" / folder.relative_to(results_dir) / ARCHIVE
    others = {*(results_dir / "published").rglob(ARCHIVE)} - {earlier}
    total = len(packed) + sum(path.stat().st_size for path in others)
    if total > MOST_BYTES:
        raise ResultsError(
            f"{folder}: its records take {len(packed) / 1e6:.1f} MB, all published ones {total / 1e6:.0f} MB\n"
            f"at most {MOST_BYTES / 1e6:.0f} MB are published. Publish fewer runs",
            key=str(folder),
        )
    return {ARCHIVE: packed}
