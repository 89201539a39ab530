"""Boston, pol and kin40k, SARCOS, Snelson's toy data and Spambase: tables of numbers in text or MATLAB files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.generators.matlab_streams import MatlabStream
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec

BOSTON_INPUTS = (*("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE"), *("DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"))
# See Harrison and Rubinfeld 1978, table IV. Columns without a unit are left out
BOSTON_UNITS = {
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
    table = np.array(read("housing.data").split(), dtype=np.float64).reshape(-1, len(BOSTON_INPUTS) + 1)
    return make_dataset(spec, table[:, :-1], table[:, -1:], BOSTON_INPUTS, ("MEDV",), units=BOSTON_UNITS)


_PARTS = ("train", "test")


@LOADERS.register("merged_text")
def load_merged_text(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the rows of the training part and then of the test part, as one table without a split.

    The files are `FOLDER_PART_data.asc` and `FOLDER_PART_labels.asc`. The inputs have no published names.
    """

    def stacked(kind: str) -> FloatArray:
        names = [f"{spec.folder_name}_{part}_{kind}.asc" for part in _PARTS]
        return np.vstack([np.loadtxt(io.BytesIO(read(name)), ndmin=2) for name in names])

    inputs = stacked("data")
    names = [f"x{number}" for number in range(1, inputs.shape[1] + 1)]
    return make_dataset(spec, inputs, stacked("labels"), names, ("y",))


JOINTS = 7
SARCOS_INPUTS = tuple(
    f"{quantity}_{joint}" for quantity in ("position", "velocity", "acceleration") for joint in range(1, JOINTS + 1)
)


@LOADERS.register("sarcos")
def load_sarcos(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the rows of the spec's files in their order. Each holds a table named like the file, [n, 28]."""
    from scipy.io import loadmat

    def table(name: str) -> FloatArray:
        variable = name.removesuffix(".mat")
        stream: Any = io.BytesIO(read(name))  # the type stubs know only paths
        return np.asarray(loadmat(stream, variable_names=[variable])[variable], np.float64)

    rows = np.vstack([table(file.name) for file in spec.files])
    inputs = len(SARCOS_INPUTS)
    return make_dataset(spec, rows[:, :inputs], rows[:, inputs], SARCOS_INPUTS, ("torque_1",))


@LOADERS.register("snelson")
def load_snelson(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the 200 training points. The 301 test inputs, which have no outputs, are the `grid`."""

    def column(name: str) -> FloatArray:
        return np.array(read(name).split(), dtype=np.float64)[:, None]

    return make_dataset(
        spec, column("train_inputs"), column("train_outputs"), ("x",), ("y",), grid=column("test_inputs")
    )


_SPAMBASE_WORDS = (
    *("make", "address", "all", "3d", "our", "over", "remove", "internet", "order", "mail", "receive", "will"),
    *("people", "report", "addresses", "free", "business", "email", "you", "credit", "your", "font", "000"),
    *("money", "hp", "hpl", "george", "650", "lab", "labs", "telnet", "857", "data", "415", "85", "technology"),
    *("1999", "parts", "pm", "direct", "cs", "meeting", "original", "project", "re", "edu", "table"),
    "conference",
)
SPAMBASE_INPUTS = (
    *(f"word_freq_{word}" for word in _SPAMBASE_WORDS),
    *(f"char_freq_{character}" for character in ";([!$#"),
    *(f"capital_run_length_{what}" for what in ("average", "longest", "total")),
)
# The inputs of Blaas et al. 2020, appendix, counted from 1
SPAMBASE_COLUMNS_11 = (5, 7, 16, 17, 19, 21, 23, 25, 52, 53, 57)
SPAMBASE_UNITS = {name: "%" for name in SPAMBASE_INPUTS if "_freq_" in name}


@LOADERS.register("spambase")
def load_spambase(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the inputs as published, all 57 or the 11 of Blaas et al. 2020 (variant `11`). Not standardised.

    The variants `11_authors` and `authors` have the rows that the paper's code draws from MATLAB's stream 1, 1000 and
    200.
    """
    table = np.loadtxt(io.BytesIO(read("spambase.data")), delimiter=",", ndmin=2)
    variant = spec.variant or ""
    few = variant.startswith("11")
    columns = [column - 1 for column in SPAMBASE_COLUMNS_11] if few else range(len(SPAMBASE_INPUTS))
    names = [SPAMBASE_INPUTS[column] for column in columns]
    order = MatlabStream(1).randperm(len(table))
    return make_dataset(
        spec,
        table[:, list(columns)],
        table[:, -1],
        names,
        ("spam",),
        label_names=("not spam", "spam"),
        fixed_split=(order[:1000], order[1000:1200]) if variant.endswith("authors") else None,
        units={name: unit for name, unit in SPAMBASE_UNITS.items() if name in names},
    )
