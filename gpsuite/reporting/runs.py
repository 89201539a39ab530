"""Where runs lie: results/<family>/<name>/<scale>[~<tag>]/."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpsuite.reporting.reading import list_folder, present

SCALES = ("paper", "quick", "smoke")
"""Best first."""

FAMILIES = ("pac_bayes", "robustness", "perturbation", "active_learning", "wasserstein")
"""In the order in which they are shown; others follow."""

_MARKERS = ("run.json", "plan.json", "comparison.csv")


@dataclass(frozen=True)
class RunFolder:
    """One run's folder, taken apart.

    Args:
        path: the folder.
        experiment: `<family>/<name>`, or one word for an experiment without a family.
        scale: `smoke`, `quick` or `paper`.
        tag: what follows `~` in the folder's name; empty for the shipped experiment.
    """

    path: Path
    experiment: str
    scale: str
    tag: str

    @property
    def family(self) -> str:
        """First word of the experiment's name."""
        return self.experiment.split("/")[0]

    @property
    def name(self) -> str:
        """`<experiment>/<scale>[~<tag>]`, which is also the path below the results folder."""
        return f"{self.experiment}/{self.path.name}"


def find_runs(results_dir: Path) -> list[RunFolder]:
    """Return all run folders, finished or not: by experiment, shipped before tagged, best scale first."""
    found = [_parse(path, results_dir) for depth in ("*/*", "*/*/*") for path in results_dir.glob(depth)]
    return sorted((run for run in found if run is not None), key=_order)


def folders_with(results_dir: Path, experiment: str, name: str) -> list[Path]:
    """Return the folders of an experiment that hold an entry of this name, a file or not.

    Raises:
        ResultsError: if the experiment's folder cannot be read.
    """
    return [folder for folder in list_folder(results_dir / experiment) if present(folder / name)]


def family_order(family: str) -> tuple[int, str]:
    """Sort key that puts the families of FAMILIES first."""
    return (FAMILIES.index(family) if family in FAMILIES else len(FAMILIES), family)


def _parse(path: Path, results_dir: Path) -> RunFolder | None:
    parts = path.relative_to(results_dir).parts
    scale, _, tag = path.name.partition("~")
    if scale not in SCALES or parts[0] in ("published", "bench") or parts[0].startswith("."):
        return None
    if not any(present(path / marker) for marker in _MARKERS):  # whatever they are by now
        return None
    return RunFolder(path, "/".join(parts[:-1]), scale, tag)


def _order(run: RunFolder) -> tuple[tuple[int, str], str, bool, int, str]:
    return (family_order(run.family), run.experiment, bool(run.tag), SCALES.index(run.scale), run.tag)
