"""The records of a finished run, packed for publication."""

from __future__ import annotations

from pathlib import Path

from gpsuite.engine.archive import NAME, Sealed, pack
from gpsuite.engine.plans import read_plan
from gpsuite.engine.store import RecordStore
from gpsuite.engine.worker import import_family
from gpsuite.errors import ResultsError
from gpsuite.experiments.base import EXPERIMENTS, Record


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
    records = [_present(store, task.key, plan) for task in stored.tasks]
    import_family(experiment)
    names = EXPERIMENTS.get(experiment).published(records)
    return pack(_published(store, record, kept) for record, kept in zip(records, names, strict=True))


def published_bytes(results_dir: Path) -> int:
    """Return the size of all published records."""
    return sum(path.stat().st_size for path in (results_dir / "published").rglob(NAME))


def _present(store: RecordStore, key: str, plan: Path) -> Record:
    record = store.get(key)
    if record is None:
        raise ResultsError(
            f"{plan}: record {key} is missing or damaged; run the experiment again", key=str(plan)
        )
    return record


def _published(store: RecordStore, record: Record, kept: frozenset[str]) -> Sealed:
    whole = store.sealed(record.key)
    assert whole is not None  # `get` has found it
    return Sealed(whole.fields, {name: array for name, array in whole.arrays.items() if name in kept})
