"""Arrays of a dataset from its description: `prepare` for planning, `load` in the task."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.atomic import write_atomically
from gpsuite.data.catalogue import with_shared_files
from gpsuite.data.dataset import Dataset, Task
from gpsuite.data.files import changed_error, check, read_verified, require
from gpsuite.data.sources import get_loader
from gpsuite.data.spec import STAND_IN_PREFIX, CsvSpec, DatasetSpec, Spec, content_hash, from_plain, json_hash, to_plain
from gpsuite.data.table.read import read_csv, read_resolved
from gpsuite.errors import DataError, MissingDataError
from gpsuite.plugins import shipped_conf_dir
from gpsuite.seeds import stream
from gpsuite.text import typed_path
from gpsuite.untrusted import LARGEST_TEXT, parse_json, read_file

MAX_ROWS = 400
_VERSION = 2  # part of the hash: increase it when the generated numbers change


def stand_in_hash(spec: DatasetSpec) -> str:
    """Return the content hash of the stand-in. Its prefix distinguishes it from every real dataset's."""
    shape = [spec.rows, spec.n_inputs, spec.n_targets, spec.n_classes, spec.test_rows]
    return STAND_IN_PREFIX + json_hash([_VERSION, spec.name, spec.task, *shape])


def generate_stand_in(spec: DatasetSpec) -> Dataset:
    """Return generated data of the spec's task and shape, at most `MAX_ROWS` rows, the same in every call.

    Inputs are standard normal. With W[D, K] normal of variance 1/D, the scores are X W. Regression (K = P):
    y = sin(2 X W) + 0.1 noise. Classification (K = C): the label is the largest score's. The first C rows get the
    labels 0, ..., C-1, so no class is empty. If the dataset has a test part, the last rows are the test part, in the
    same proportion.

    Raises:
        ValueError: for measurements. These are embedded or the user's own, so they are never missing.
    """
    if spec.task == "measurements":
        raise ValueError(f"{spec.name}: measurements have no stand-in")
    rng = stream(0, "stand-in", spec.name)
    n = min(spec.rows, MAX_ROWS)
    inputs = rng.standard_normal((n, spec.n_inputs))
    outputs = spec.n_targets if spec.task == "regression" else spec.n_classes or 2
    scores = inputs @ rng.standard_normal((spec.n_inputs, outputs)) / np.sqrt(spec.n_inputs)
    if spec.task == "regression":
        targets = np.sin(2.0 * scores) + 0.1 * rng.standard_normal(scores.shape)
    else:
        targets = _labels(scores)
    return Dataset(
        name=spec.name,
        task=cast(Task, spec.task),
        X=inputs,
        y=targets,
        input_names=tuple(f"x{column}" for column in range(spec.n_inputs)),
        target_names=tuple(spec.target_names or (f"y{column}" for column in range(targets.shape[1]))),
        content_hash=stand_in_hash(spec),
        stand_in=True,
        fixed_split=None if spec.test_rows is None else _split(n, spec.test_rows / spec.rows),
        licence="generated",
    )


def _split(n: int, test_share: float) -> tuple[IntArray, IntArray]:
    first_test = n - max(1, round(n * test_share))
    return np.arange(first_test), np.arange(first_test, n)


def _labels(scores: FloatArray) -> FloatArray:
    labels: FloatArray = scores.argmax(axis=1)[:, None].astype(np.float64)
    first = min(scores.shape)
    labels[:first, 0] = np.arange(first)
    return labels


_FORMAT = 1
_ARRAYS = ("X", "y", "grid", "train", "test")
_INDEX = "parsed.json"  # states the SHA-256 of each array's file and of this file. Wrong files are written again


def parsed_folder(cache_dir: Path, content: str) -> Path:
    """Return the folder of the parsed arrays of a dataset with that content hash."""
    return cache_dir / ".parsed" / content


