"""Reading conf/dataset without composing a configuration, and the table of `gpsuite data list`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from gpsuite.data.files import LocatedFile, locate
from gpsuite.data.spec import CsvSpec, Spec, from_plain
from gpsuite.errors import DataError, unknown_name


@dataclass(frozen=True)
class Description:
    """One row of `gpsuite data list`.

    Attributes:
        name: the dataset's name.
        title: one line.
        task: `regression`, `classification`, or `any` for the user's own table.
        shape: rows x inputs, e.g. `506 x 13`.
        licence: licence as stated by the source.
        state: `embedded`, `found` (all files are there; `verify` reads them), `missing` or `user file`.
        where: the folder it was found in, or where to get it.
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
    return sorted(path.stem for path in (conf_dir / "dataset").glob("*.yaml"))


def read_spec(conf_dir: Path, name: str) -> Spec:
    """Read `conf_dir/dataset/NAME.yaml`.

    Raises:
        UserError: if there is no dataset of that name; the message lists the valid ones.
        DataError: if the file is not a valid dataset description.
    """
    names = dataset_names(conf_dir)
    if name not in names:
        raise unknown_name("dataset", name, names)
    path = conf_dir / "dataset" / f"{name}.yaml"
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{path}: cannot be read: {' '.join(str(error).split())}", key="dataset") from error
    if not isinstance(values, dict):
        raise DataError(f"{path}: holds no keys", key="dataset")
    return from_plain(values, where=str(path))


def describe(conf_dir: Path, cache_dir: Path) -> list[Description]:
    """Return one row per dataset; looks for the files but does not read them.

    Args:
        conf_dir: the folder that holds `dataset/`.
        cache_dir: the folder of downloads.

    Raises:
        DataError: if a description in conf/dataset is not valid.
    """
    return [_describe(read_spec(conf_dir, name), cache_dir) for name in dataset_names(conf_dir)]


def _describe(spec: Spec, cache_dir: Path) -> Description:
    if isinstance(spec, CsvSpec):
        task, shape, state, where = (
            spec.task or "any",
            "any",
            "user file",
            "dataset.path=FILE dataset.target=COLUMN",
        )
    else:
        task, shape = spec.task, f"{spec.rows} x {spec.n_inputs}"
        found = [locate(spec, file, cache_dir) for file in spec.files]
        present = [item.path for item in found if isinstance(item, LocatedFile)]
        if spec.embedded:
            state, where = "embedded", "in the installed packages"
        elif len(present) == len(found):
            state, where = "found", ", ".join(dict.fromkeys(str(path.parent) for path in present))
        else:
            state = "missing"
            where = ", ".join(url for file in spec.files for url in file.urls[:1])
    return Description(spec.name, spec.title, task, shape, spec.licence, state, where)
