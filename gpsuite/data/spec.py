"""Schemas of conf/dataset/*.yaml: the description of a dataset before it is read, and its content hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeAlias

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.errors import DataError, unknown

MISSING: Any = "???"  # OmegaConf's mark of a mandatory value, written out: listing needs no OmegaConf

CSV_OPTIONS = (
    "path", "target", "inputs", "ignore", "task", "separator", "decimal", "thousands", "missing", "skip_rows",
    "categories", "strict", "time", "order", "group", "weights", "safety", "limit", "candidates", "new", "titles", "na",
    "not_na", "codes", "numbers", "dates", "day_first",
)  # fmt: skip
"""Settings of the user's table, as `dataset.KEY`."""

CSV_SYNONYMS = {
    "delimiter": "separator", "sep": "separator", "file": "path", "csv": "path", "label": "target", "output": "target",
    "y": "target", "features": "inputs", "columns": "inputs", "x": "inputs", "drop": "ignore", "exclude": "ignore",
    "nan": "na", "na_values": "na", "keep_default_na": "not_na", "skiprows": "skip_rows", "header": "titles",
    "dayfirst": "day_first", "dtype": "codes",
}  # fmt: skip
"""Other names of these options, for messages."""


@dataclass
class FileSpec:
    r"""One file of a dataset.

    Attributes:
        name: file name inside the dataset's folder, as the canonical source calls it.
        sha256: SHA-256 of the file as the URLs serve it.
        urls: addresses to download it from, tried in this order.
        uncompressed_sha256: SHA-256 of the content if the canonical file is itself compressed.
        git_blob_sha1: name of the file as a git object, i.e. SHA-1 of `blob SIZE\0` and the content. It verifies the
            file if no SHA-256 is known.
        optional: whether the dataset is usable without it. If it exists it is used. It is downloaded only together with
            others. The content hash shows whether it was used.
    """

    name: str = MISSING
    sha256: str | None = None
    urls: list[str] = field(default_factory=list)
    uncompressed_sha256: str | None = None
    git_blob_sha1: str | None = None
    optional: bool = False

    @property
    def expected(self) -> str:
        """The hash that identifies the file, of the kind `hash_kind`."""
        return self.sha256 or self.git_blob_sha1 or ""

    @property
    def hash_kind(self) -> str:
        """Kind of `expected`: `sha256` or `git blob sha1`."""
        return "sha256" if self.sha256 else "git blob sha1"


@dataclass
class DatasetSpec:
    """A named dataset. Nothing in it is the user's to change.

    Attributes:
        name: name of the dataset.
        title: one line for lists.
        task: `regression`, `classification` or `measurements`.
        loader: name of the loader in `gpsuite.data.sources`.
        rows: number of rows N.
        n_inputs: number of inputs D.
        n_targets: number of targets P.
        n_classes: number of classes C (classification).
        files: the files it is read from. Empty for embedded data.
        files_from: another dataset. This one shares its files and folder, in place of `files`.
        folder: the sub-folder of its files. None: the dataset's name.
        variant: name of one of the loader's preparations. The loader lists them.
        version: number of the preparation. Raised when the loader's numbers change, and part of the content hash.
        cache: keep the parsed arrays on disk, because parsing takes long.
        test_rows: number of rows of the test part it comes with (its last rows). None: it has no fixed split.
        target_names: names of the targets, if the stand-in also needs them. Empty: the loader has them.
        content_sha256: SHA-256 of the float64 arrays of an embedded dataset.
        embedded: needs no network and no file.
        licence: licence as stated by the source.
        citation: source to cite.
        note: anything a reader of results should know.
    """

    name: str = MISSING
    title: str = MISSING
    task: str = MISSING
    loader: str = MISSING
    rows: int = MISSING
    n_inputs: int = MISSING
    n_targets: int = 1
    n_classes: int | None = None
    files: list[FileSpec] = field(default_factory=list)
    files_from: str | None = None
    folder: str | None = None
    variant: str | None = None
    version: int = 1
    cache: bool = False
    test_rows: int | None = None
    target_names: list[str] = field(default_factory=list)
    content_sha256: str | None = None
    embedded: bool = False
    licence: str = MISSING
    citation: str = MISSING
    note: str = ""

    @property
    def folder_name(self) -> str:
        """Name of the sub-folder that holds its files."""
        return self.folder or self.name


