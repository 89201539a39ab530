"""The runs under results/<family>/<name>/<scale>[~<tag>]/ and results/published, and their comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpsuite.errors import ResultsError
from gpsuite.reporting.comparison import DECIDED, ComparisonRow, PaperValue, not_run, read_comparison, read_paper_values
from gpsuite.reporting.files import as_number, list_folder, present, read_mapping
from gpsuite.reporting.statements import join_parts
from gpsuite.untrusted import guard_links, is_inside

SCALES = ("paper", "quick", "smoke")  # best first
# in the order in which they are shown. Others follow
FAMILIES = ("pac_bayes", "robustness", "perturbation", "active_learning", "wasserstein")
# the folder of a results folder with copies of runs, at the same paths inside
PUBLISHED = "published"
CHANGED = "its test was changed after this run. Run it again"
_MARKERS = ("run.json", "plan.json", "comparison.csv")


@dataclass(frozen=True)
class RunFolder:
    """One run's folder and what its path says.

    Args:
        experiment: `<family>/<name>`, or one word for an experiment without a family.
        tag: what follows `~` in the folder's name. Empty for the shipped experiment.
        published: whether it is a published copy. Then the user has no run of the same name.
    """

    path: Path
    experiment: str
    scale: str
    tag: str
    published: bool = False

    @property
    def family(self) -> str:
        """First word of the experiment's name."""
        return self.experiment.split("/")[0]

    @property
    def name(self) -> str:
        """`<experiment>/<scale>[~<tag>]`: the path inside the results folder, or inside its published copies."""
        return f"{self.experiment}/{self.path.name}"

    @property
    def words(self) -> str:
        """Its name in words: `epsilon boston`, and what is not as shipped: `inducing pol, splits 0 to 2`."""
        scale = "" if self.scale == "paper" else f"{self.scale} scale"
        parts = (self.experiment.split("/")[-1], scale, self.tag)
        return ", ".join(part.replace("_", " ") for part in parts if part)


def find_runs(results_dir: Path) -> list[RunFolder]:
    """Return all run folders, finished or not: by experiment, shipped before tagged, best scale first.

    A published copy counts if the user has no run of its name. What a link that leads out of the folder represents is
    no run. `leaving_links` names it.
    """
    guard_links(results_dir)
    own = _runs_in(results_dir, published=False)
    names = {run.name for run in own}
    copies = [run for run in _runs_in(results_dir / PUBLISHED, published=True) if run.name not in names]
    return sorted(own + copies, key=_order)


def _runs_in(folder: Path, published: bool) -> list[RunFolder]:
    families = [path for path in _entries(folder) if path.name not in (PUBLISHED, "bench")]
    experiments = [path for family in families for path in _entries(family)]
    paths = [*experiments, *(path for each in experiments for path in _entries(each))]
    return [run for path in paths if (run := _parse(path, folder, published)) is not None]


def _entries(folder: Path) -> list[Path]:
    """Return what is in a folder and is not hidden. Nothing of what is no folder, or one that we may not look into."""
    try:
        return [path for path in list_folder(folder) if not path.name.startswith(".") and is_inside(path)]
    except ResultsError:
        return []


def folders_with(results_dir: Path, experiment: str, name: str) -> list[Path]:
    """Return the folders of an experiment with an entry of this name, a file or not."""
    return [folder for folder in list_folder(results_dir / experiment) if present(folder / name)]


def family_order(family: str) -> tuple[int, str]:
    """Sort key that puts the families of FAMILIES first."""
    return (FAMILIES.index(family) if family in FAMILIES else len(FAMILIES), family)


def _parse(path: Path, folder: Path, published: bool) -> RunFolder | None:
    parts = path.relative_to(folder).parts
    scale, _, tag = path.name.partition("~")
    if scale not in SCALES:
        return None
    if not any(present(path / marker) for marker in _MARKERS):  # files or not
        return None
    return RunFolder(path, "/".join(parts[:-1]), scale, tag, published)


def _order(run: RunFolder) -> tuple[tuple[int, str], str, bool, int, str]:
    return (family_order(run.family), run.experiment, bool(run.tag), SCALES.index(run.scale), run.tag)


@dataclass(frozen=True)
class RunComparison:
    """The comparison of one run, or of an experiment that has no run.

    Args:
        rows: in the order of conf/paper.
        problem: why the run's comparison cannot be read, naming the file. Then there are no rows.
        not_comparable: why the run was not compared with the paper, from its run.json. Empty if it was.
        cpu_seconds: of the run's tasks.
        parts: statement that is judged in several runs -> id of the part in this run that decides it.
    """

    experiment: str
    run: RunFolder | None
    rows: list[ComparisonRow]
    problem: str = ""
    not_comparable: str = ""
    cpu_seconds: float = 0.0
    parts: Mapping[str, str] = field(default_factory=dict)


