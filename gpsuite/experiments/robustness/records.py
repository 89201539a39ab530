"""Records of the family as data frames, and what is said about its datasets."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.certificates.envelope import write_packed
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Record, frame_of
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.publish import note_written, remove_stale
from gpsuite.untrusted import LARGEST_ARRAYS

if TYPE_CHECKING:
    import pandas as pd

PREFIX, DESCRIPTION = "certificate_", "certificate_description"  # of the arrays of a record
FOR_TREES = 16 << 20  # bytes of the largest certificate that are left for its trees


def records_frame(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per record: axes and metrics, numbers as floats (NaN if a number is missing)."""
    frame = frame_of(records)
    axes = {name for record in records for name in record.axes}
    numeric = {
        name
        for record in records
        for name, value in record.metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    for name in numeric - axes:
        frame[name] = frame[name].astype(float)
    return frame


def dataset_statistics(dataset: PreparedDataset) -> list[Statistic]:
    """Return rows, inputs and class shares of a classification dataset, and the side of its square images."""
    data = load(dataset)
    names = data.label_names or tuple(f"{number}" for number in range(data.n_classes))
    counts = np.bincount(data.y[:, 0].astype(np.int64), minlength=len(names))
    shares = [
        Statistic(statistic_name("class_percent", label=name), 100.0 * float(count) / len(data.X), n=len(data.X))
        for name, count in zip(names, counts, strict=True)
    ]
    sizes = [Statistic("dataset_rows", len(data.X)), Statistic("dataset_inputs", data.X.shape[1])]
    side = math.isqrt(data.X.shape[1])
    images = all(name.startswith("pixel_") for name in data.input_names) and side**2 == data.X.shape[1]
    return [*sizes, *shares, *([Statistic("image_side", side)] if images else [])]


def timing_table(records: Sequence[Record], by: Sequence[str], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return mean CPU seconds and the largest memory of each group. The first task of a model trains it."""
    import pandas as pd

    rows = [
        {
            **{axis: record.axes[axis] for axis in by},
            "CPU seconds": record.timing.get("cpu_seconds", math.nan),
            "peak memory (MB)": record.timing.get("peak_memory_mb", math.nan),
        }
        for record in records
    ]
    groups = pd.DataFrame(rows).groupby(list(by), sort=False)
    table = groups["CPU seconds"].agg(["count", "median", "mean", "max"]).reset_index()
    heads = {"median": "median CPU seconds", "mean": "mean CPU seconds", "max": "largest CPU seconds"}
    table = table.rename(columns={"count": "tasks", **heads})
    table["peak memory (MB)"] = groups["peak memory (MB)"].max().to_numpy()
    if "method" in table:
        table["method"] = table["method"].map(dict(titles))
    return table.round(4)


def few_learnt_warnings(rows: int, test_rows: int) -> list[str]:
    """Return a warning where more of a dataset's rows are held out than are left to training."""
    left = rows - test_rows
    if left >= test_rows:
        return []
    return [
        f"the model learns from {left} of {rows} rows at most: test_rows={test_rows} are held out. "
        f"A smaller test_rows, such as {max(rows // 4, 1)}, leaves it more"
    ]


@dataclass(frozen=True)
class Certified:
    """Part of a certificate that a record holds.

    Attributes:
        metrics: what it claims, or `uncertified`, why there is none.
        arrays: the certificate.
        out_of_time: whether seconds ended it.
    """

    metrics: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    out_of_time: bool = False


def stored(description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Return a packed certificate as arrays of the record."""
    found = {f"{PREFIX}{name}": array for name, array in arrays.items()}
    found[DESCRIPTION] = np.array(json.dumps(description))
    return found


def too_large(arrays: Sequence[npt.NDArray[Any]], n_classes: int) -> str:
    """Return why a posterior is more than `gpsuite verify` reads, or nothing.

    Args:
        arrays: of the posterior, the last one its inputs [N, D].
        n_classes: latent functions that its root couples, 1 of two classes and of a regression.
    """
    size = sum(array.nbytes for array in arrays)
    if size <= LARGEST_ARRAYS - FOR_TREES:
        return ""
    rows = int(np.sqrt((LARGEST_ARRAYS - 2 * FOR_TREES) / 8.0) / n_classes)
    several = f"{n_classes} classes and " if n_classes > 1 else ""
    return (
        f"the posterior of {several}{len(arrays[-1])} rows takes {size >> 20} MB, certificates at most "
        f"{LARGEST_ARRAYS >> 20}. Take train_rows={rows}, or certificates=false"
    )


def uncertified_warnings(records: Sequence[Record]) -> list[str]:
    """Return the warnings about points without a certificate."""
    faults = {str(record.metrics["uncertified"]) for record in records if "uncertified" in record.metrics}
    return [f"no certificate: {fault}" for fault in sorted(faults)]


def write_certificates(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the certificates that the records hold as `folder`/<method>_point_<i>.npz and .json.

    Certificates of earlier runs in the folder are removed, other files are not.

    Returns:
        the .npz files.
    """
    wanted: dict[str, Record] = {
        f"{record.axes['method']}_point_{record.axes['point']}": record
        for record in records
        if DESCRIPTION in record.arrays
    }
    files = [f"{name}{ending}" for name in wanted for ending in (".npz", ".json")]
    remove_stale(folder, files)
    if wanted:
        folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, record in wanted.items():
        arrays = {
            key.removeprefix(PREFIX): array
            for key, array in record.arrays.items()
            if key.startswith(PREFIX) and key != DESCRIPTION
        }
        description = json.loads(str(record.arrays[DESCRIPTION]))
        paths.append(write_packed(description, arrays, folder / f"{name}.npz")[0])
    note_written(folder, files)
    return paths
