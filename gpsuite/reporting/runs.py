"""Where runs lie: results/<family>/<name>/<scale>[~<tag>]/, and published copies under results/published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpsuite.reporting.reading import list_folder, present

SCALES = ("paper", "quick", "smoke")
"""Best first."""

FAMILIES = ("pac_bayes", "robustness", "perturbation", "active_learning", "wasserstein")
"""In the order in which they are shown; others follow."""

PUBLISHED = "published"
"""The folder of a results folder that holds copies of runs, with the same paths inside."""

_MARKERS = ("run.json", "plan.json", "comparison.csv")


@dataclass(frozen=True)
class RunFolder:
    """One run's folder, taken apart.

    Args:
        path: the folder.
        experiment: `<family>/<name>`, or one word for an experiment without a family.
        scale: `smoke`, `quick` or `paper`.
        tag: what follows `~` in the folder's name; empty for the shipped experiment.
        published: whether it is a published copy; there is no run of the same name beside it then.
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
        """`<experiment>/<scale>[~<tag>]`, which is also the path below the results folder or its published copies."""
        return f"{self.experiment}/{self.path.name}"


def find_runs(results_dir: Path) -> list[RunFolder]:
    """Return all run folders, finished or not: by experiment, shipped before tagged, best scale first.

    A published copy counts where there is no run of its name.
    """
    own = _runs_in(results_dir, published=False)
    names = {run.name for run in own}
    copies = [run for run in _runs_in(results_dir / PUBLISHED, published=True) if run.name not in names]
    return sorted(own + copies, key=_order)


def _runs_in(folder: Path, published: bool) -> list[RunFolder]:
    found = [_parse(path, folder, published) for depth in ("*/*", "*/*/*") for path in folder.glob(depth)]
    return [run for run in found if run is not None]


def folders_with(results_dir: Path, experiment: str, name: str) -> list[Path]:
    """Return the folders of an experiment that hold an entry of this name, a file or not.

    Raises:
        ResultsError: if the experiment's folder cannot be read.
    """
    return [folder for folder in list_folder(results_dir / experiment) if present(folder / name)]


def family_order(family: str) -> tuple[int, str]:
    """Sort key that puts the families of FAMILIES first."""
    return (FAMILIES.index(family) if family in FAMILIES else len(FAMILIES), family)


def _parse(path: Path, folder: Path, published: bool) -> RunFolder | None:
    parts = path.relative_to(folder).parts
    scale, _, tag = path.name.partition("~")
    if scale not in SCALES or parts[0] in (PUBLISHED, "bench") or parts[0].startswith("."):
        return None
    if not any(present(path / marker) for marker in _MARKERS):  # whatever they are by now
        return None
    return RunFolder(path, "/".join(parts[:-1]), scale, tag, published)


def _order(run: RunFolder) -> tuple[tuple[int, str], str, bool, int, str]:
    return (family_order(run.family), run.experiment, bool(run.tag), SCALES.index(run.scale), run.tag)