def read_parsed(spec: DatasetSpec, folder: Path) -> Dataset | None:
    """Return the dataset from its parsed arrays, or None if they are missing, damaged, or of other content."""
    try:
        stated = parse_json(read_file(folder / _INDEX, LARGEST_TEXT))
        index = stated["index"]
        wanted = {"format": _FORMAT, "content_hash": content_hash(spec)}
        if stated["sha256"] != json_hash(index) or {key: index[key] for key in wanted} != wanted:
            return None
        arrays = {name: _read_array(folder, name, digest) for name, digest in index["arrays"].items()}
        return _dataset(spec, index, arrays)
    except Exception:  # damage raises many kinds of errors, from AttributeError to MemoryError. Parse the files again
        return None


def write_parsed(dataset: Dataset, folder: Path) -> None:
    """Store the arrays of a dataset. The index is written last, so a reader finds everything or nothing."""
    arrays: dict[str, NDArray[Any] | None] = {"X": dataset.X, "y": dataset.y, "grid": dataset.grid}
    arrays["train"], arrays["test"] = dataset.fixed_split or (None, None)
    with contextlib.suppress(OSError):  # a read-only or full disk: the next process parses again
        digests = {name: _write_array(folder, name, a) for name, a in arrays.items() if a is not None}
        index = {
            "format": _FORMAT,
            "content_hash": dataset.content_hash,
            "input_names": dataset.input_names,
            "target_names": dataset.target_names,
            "label_names": dataset.label_names,
            "units": dict(dataset.units),
            "arrays": digests,
        }
        text = json.dumps({"sha256": json_hash(index), "index": index})
        write_atomically(folder / _INDEX, lambda stream: stream.write(text.encode()))


