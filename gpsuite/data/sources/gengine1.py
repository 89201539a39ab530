"""Bosch gasoline engine on a test bench: filtered inputs with a history, eight measured outputs.

The preparation follows the description of Li, Rakitsch and Zimmer 2022 (engine example). The source standardised all
columns with the mean and standard deviation of the training files. It publishes no units.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.sources import LOADERS, Reader, make_dataset, train_then_test
from gpsuite.data.spec import DatasetSpec
from gpsuite.errors import unknown_name

CHANNELS = ("Speed", "Load", "Lambda", "Ign_Ang", "Fuel_Cutoff")
OUTPUTS = ("PAR", "CO", "CO2", "HC", "NOx", "O2", "T_EXM", "T_CAT1")
TRAINING_FILES = frozenset({*range(10, 20), *range(30, 40)})  # numbers of the training files. All others are test files


@dataclass(frozen=True)
class History:
    """Construction of the inputs from the channels.

    Attributes:
        time_constants: p of the low-pass filter, in steps of 0.1 s, one per channel.
        lags: lags in steps, ascending, for each channel. A channel without lags is not used.
    """

    time_constants: tuple[float, ...]
    lags: tuple[tuple[int, ...], ...]

    @property
    def longest(self) -> int:
        """The largest lag K: the first K rows of every file have no complete history."""
        return max(lag for lags in self.lags for lag in lags)


# Variants, named after the modelled outputs. In both the safety value is T_EXM, safe up to 1.0.
VARIANTS: Mapping[str, History] = {
    "HC_O2": History((298, 38, 18, 32, 28), ((0, 1, 4), (1, 2, 3, 7), (1, 4, 8), (1, 3, 4), ())),
    "CO2_HC": History((103, 32, 49, 126, 20), ((0, 4), (1, 2, 7), (1, 2, 7, 12), (1, 2, 3), (3, 4))),
}


@LOADERS.register("gengine1")
def load_gengine1(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the training files' rows, then the test files', each in ascending order of file numbers.

    Filter and lags do not extend from one file into the next. The targets are the eight outputs at the row's time.

    Raises:
        UserError: if the spec's variant is not one of `VARIANTS`.
    """
    history = VARIANTS.get(str(spec.variant))
    if history is None:
        raise unknown_name("variant", str(spec.variant), VARIANTS)
    names = sorted((file.name for file in spec.files), key=lambda name: (not _is_training(name), name))
    tables = {name: _read_table(read(name)) for name in names}
    inputs = np.vstack([with_history(table[:, : len(CHANNELS)], history) for table in tables.values()])
    outputs = np.vstack([table[history.longest :, len(CHANNELS) :] for table in tables.values()])
    n_train = sum(len(table) - history.longest for name, table in tables.items() if _is_training(name))
    return make_dataset(
        spec, inputs, outputs, input_names(history), OUTPUTS, fixed_split=train_then_test(n_train, len(inputs))
    )


def with_history(channels: FloatArray, history: History) -> FloatArray:
    """Return the inputs of one file: [n, 5] channels -> [n - K, D] filtered and lagged columns."""
    filtered = low_pass(channels, history.time_constants)
    n, first = len(channels), history.longest
    columns = [filtered[first - lag : n - lag, channel] for channel, lags in enumerate(history.lags) for lag in lags]
    return np.column_stack(columns)


def low_pass(channels: FloatArray, time_constants: tuple[float, ...]) -> FloatArray:
    """Return f[t] = x[t] / p + (1 - 1/p) f[t-1] with f[-1] = 0, for each column x and its p (a PT1 filter)."""
    from scipy.signal import lfilter

    columns = [lfilter([1.0 / p], [1.0, 1.0 / p - 1.0], x) for x, p in zip(channels.T, time_constants, strict=True)]
    return np.column_stack(columns)


def input_names(history: History) -> list[str]:
    """Return the D input names, e.g. `Speed[t-4]`."""
    lagged = [(channel, lag) for channel, lags in zip(CHANNELS, history.lags, strict=True) for lag in lags]
    return [f"{channel}[t-{lag}]" if lag else f"{channel}[t]" for channel, lag in lagged]


def _read_table(text: bytes) -> FloatArray:
    return np.loadtxt(io.BytesIO(text), delimiter=",", ndmin=2)


def _is_training(name: str) -> bool:
    """Return whether a file `raw_NUMBER_...` belongs to the training part."""
    number = re.match(r"raw_(\d+)_", name)
    return number is not None and int(number[1]) in TRAINING_FILES
