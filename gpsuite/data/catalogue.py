"""Descriptions of conf/dataset without composing a configuration, and the table of `gpsuite data list`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from gpsuite.data.files import locate
from gpsuite.data.spec import CsvSpec, DatasetSpec, Spec, from_plain
from gpsuite.errors import DataError, unknown_name
from gpsuite.plugins import conf_files, readable

_SHOWN_URLS = 4


@dataclass(frozen=True)
class Description:
    """One row of `gpsuite data list`.

    Attributes:
        name: the dataset's name.
        title: one line.
        task: `regression`, `classification`, or `any` for the user's own table.
        shape: rows x inputs, e.g. `506 x 13`.
        licence: licence as stated by the source.
        state: `embedded`, `found`, `missing` or `user file`. `found` means that all needed files exist. `verify` reads
            them.
        where: the folder it was found in, or the source to get it from.
    """

    name: str
    title: str
    task: str
    shape: str
    licence: str
    state: str
    where: str


def dataset_names(conf_dir: Path) -> list[str]:
    """Return the names of all datasets, sorted."""
    return sorted(conf_files(conf_dir, "dataset"))


def read_spec(conf_dir: Path, name: str) -> Spec:
    """Return the description in `dataset/NAME.yaml`. Files shared with another dataset are filled in.

    Raises:
        UserError: if there is no dataset of that name. The message lists the valid ones.
        DataError: if the file is not a valid dataset description.
    """
    names = conf_files(conf_dir, "dataset")
    if name not in names:
        raise unknown_name("dataset", name, names)
    return _read_spec(names[name], conf_dir)


def _read_spec(path: Path, conf_dir: Path) -> Spec:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{path}: cannot be read: {' '.join(str(error).split())}", key="dataset") from error
    if not isinstance(values, dict):
        raise DataError(f"{path}: holds no keys", key="dataset")
    spec = from_plain(values, where=str(path))
    return spec if isinstance(spec, CsvSpec) else with_shared_files(spec, conf_dir)


def with_shared_files(spec: DatasetSpec, conf_dir: Path) -> DatasetSpec:
    """Return the spec with the files and the folder of the dataset its `files_from` names.

    Raises:
        DataError: if that dataset has no files, or the spec has files itself.
    """
    if spec.files_from is None:
        return spec
    source = read_spec(conf_dir, spec.files_from)
    if spec.files or isinstance(source, CsvSpec) or not source.files:
        raise DataError(
            f"dataset={spec.name}: files_from={spec.files_from} needs a dataset with files, and no files here",
            key="dataset",
        )
    return replace(spec, files=source.files, folder=spec.folder or source.folder_name, files_from=None)


def describe(conf_dir: Path, cache_dir: Path) -> list[Description]:
    """Return one row per dataset. Looks for the files but does not read them.

    Args:
        conf_dir: the folder that holds `dataset/`.
        cache_dir: the folder of downloads.

    Raises:
        DataError: if a description in conf/dataset is not valid.
    """
    found = readable(conf_dir, "dataset", lambda path: _describe(_read_spec(path, conf_dir), cache_dir))
    return [found[name] for name in sorted(found)]


def _describe(spec: Spec, cache_dir: Path) -> Description:
    if isinstance(spec, CsvSpec):
        task, shape, state, where = (spec.task or "any", "any", "user file", "dataset.path=FILE dataset.target=COLUMN")
    else:
        task, shape = spec.task, f"{spec.rows} x {spec.n_inputs}"
        found = [locate(spec, file, cache_dir) for file in spec.files]
        present = [path for path in found if path is not None]
        absent = [file for file, path in zip(spec.files, found, strict=True) if not file.optional and path is None]
        if spec.embedded:
            state, where = "embedded", "in the installed packages"
        elif not absent:
            state, where = "found", ", ".join(dict.fromkeys(str(path.parent) for path in present))
        else:
            state = "missing"
            where = _addresses([url for file in absent for url in file.urls[:1]])
    return Description(spec.name, spec.title, task, shape, spec.licence, state, where)


def _addresses(urls: list[str]) -> str:
    """Return the addresses. If there are very many, only the first."""
    shown = urls if len(urls) <= _SHOWN_URLS else [f"{urls[0]} and {len(urls) - 1} more"]
    return ", ".join(shown)
