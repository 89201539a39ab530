"""Experiments over a list of datasets: `datasets=[A,B]` in place of `dataset=A`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpsuite.config.files import conf_dir, group_choices
from gpsuite.data.catalogue import read_spec
from gpsuite.data.loading import PreparedDataset, prepare
from gpsuite.data.spec import CsvSpec, DatasetSpec
from gpsuite.errors import DataError, UserError, unknown_name


def read_datasets(listed: Any, values: dict[str, Any], experiment: str) -> dict[str, DatasetSpec]:
    """Return name -> spec in the order asked for: `datasets=` of the user, taken out of `values`, else the file's.

    Args:
        listed: the experiment file's list.
        values: the user's values.
        experiment: its name.

    Raises:
        UserError: for an empty list, an unknown name, one named twice, and a table of the user's own.
    """
    given = values.pop("datasets", listed)
    names = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
    if not names:
        raise UserError("datasets=[]: name at least one dataset", key="datasets")
    found: dict[str, DatasetSpec] = {}
    for name in names:
        if str(name) in found:
            raise UserError(f"datasets=[{_listed(names)}]: a dataset is named twice", key="datasets")
        found[str(name)] = _read(str(name), experiment)
    return found


def refuse_single(word: str, experiment: str) -> UserError:
    """Build the error for `dataset=` or `dataset.key=` where the experiment has a list."""
    return UserError(
        f"{word}: {experiment} has a list of datasets; write datasets=[A,B]\n"
        f"valid: {', '.join(_names())}\na table of your own: experiment=pac_bayes/regression dataset=csv",
        key="dataset",
    )


def prepare_datasets(
    specs: Mapping[str, DatasetSpec], *, cache_dir: Path, allow_stand_in: bool, allow_absent: bool
) -> dict[str, PreparedDataset]:
    """Find and verify every dataset, before any work.

    Raises:
        DataError: if one is missing or changed; also says how to leave it out.
    """
    found: dict[str, PreparedDataset] = {}
    for name, spec in specs.items():
        try:
            prepared = prepare(
                spec, cache_dir=cache_dir, allow_stand_in=allow_stand_in, allow_absent=allow_absent
            )
        except DataError as error:
            raise DataError(f"{error}{_without(name, specs)}", key="datasets") from error
        if prepared.absent:
            prepared = replace(prepared, absent=f"{prepared.absent}{_without(name, specs)}")
        found[name] = prepared
    return found


def _without(name: str, specs: Mapping[str, DatasetSpec]) -> str:
    others = [other for other in specs if other != name]
    return f"; or leave it out: datasets=[{_listed(others)}]" if others else ""


def _read(name: str, experiment: str) -> DatasetSpec:
    if name not in group_choices()["dataset"]:
        raise unknown_name("dataset", name, _names())
    spec = read_spec(conf_dir(), name)
    if isinstance(spec, CsvSpec):
        raise refuse_single(f"datasets=[{name}]", experiment)
    return spec


def _names() -> list[str]:
    return [name for name in group_choices()["dataset"] if name != "csv"]


def _listed(names: list[Any]) -> str:
    return ",".join(str(name) for name in names)
