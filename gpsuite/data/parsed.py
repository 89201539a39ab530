"""Parsed arrays kept on disk, so that a large dataset is parsed once and not in every process.

`CACHE/.parsed/CONTENT_HASH/` holds one uncompressed .npy per array and `parsed.json`, which states the SHA-256 of
each of them and of itself. Whatever does not fit is ignored and written anew; where nothing can be written, nothing
is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpsuite.atomic import write_atomically
from gpsuite.data.dataset import Dataset
from gpsuite.data.hashing import content_hash, json_hash
from gpsuite.data.spec import DatasetSpec

_FORMAT = 1
_INDEX = "parsed.json"


def parsed_folder(cache_dir: Path, content: str) -> Path:
    """Return the folder of the parsed arrays of a dataset with that content hash."""
    return cache_dir / ".parsed" / content


def read_parsed(spec: DatasetSpec, folder: Path) -> Dataset | None:
    """Return the dataset from its parsed arrays, or None if they are not there, damaged, or of other content."""
    try:
        stated = json.loads((folder / _INDEX).read_bytes())
        index = stated["index"]
        wanted = {"format": _FORMAT, "content_hash": content_hash(spec)}
        if stated["sha256"] != json_hash(index) or {key: index[key] for key in wanted} != wanted:
            return None
        arrays = {name: _read_array(folder, name, digest) for name, digest in index["arrays"].items()}
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return _dataset(spec, index, arrays)


def write_parsed(dataset: Dataset, folder: Path) -> None:
    """Keep the arrays of a dataset; the index is written last, so that a reader finds all of it or nothing."""
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
    """Build the dataset; its words come from the spec, which may have been edited since the arrays were kept."""
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
    """Return the array as bytes where that loses nothing (pixels, labels): an eighth of the space."""
    if array.dtype != np.float64 or array.min() < 0 or array.max() > 255 or np.signbit(array).any():
        return array
    small = array.astype(np.uint8)
    return small if np.array_equal(small, array) else array