@dataclass
class CsvSpec:
    r"""The user's table. `CSV_OPTIONS` are theirs to set.

    Attributes:
        name: always `csv`.
        title: one line for lists.
        loader: always `csv`.
        path: the file.
        target: a column name, `[a, b]`, `a, b`, or a list of names.
        inputs: column names, written as for `target`. None: all other columns.
        task: `regression`, `classification` or `measurements`. None: what the experiment is made for.
        ignore: columns to leave out, which are no target and no input. Written as for `target`.
        separator: one character between cells. `\t` is a tab. None: found.
        decimal: the decimal mark, `.` or `,`. None: found.
        thousands: the mark between thousands. None: found.
        missing: treatment of cells without a value: `error`, `drop_rows`, `drop_columns`. None: their rows are left
            out, up to a fifth of all rows.
        skip_rows: number of rows above the column names.
        categories: a text column of at most this many different texts is a category.
        strict: guess nothing: UTF-8, a comma, names in the first line, numbers, no gap.
        time: the column that says when a row was measured. The last rows are test rows. experiment=guarantee only.
        order: whether the rows of the file are in order of time: `time` or `none`. experiment=guarantee only.
        group: the column that tells which rows belong together, such as a patient. The guarantee is about new groups.
            experiment=guarantee only.
        weights: the column of how much likelier new rows are than these, up to a factor, at each row's inputs.
            The new rows need it too. Regressions of experiment=guarantee only.
        safety: measurements only: the column that must stay on one side of a limit.
        limit: measurements only: what is safe, `<=1.0` or `>=0.7`.
        candidates: measurements only: the file of inputs that may be measured next.
        new: a file of rows to predict, with the columns of inputs. experiment=guarantee only.
        titles: whether the first line holds the columns' names. None: found.
        na: values that mark a missing one, in every column (`-999`) or in one (`COLUMN=-999`).
        not_na: texts that are values although they usually mark a missing one, such as NA for North America.
        codes: columns of numbers that are read as categories.
        numbers: columns that are read as numbers, though they look like codes, dates or times.
        dates: columns of numbers such as 20240301 that are read as dates.
        day_first: whether 03/04/2020 is in April. None: found.
        licence: licence of the data.
        citation: source to cite.
        note: anything a reader of results should know.
    """

    name: str = "csv"
    title: str = "your own table"
    loader: str = "csv"
    path: str = MISSING
    target: Any = MISSING
    inputs: Any = None
    task: str | None = None
    ignore: Any = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    missing: str | None = None
    skip_rows: int = 0
    categories: int = 20
    strict: bool = False
    time: Any = None
    order: str | None = None
    group: Any = None
    weights: Any = None
    safety: Any = None
    limit: Any = None
    candidates: str | None = None
    new: str | None = None
    titles: bool | None = None
    na: Any = None
    not_na: Any = None
    codes: Any = None
    numbers: Any = None
    dates: Any = None
    day_first: bool | None = None
    licence: str = ""
    citation: str = ""
    note: str = ""


def csv_value(key: str, text: Any) -> Any:
    """Return the value of `dataset.KEY=TEXT` for `CsvSpec`. `null` gives the file's value.

    Raises:
        DataError: if it must be a number, or true or false, and is not one.
    """
    if not isinstance(text, str):
        return text
    may_be_null = {
        "ignore",
        "time",
        "order",
        "group",
        "weights",
        "separator",
        "decimal",
        "thousands",
        "missing",
        "titles",
    }
    may_be_null |= {"na", "not_na", "codes", "numbers", "day_first"}
    if text == "null" and key in may_be_null:
        return None
    if key in ("skip_rows", "categories"):
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise DataError(f"dataset.{key}={text}: must be a whole number, 0 or more", key=f"dataset.{key}")
        return int(text)
    if key in ("strict", "titles", "day_first"):
        if text.casefold() not in ("true", "false"):
            raise DataError(f"dataset.{key}={text}: must be true or false", key=f"dataset.{key}")
        return text.casefold() == "true"
    return text


Spec: TypeAlias = DatasetSpec | CsvSpec


def to_plain(spec: Spec) -> dict[str, Any]:
    """Return the spec as a dict of plain values, the inverse of `from_plain`."""
    return asdict(spec)


def from_plain(values: Mapping[str, Any], where: str = "dataset") -> Spec:
    """Return the spec of plain values. `loader: csv` gives a CsvSpec.

    Args:
        values: the content of a conf/dataset file.
        where: name of the source for error messages.

    Raises:
        DataError: for an unknown key, or if a needed key is absent.
    """
    kind = CsvSpec if values.get("loader") == "csv" else DatasetSpec
    given = dict(values)
    if kind is DatasetSpec:
        given["files"] = [_build(FileSpec, item, f"{where}.files") for item in given.get("files") or []]
    spec: Spec = _build(kind, given, where)
    return spec


def _build(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    allowed = [item.name for item in fields(kind)]
    for key in values:
        if key not in allowed:
            raise DataError(str(unknown(f"{where}.{key}: unknown key", key, allowed)), key)
    spec = kind(**values)
    if kind is not CsvSpec:  # the user's part of a CsvSpec may be incomplete. Its loader checks that
        absent = [name for name in allowed if getattr(spec, name) == MISSING]
        if absent:
            raise DataError(f"{where}: missing {', '.join(absent)}", key=absent[0])
    if isinstance(spec, FileSpec) and not spec.expected:
        raise DataError(f"{where}: missing sha256 or git_blob_sha1 of '{spec.name}'", key="sha256")
    return spec


STAND_IN_PREFIX = "stand-in-"


def content_hash(spec: DatasetSpec) -> str:
    """Return the hash of a named dataset's content. The spec fixes it, since every file is verified.

    Optional files count if the spec lists them: `prepare` leaves out missing ones.
    """
    parts = [[file.name, file.expected] for file in spec.files]
    preparation = [] if spec.variant is None and spec.version == 1 else [[spec.variant, spec.version]]
    return json_hash(["dataset", spec.name, spec.content_sha256, parts, *preparation])


def array_hash(*arrays: FloatArray) -> str:
    """Return the SHA-256 of the arrays' values as little-endian float64, row by row, array after array."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def json_hash(value: Any) -> str:
    """Return the SHA-256 of the value's compact JSON text."""
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()