def _dataset(spec: DatasetSpec, index: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Dataset:
    """Return the dataset. Its texts come from the spec, which may have been edited since the arrays were stored."""
    labels = index["label_names"]
    return Dataset(
        name=spec.name,
        task="classification" if spec.task == "classification" else "regression",
        X=arrays["X"],
        y=arrays["y"],
        input_names=tuple(index["input_names"]),
        target_names=tuple(index["target_names"]),
        content_hash=index["content_hash"],
        fixed_split=(arrays["train"], arrays["test"]) if "train" in arrays else None,
        label_names=None if labels is None else tuple(labels),
        grid=arrays.get("grid"),
        units=index["units"],
        licence=spec.licence,
        citation=spec.citation,
        note=spec.note,
    )


def _read_array(folder: Path, name: str, digest: str) -> NDArray[Any]:
    path = folder / f"{name}.npy"
    if name not in _ARRAYS or not path.is_file():  # reading a pipe would block
        raise ValueError(f"{path} is no array of a dataset")
    with path.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
            raise ValueError(f"{path} is damaged")
    array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _write_array(folder: Path, name: str, array: NDArray[Any]) -> str:
    """Write one array and return the SHA-256 of its file."""
    path = folder / f"{name}.npy"
    write_atomically(path, partial(np.save, arr=_compact(array), allow_pickle=False))
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _compact(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array as bytes if that loses nothing (pixels, labels): an eighth of the space."""
    if array.dtype != np.float64 or array.min() < 0 or array.max() > 255 or np.signbit(array).any():
        return array
    small = array.astype(np.uint8)
    return small if np.array_equal(small, array) else array


_KEPT_DATASETS = 4  # a process uses few datasets, and each may take hundreds of megabytes


@dataclass(frozen=True)
class PreparedDataset:
    """A dataset that was found and verified: small, plain, and sufficient to load it in another process.

    Attributes:
        name: the dataset's name.
        task: `regression` or `classification`.
        rows: number of rows N that `load` will return.
        content_hash: the content that `load` requires.
        stand_in: True if generated data replace a missing dataset.
        spec: the description as plain values.
        paths: absolute paths by file name.
        parsed: folder of the parsed arrays of a dataset with `cache: true`, otherwise None.
        notes: decisions made when the user's own table was read, each a sentence.
        warnings: doubts about how it was read, each a sentence or two.
        absent: reason why the dataset cannot be loaded if its files are missing. Otherwise empty.
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
    warnings: tuple[str, ...] = ()

    @property
    def shown_name(self) -> str:
        """Name of the user's file, otherwise of the dataset, for people."""
        return Path(self.spec["path"]).name if "path" in self.spec else self.name

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PreparedDataset:
        """Return the inverse of `to_dict`."""
        said = {key: tuple(values.get(key, ())) for key in ("notes", "warnings")}
        return cls(**{**values, **said})


def prepare(
    spec: Spec,
    *,
    cache_dir: Path,
    allow_stand_in: bool = False,
    allow_absent: bool = False,
    default_task: Task = "regression",
) -> PreparedDataset:
    """Find and verify the files of a dataset.

    Named datasets are not parsed. Only an optional file is read for its number of rows. A CSV is read completely.

    Args:
        spec: the description.
        cache_dir: the folder of downloads.
        allow_stand_in: whether to replace a missing dataset by generated data, without trying to download it.
        allow_absent: whether to return a missing dataset that cannot be downloaded as `absent`. Its description is
            known without its files, and its published records can be drawn.
        default_task: the task of a CSV that states none, i.e. the experiment's task.

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
    """Return the dataset. Tasks of one process share the same dataset.

    Raises:
        DataError: if the content has changed since it was prepared, or the dataset is absent.
    """
    if prepared.absent:
        raise DataError(prepared.absent, key="dataset")
    return _load(json.dumps(prepared.to_dict(), sort_keys=True))


def _prepare_csv(spec: CsvSpec, default_task: Task) -> PreparedDataset:
    # Workers may run in another folder. So the choices are stored as resolved here.
    dataset, resolved = read_resolved(replace(spec, task=spec.task or default_task))
    plain = {**to_plain(resolved), "path": str(typed_path(resolved.path).absolute())}
    if resolved.new is not None:
        plain["new"] = str(typed_path(resolved.new).absolute())
    if dataset.safety is not None and resolved.candidates is not None:
        plain["candidates"] = str(typed_path(resolved.candidates).absolute())
    rows, content = len(dataset.X), dataset.content_hash
    prepared = PreparedDataset(spec.name, dataset.task, rows, content, False, plain, {})
    return replace(prepared, notes=dataset.notes, warnings=dataset.warnings)


def _without_absent(spec: DatasetSpec, paths: Mapping[str, str]) -> DatasetSpec:
    """Return the spec with the used files. Its note names the optional ones that are not used."""
    absent = [file.name for file in spec.files if file.name not in paths]
    if not absent:
        return spec
    note = f"{spec.note} Not found and not used: {', '.join(absent)}.".strip()
    return replace(spec, files=[file for file in spec.files if file.name in paths], note=note)


def _prepared(spec: DatasetSpec, paths: Mapping[str, str], cache_dir: Path) -> PreparedDataset:
    parsed = str(parsed_folder(cache_dir, content_hash(spec)).absolute()) if spec.cache else None
    prepared = _described(spec, paths, parsed)
    if any(file.optional for file in spec.files):  # the description's `rows` do not count it
        prepared = replace(prepared, rows=len(load(prepared).X))
    return prepared


def _described(spec: DatasetSpec, paths: Mapping[str, str], parsed: str | None) -> PreparedDataset:
    content, plain = content_hash(spec), to_plain(spec)
    return PreparedDataset(spec.name, spec.task, spec.rows, content, False, plain, dict(paths), parsed)


def _is_missing(spec: DatasetSpec, cache_dir: Path) -> bool:
    """Return whether a needed file is missing. A changed file is an error even if stand-ins are allowed."""
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
            f"dataset={spec.name}: the data changed after the run was planned. Start the run again\n"
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
    dataset = get_loader(spec.loader)(spec, lambda name: read_verified(spec, files[name], Path(prepared.paths[name])))
    if parsed is not None:
        write_parsed(dataset, parsed)
    return dataset
