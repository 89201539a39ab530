"""From a dataset's description to its arrays, in two steps: `prepare` when planning, `load` in the task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gpsuite.data.catalogue import shipped_conf_dir, with_shared_files
from gpsuite.data.dataset import Dataset, Task
from gpsuite.data.files import changed_error, check, read_verified, require
from gpsuite.data.hashing import content_hash
from gpsuite.data.parsed import parsed_folder, read_parsed, write_parsed
from gpsuite.data.sources import get_loader
from gpsuite.data.spec import CsvSpec, DatasetSpec, Spec, from_plain, to_plain
from gpsuite.data.standin import MAX_ROWS, generate_stand_in, stand_in_hash
from gpsuite.data.table.read import read_csv, read_resolved
from gpsuite.errors import DataError, MissingDataError
from gpsuite.text import typed_path

_KEPT_DATASETS = 4  # a process works on few datasets; each may take hundreds of megabytes


@dataclass(frozen=True)
class PreparedDataset:
    """A dataset that was found and verified; small, plain, and enough to load it in another process.

    Attributes:
        name: the dataset's name.
        task: `regression` or `classification`.
        rows: number of rows N that `load` will return.
        content_hash: the content that `load` will insist on.
        stand_in: True when generated data take the place of a missing dataset.
        spec: the description as plain values.
        paths: file name -> absolute path.
        parsed: folder of the parsed arrays of a dataset with `cache: true`, else None.
        notes: what was decided when the user's own table was read, each a sentence.
        absent: why the dataset cannot be loaded, where its files are nowhere; empty where they are.
    """

    name: str
    task: str
    rows: int
    content_hash: str
    stand_in: bool
    spec: Mapping[str, Any]
    paths: Mapping[str, str]
    parsed: str | None = None
    notes: tuple[str, ...] = ()
    absent: str = ""

    @property
    def shown_name(self) -> str:
        """Name of an own table's file, else of the dataset: for people."""
        return Path(self.spec["path"]).name if "path" in self.spec else self.name

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PreparedDataset:
        """Return the inverse of `to_dict`."""
        return cls(**{**values, "notes": tuple(values.get("notes", ()))})


def prepare(
    spec: Spec,
    *,
    cache_dir: Path,
    allow_stand_in: bool = False,
    allow_absent: bool = False,
    default_task: Task = "regression",
) -> PreparedDataset:
    """Find and verify what a dataset needs.

    Named datasets are not parsed, except that an optional file is read for its number of rows; a CSV is read
    completely.

    Args:
        spec: the description.
        cache_dir: the folder of downloads.
        allow_stand_in: replace a missing dataset by generated data, without trying to download it.
        allow_absent: return a missing dataset that is not to be had as `absent`: what it is is known without its
            files, and published records of it can be drawn.
        default_task: the task of a CSV that states none, i.e. what the experiment is made for.

    Raises:
        DataError: if a file is missing or changed, or the CSV is not usable as asked.
    """
    if isinstance(spec, CsvSpec):
        return _prepare_csv(spec, default_task)
    spec = with_shared_files(spec, shipped_conf_dir())
    if allow_stand_in and _is_missing(spec, cache_dir):
        return PreparedDataset(
            spec.name, spec.task, min(spec.rows, MAX_ROWS), stand_in_hash(spec), True, to_plain(spec), {}
        )
    try:
        paths = {name: str(path.absolute()) for name, path in require(spec, cache_dir).items()}
    except MissingDataError as error:
        if not allow_absent:
            raise
        needed = _without_absent(spec, {file.name: "" for file in spec.files if not file.optional})
        return replace(_described(needed, {}, None), absent=str(error))
    return _prepared(_without_absent(spec, paths), paths, cache_dir)


def load(prepared: PreparedDataset) -> Dataset:
    """Return the dataset; the tasks of one process that use the same one share it.

    Raises:
        DataError: if the content is no longer the one that was prepared, or the dataset is absent.
    """
    if prepared.absent:
        raise DataError(prepared.absent, key="dataset")
    return _load(json.dumps(prepared.to_dict(), sort_keys=True))


def _prepare_csv(spec: CsvSpec, default_task: Task) -> PreparedDataset:
    # Workers may run in another folder; the choices are stored as they were understood here.
    dataset, resolved = read_resolved(replace(spec, task=spec.task or default_task))
    plain = {**to_plain(resolved), "path": str(typed_path(resolved.path).absolute())}
    if resolved.new is not None:
        plain["new"] = str(typed_path(resolved.new).absolute())
    if dataset.safety is not None and resolved.candidates is not None:
        plain["candidates"] = str(typed_path(resolved.candidates).absolute())
    return PreparedDataset(
        spec.name,
        dataset.task,
        len(dataset.X),
        dataset.content_hash,
        False,
        plain,
        {},
        notes=dataset.notes,
    )


def _without_absent(spec: DatasetSpec, paths: Mapping[str, str]) -> DatasetSpec:
    """Return the spec with the files that are used, its note naming the optional ones that are not."""
    absent = [file.name for file in spec.files if file.name not in paths]
    if not absent:
        return spec
    note = f"{spec.note} Not found and not used: {', '.join(absent)}.".strip()
    return replace(spec, files=[file for file in spec.files if file.name in paths], note=note)


def _prepared(spec: DatasetSpec, paths: Mapping[str, str], cache_dir: Path) -> PreparedDataset:
    parsed = str(parsed_folder(cache_dir, content_hash(spec)).absolute()) if spec.cache else None
    prepared = _described(spec, paths, parsed)
    if any(file.optional for file in spec.files):  # `rows` of the description does not count it
        prepared = replace(prepared, rows=len(load(prepared).X))
    return prepared


def _described(spec: DatasetSpec, paths: Mapping[str, str], parsed: str | None) -> PreparedDataset:
    content, plain = content_hash(spec), to_plain(spec)
    return PreparedDataset(spec.name, spec.task, spec.rows, content, False, plain, dict(paths), parsed)


def _is_missing(spec: DatasetSpec, cache_dir: Path) -> bool:
    """Whether a needed file is nowhere; a changed file is an error also where stand-ins are allowed."""
    states = check(spec, cache_dir)
    for state in states:
        if state.state == "changed":
            raise changed_error(spec, state)
    return any(state.state == "missing" and not state.optional for state in states)


@lru_cache(maxsize=_KEPT_DATASETS)
def _load(text: str) -> Dataset:
    prepared = PreparedDataset.from_dict(json.loads(text))
    spec = from_plain(prepared.spec)
    if isinstance(spec, CsvSpec):
        dataset = read_csv(spec)
    elif prepared.stand_in:
        dataset = generate_stand_in(spec)
    else:
        dataset = _load_files(spec, prepared)
    if dataset.content_hash != prepared.content_hash:
        raise DataError(
            f"dataset={spec.name}: the data changed after the run was planned; start the run again\n"
            f"planned {prepared.content_hash}\nfound   {dataset.content_hash}",
            key="dataset",
        )
    return dataset


def _load_files(spec: DatasetSpec, prepared: PreparedDataset) -> Dataset:
    parsed = None if prepared.parsed is None else Path(prepared.parsed)
    known = None if parsed is None else read_parsed(spec, parsed)
    if known is not None:
        return known
    files = {file.name: file for file in spec.files}
    dataset = get_loader(spec.loader)(
        spec, lambda name: read_verified(spec, files[name], Path(prepared.paths[name]))
    )
    if parsed is not None:
        write_parsed(dataset, parsed)
    return dataset
