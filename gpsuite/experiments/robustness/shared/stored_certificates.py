"""Certificates as arrays of a record, and as files in the run's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.experiments.base import Record
from gpsuite.methods.robustness.certificates.certificate import write_packed
from gpsuite.reporting.manifest import note_written, remove_stale
from gpsuite.untrusted import LARGEST_ARRAYS

PREFIX, DESCRIPTION = "certificate_", "certificate_description"  # of the arrays of a record
FOR_TREES = 16 << 20  # bytes of the largest certificate that are left for its trees


@dataclass(frozen=True)
class Certified:
    """What a record holds of a certificate.

    Attributes:
        metrics: what it claims, or `uncertified`, why there is none.
        arrays: the certificate.
        out_of_time: whether seconds ended it.
    """

    metrics: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    out_of_time: bool = False


def stored(
    description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
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
        f"{LARGEST_ARRAYS >> 20}; take train_rows={rows}, or certificates=false"
    )


def told_uncertified(records: Sequence[Record]) -> list[str]:
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