def collect_comparisons(
    results_dir: Path, conf_dir: Path, experiments: Sequence[str] | None = None
) -> list[RunComparison]:
    """Gather the comparisons of all runs, and `not run` for the papers' values without one.

    Without `experiments`, each value appears once: in its experiment's best run. That is the shipped one (paper before
    quick before smoke). If only tagged runs decide anything, it is the largest that is compared with the paper (a part
    of the shipped one). A value that this run does not decide appears in the largest other part of the same scale that
    does. Parts of one statement (`part_of` in conf/paper) are one row, in the run whose part decides it. With
    `experiments`, every row of all their runs: shipped ones first, best scale first, then tagged ones. A run with an
    unreadable comparison.csv is left out, and the problem is listed.

    Raises:
        ValueError: if a file of conf/paper is malformed.
    """
    values = read_paper_values(conf_dir)
    runs = [run for run in find_runs(results_dir) if present(run.path / "comparison.csv")]
    every = [*(value.experiment for value in values), *(run.experiment for run in runs)]
    names = experiments or dict.fromkeys(every)
    found: list[RunComparison] = []
    for name in names:
        entries = [entry for entry in values if entry.experiment == name]
        own = [_collect_run(run, entries) for run in runs if run.experiment == name]
        found += [item for item in own if item.problem]
        own = [item for item in own if not item.problem]
        shipped = [item for item in own if item.run is not None and not item.run.tag]
        shown = own if experiments else list(_best(own))
        found += shown
        if entries and not shipped and not any(item.rows for item in shown):
            reasons = [f"{item.run.path.name}: {item.not_comparable}" for item in shown if item.run]
            found.append(RunComparison(name, None, [not_run(entry, "; ".join(reasons)) for entry in entries]))
    if not experiments:
        found = _one_row_per_statement(found, {value.id: value.part_of for value in values if value.part_of})
    return [comparison for comparison in found if comparison.rows or comparison.problem]


def _one_row_per_statement(found: Sequence[RunComparison], part_of: Mapping[str, str]) -> list[RunComparison]:
    joined = join_parts((row for item in found for row in item.rows), part_of)
    deciding = {part: (name, row) for name, (part, row) in joined.items()}
    shown = []
    for item in found:
        rows = [deciding.get(row.id, ("", row))[1] for row in item.rows if row.id in deciding or row.id not in part_of]
        parts = {deciding[row.id][0]: row.id for row in item.rows if row.id in deciding}
        shown.append(replace(item, rows=rows, parts=parts))
    return shown


def rows_of_runs(results_dir: Path, conf_dir: Path) -> dict[Path, list[ComparisonRow]]:
    """Return every run's own comparison by its folder, with the values and remarks of today's conf/paper.

    Raises:
        ValueError: if a file of conf/paper is malformed.
    """
    names = dict.fromkeys(run.experiment for run in find_runs(results_dir))
    every = collect_comparisons(results_dir, conf_dir, list(names)) if names else []
    return {item.run.path: item.rows for item in every if item.run is not None and not item.problem}


def _best(own: Sequence[RunComparison]) -> Iterator[RunComparison]:
    """Yield the run that answers for an experiment, then what only other runs of its scale decide."""
    runs = [(item.run, item) for item in own if item.run is not None]
    runs.sort(key=lambda pair: (SCALES.index(pair[0].scale), bool(pair[0].tag), -pair[1].cpu_seconds))
    deciding = [(run, item) for run, item in runs if any(row.verdict in DECIDED for row in item.rows)]
    if not deciding:
        yield from [item for run, item in runs if not run.tag][:1]
        return
    (best, first), *others = deciding
    open_ids = {row.id for row in first.rows if row.verdict == "not run"}
    filled: list[RunComparison] = []
    for run, item in others:
        rows = [row for row in item.rows if row.id in open_ids and row.verdict in DECIDED]
        if run.scale == best.scale and rows:
            filled.append(replace(item, rows=rows))
            open_ids -= {row.id for row in rows}
    elsewhere = {row.id for item in filled for row in item.rows}
    yield replace(first, rows=[row for row in first.rows if row.id not in elsewhere])
    yield from filled


def _collect_run(run: RunFolder, entries: Sequence[PaperValue]) -> RunComparison:
    try:
        rows = read_comparison(run.path)
    except ResultsError as error:
        return RunComparison(run.experiment, run, [], str(error))
    today = {entry.id: entry for entry in entries}
    rows = [_as_of_today(row, today.get(row.id)) for row in rows]
    known = {row.id for row in rows}
    about = _about(run)
    why, spent = str(about.get("not_comparable") or ""), as_number(about.get("cpu_seconds")) or 0.0
    new: list[ComparisonRow] = []
    if not (why and run.tag):  # otherwise a separate study, which answers no value of the paper
        note = f"{run.path.name}: {why}" if why else "added after this run. Run it again"
        new = [not_run(entry, note) for entry in entries if entry.id not in known]
    return RunComparison(run.experiment, run, rows + new, not_comparable=why, cpu_seconds=spent)


def _as_of_today(row: ComparisonRow, entry: PaperValue | None) -> ComparisonRow:
    """Return the row with today's remark of conf/paper. Not run if value, condition or test has changed."""
    if entry is None:
        return row
    if (str(entry.test), entry.published, entry.condition) != (row.asked, row.published, row.condition):
        return not_run(entry, CHANGED)
    return replace(row, remark=entry.remark)


def _about(run: RunFolder) -> dict[str, Any]:
    try:
        return read_mapping(run.path / "run.json") or {}
    except ResultsError:  # reported where the run itself is shown
        return {}
