"""pol and kin40k: a training and a test part, inputs and target in blank-separated text files; merged."""

from __future__ import annotations

import io

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec

PARTS = ("train", "test")


@LOADERS.register("merged_text")
def load_merged_text(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the rows of the training part, then those of the test part, as one table without a split.

    The files are `FOLDER_PART_data.asc` and `FOLDER_PART_labels.asc`. The inputs have no published names.
    """

    def stacked(kind: str) -> FloatArray:
        names = [f"{spec.folder_name}_{part}_{kind}.asc" for part in PARTS]
        return np.vstack([np.loadtxt(io.BytesIO(read(name)), ndmin=2) for name in names])

    inputs = stacked("data")
    names = [f"x{number}" for number in range(1, inputs.shape[1] + 1)]
    return make_dataset(spec, inputs, stacked("labels"), names, ("y",))
