"""One module per source of data. Each registers its loaders in `LOADERS`.

A loader gets the dataset's description and a function that returns the verified, uncompressed content of one of
its files by name. It returns the Dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from gpsuite import plugins
from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset, SafetyColumn, Task
from gpsuite.data.spec import DatasetSpec, content_hash
from gpsuite.registry import Registry, import_members

Reader: TypeAlias = Callable[[str], bytes]
Loader: TypeAlias = Callable[[DatasetSpec, Reader], Dataset]

LOADERS: Registry[Loader] = Registry("loader", plugins.DATASETS, cast(type, Callable))


def get_loader(name: str) -> Loader:
    """Return the loader of that name. A module added to this folder is found without further registration.

    Raises:
        UserError: if no module registers it. The message lists the valid names.
    """
    if name not in LOADERS:
        import_members(__name__, __path__)
    return LOADERS.get(name)


def make_dataset(
    spec: DatasetSpec,
    inputs: NDArray[Any],
    targets: NDArray[Any],
    input_names: Sequence[str],
    target_names: Sequence[str],
    *,
    fixed_split: tuple[IntArray, IntArray] | None = None,
    label_names: Sequence[str] | None = None,
    grid: FloatArray | None = None,
    safety: SafetyColumn | None = None,
    units: Mapping[str, str] | None = None,
) -> Dataset:
    """Return the Dataset of a loader's arrays. All its texts come from the spec.

    Args:
        spec: the dataset's description.
        inputs: [N, D], of any number type. They are stored as float64.
        targets: [N, P] or [N].
        input_names: D names.
        target_names: P names.
        fixed_split: row indices (train, test), if the dataset has a split.
        label_names: C names (classification).
        grid: further inputs without targets, [G, D].
        safety: the safety column (measurements).
        units: units by column name.
    """
    return Dataset(
        name=spec.name,
        task=cast(Task, spec.task),
        X=inputs,
        y=targets.reshape(len(targets), -1),
        input_names=tuple(input_names),
        target_names=tuple(target_names),
        content_hash=content_hash(spec),
        fixed_split=fixed_split,
        label_names=None if label_names is None else tuple(label_names),
        grid=grid,
        safety=safety,
        units=units or {},
        licence=spec.licence,
        citation=spec.citation,
        note=spec.note,
    )


def train_then_test(n_train: int, n: int) -> tuple[IntArray, IntArray]:
    """Return the split of stacked rows: the first `n_train` of `n` are the training part."""
    return np.arange(n_train), np.arange(n_train, n)
