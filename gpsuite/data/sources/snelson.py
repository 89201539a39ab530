"""Snelson's one-dimensional toy data: one number per line in three files."""

from __future__ import annotations

import numpy as np

from gpsuite.data.dataset import Dataset, FloatArray
from gpsuite.data.hashing import content_hash
from gpsuite.data.sources import LOADERS, Reader
from gpsuite.data.spec import DatasetSpec


@LOADERS.register("snelson")
def load_snelson(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the 200 training points; the 301 test inputs, which have no outputs, are the `grid`."""

    def column(name: str) -> FloatArray:
        return np.array(read(name).split(), dtype=np.float64)[:, None]

    return Dataset(
        name=spec.name,
        task="regression",
        X=column("train_inputs"),
        y=column("train_outputs"),
        input_names=("x",),
        target_names=("y",),
        content_hash=content_hash(spec),
        grid=column("test_inputs"),
        licence=spec.licence,
        citation=spec.citation,
    )
