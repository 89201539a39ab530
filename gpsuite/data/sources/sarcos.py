"""SARCOS robot arm: MATLAB tables of 21 inputs (7 joints) and 7 torques; the target is the first torque."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec

JOINTS = 7
INPUT_NAMES = tuple(
    f"{quantity}_{joint}"
    for quantity in ("position", "velocity", "acceleration")
    for joint in range(1, JOINTS + 1)
)


@LOADERS.register("sarcos")
def load_sarcos(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the rows of the spec's files in their order; each holds a table named like the file, [n, 28]."""
    from scipy.io import loadmat

    def table(name: str) -> FloatArray:
        variable = name.removesuffix(".mat")
        stream: Any = io.BytesIO(read(name))  # the type stubs know paths only
        return np.asarray(loadmat(stream, variable_names=[variable])[variable], np.float64)

    rows = np.vstack([table(file.name) for file in spec.files])
    inputs = len(INPUT_NAMES)
    return make_dataset(spec, rows[:, :inputs], rows[:, inputs], INPUT_NAMES, ("torque_1",))
