"""The engine data themselves: their channels, what is safe, and what simple models reach on them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.files import read_verified
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.sources.gengine1 import CHANNELS, OUTPUTS, TRAINING_FILES
from gpsuite.data.spec import DatasetSpec, from_plain
from gpsuite.experiments.active_learning.engine.plan import DataTask, SaturationTask
from gpsuite.experiments.active_learning.shared.engine_data import (
    LIMIT,
    OTHER_TEMPERATURE,
    TEMPERATURE,
    engine_table,
    temperature,
    training_and_test,
)
from gpsuite.experiments.active_learning.shared.engine_data import OUTPUTS as MODELLED
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.methods.active_learning.metrics import rmse
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.sparse import SparseMultiOutput
from gpsuite.models.sampling.optimum import OptimumSettings, find_optimum


def describe(task: Task[DataTask], shared: SharedWork) -> Outcome:
    """Return the facts about the data that the paper states, and least squares on all training rows."""
    prepared = task.require_dataset()
    data = load(prepared)
    train, test = training_and_test(data)
    safe = 100.0 * float((temperature(data)[train] <= LIMIT).mean())
    names = data.target_names
    pair = data.y[train][:, [names.index(TEMPERATURE), names.index(OTHER_TEMPERATURE)]]
    channels = training_channels(prepared, data)
    metrics: dict[str, float | int | str | bool | None] = {
        "dataset_channels": len(names),
        "dataset_raw_inputs": len(CHANNELS),
        "dataset_inputs": data.X.shape[1],
        "dataset_rows": len(train),
        "temperature_correlation": float(np.corrcoef(pair.T)[0, 1]),
        "max_abs_channel_mean": float(np.abs(channels.mean(axis=0)).max()),
        "max_channel_variance_error": float(np.abs(channels.var(axis=0) - 1.0).max()),
        "temperature_quantile_80": float(np.quantile(temperature(data)[train], 0.8)),
        "safe_row_percent": safe,
        "unsafe_row_percent": 100.0 - safe,
    }
    metrics |= {f"least_squares_{name}": value for name, value in least_squares(data, train, test).items()}
    return Outcome(metrics, headline=f"{safe:.2f} % of {len(train)} training rows are safe")


def training_channels(prepared: PreparedDataset, data: Dataset) -> FloatArray:
    """Return the output channels of the training files as measured, before the history takes their first rows.

    Of generated data in place of the files: their targets.
    """
    if prepared.stand_in:
        return data.y
    spec = from_plain(prepared.spec)
    if not isinstance(spec, DatasetSpec):
        raise TypeError(f"{prepared.name} is a table of the user's")
    tables = [
        np.loadtxt(
            io.BytesIO(read_verified(spec, file, Path(prepared.paths[file.name]))), delimiter=",", ndmin=2
        )
        for file in spec.files
        if int(file.name.split("_")[1]) in TRAINING_FILES
    ]
    return np.vstack(tables)[:, -len(OUTPUTS) :]


def least_squares(data: Dataset, train: IntArray, test: IntArray) -> dict[str, float]:
    """Return the RMSE of linear regression on all training rows, on all and on safe test rows."""
    table, held_out = engine_table(data, train), engine_table(data, test)
    coefficients = np.linalg.lstsq(_with_ones(table.X), table.Y, rcond=None)[0]
    predicted, safe = _with_ones(held_out.X) @ coefficients, held_out.z <= LIMIT
    pooled = float(np.sqrt(((predicted - held_out.Y) ** 2).mean()))
    return {
        "rmse_all": rmse(predicted, held_out.Y),
        "rmse_pooled": pooled,
        "rmse": rmse(predicted[safe], held_out.Y[safe]),
    }


def _with_ones(X: FloatArray) -> FloatArray:
    return np.column_stack([X, np.ones(len(X))])


def run_saturation(task: Task[SaturationTask], shared: SharedWork) -> Outcome:
    """Return the error of a sparse multi-output GP on random training rows, safe or not, every output measured.

    Hyperparameters maximise the posterior of a few rows; the sparse posterior then takes all of them.
    """
    params, data = task.params, load(task.require_dataset())
    train, test = training_and_test(data)
    choice, inference, held = np.random.default_rng(params.seed).spawn(3)
    table = engine_table(data, choice.permutation(train)[: params.rows])
    few = _observations(table.X[: params.fit_rows], table.Y[: params.fit_rows])
    model = LinearCoregionalization(len(MODELLED), kernel=params.kernel)
    settings = OptimumSettings("map", starts=params.starts)
    u = find_optimum(model, model.likelihood(few), inference, settings).u[0]
    every = _observations(table.X, table.Y)
    count = min(params.inducing, len(every))
    spread = np.arange(count) * len(every) // count
    sparse = SparseMultiOutput(model, u, every, every.X[spread], every.p[spread])
    rows = held.permutation(test)[: params.test_rows]
    unseen = engine_table(data, rows)
    predicted, safe = sparse.mean(unseen.X), unseen.z <= LIMIT
    found = {"rmse": rmse(predicted[safe], unseen.Y[safe]), "rmse_all": rmse(predicted, unseen.Y)}
    return Outcome(
        {**found, "inducing": count}, headline=f"RMSE {found['rmse']:.3f} from {len(table.X)} rows"
    )


def _observations(X: FloatArray, Y: FloatArray) -> Observations:
    """Return a complete table, the outputs of a row after each other."""
    outputs = Y.shape[1]
    p = np.tile(np.arange(outputs), len(X))
    return Observations(np.repeat(X, outputs, axis=0), p, Y.ravel())
