"""Boston housing: 506 rows of 14 numbers separated by blanks; the last column is the target."""

from __future__ import annotations

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec

INPUT_NAMES = (
    *("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE"),
    *("DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
)
# Harrison and Rubinfeld 1978, table IV; columns without a unit are left out
UNITS = {
    "CRIM": "crimes per person and year",
    "ZN": "%",
    "INDUS": "%",
    "NOX": "parts per 10 million",
    "RM": "rooms per dwelling",
    "AGE": "%",
    "TAX": "USD per 10000 USD",
    "PTRATIO": "pupils per teacher",
    "LSTAT": "%",
    "MEDV": "1000 USD",
}


@LOADERS.register("boston")
def load_boston(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the 506 x 13 inputs and the median house value MEDV in 1000 USD."""
    table = np.array(read("housing.data").split(), dtype=np.float64).reshape(-1, len(INPUT_NAMES) + 1)
    return make_dataset(spec, table[:, :-1], table[:, -1:], INPUT_NAMES, ("MEDV",), units=UNITS)
