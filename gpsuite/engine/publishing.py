"""The records of a finished run, packed for publication."""

from __future__ import annotations

from pathlib import Path

from gpsuite.engine.plans import read_plan
from gpsuite.engine.store import RecordStore, Sealed, pack, unseal
from gpsuite.engine.worker import import_family
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.reporting.files import ARCHIVE


def pack_run(experiment: str, plan: Path, results_dir: Path) -> bytes:
    """Return the archive of a run's records, with the arrays that its experiment publishes.

    Args:
        experiment: `<family>/<name>`.
        plan: the run's plan.json.
        results_dir: where its records are.

    Raises:
        ResultsError: if the plan is missing or damaged, or a record is missing: what is published must be whole.
    """
    stored = read_plan(plan)
    if stored is None:
        raise ResultsError(f"{plan}: missing; run the experiment again", key=str(plan))
    store = RecordStore(results_dir, experiment.split("/")[0])
    sealed = [_present(store, task.key, plan) for task in stored.tasks]
    records = [unseal(each.key, each, partly=True) for each in sealed]
    import_family(experiment)
    names = EXPERIMENTS.get(experiment).published(records)
    return pack(
        Sealed(each.fields, {name: array for name, array in each.arrays.items() if name in kept})
        for each, kept in zip(sealed, names, strict=True)
    )


def published_bytes(results_dir: Path) -> int:
    """Return the size of all published records."""
    return sum(path.stat().st_size for path in (results_dir / "published").rglob(ARCHIVE))


def _present(store: RecordStore, key: str, plan: Path) -> Sealed:
    found = store.sealed(key)
    if found is None:
        raise ResultsError(
            f"{plan}: record {key} is missing or damaged; run the experiment again", key=str(plan)
        )
    return found
