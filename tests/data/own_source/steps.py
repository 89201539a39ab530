"""The loader of a dataset that nobody shipped."""

from __future__ import annotations

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec


@LOADERS.register("steps")
def load_steps(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the rows of steps.txt: an input and a target."""
    table = np.array([line.split() for line in read("steps.txt").decode().splitlines()], dtype=np.float64)
    return make_dataset(spec, table[:, :1], table[:, 1], ["x"], ["y"])
