"""Snelson's one-dimensional toy data: one number per line in three files."""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec


@LOADERS.register("snelson")
def load_snelson(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the 200 training points; the 301 test inputs, which have no outputs, are the `grid`."""

    def column(name: str) -> FloatArray:
        return np.array(read(name).split(), dtype=np.float64)[:, None]

    return make_dataset(
        spec, column("train_inputs"), column("train_outputs"), ("x",), ("y",), grid=column("test_inputs")
    )
