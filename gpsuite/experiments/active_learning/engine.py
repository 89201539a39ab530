"""active_learning/engine: HC and O2 of an engine, its exhaust temperature kept low (Sec. 5.3 of Li et al. 2022)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.files import read_verified
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.sources.gengine1 import CHANNELS, TRAINING_FILES
from gpsuite.data.sources.gengine1 import OUTPUTS as FILE_OUTPUTS
from gpsuite.data.spec import DatasetSpec, from_plain
from gpsuite.experiments.active_learning.curves import (
    AL,
    IND,
    RS,
    Curves,
    best_statistics,
    draw_curves,
    draw_safety,
    error_statistics,
    errors,
    precision_statistics,
    report_curves,
    safety_statistics,
    threshold_statistics,
)
from gpsuite.experiments.active_learning.exploration import (
    KERNELS,
    ActiveSettings,
    RepetitionTask,
    Source,
    pipeline_kernel,
    read_repetition,
    repetition_seed,
    repetition_tasks,
    run_repetition,
)
from gpsuite.experiments.active_learning.methods import PIPELINE
from gpsuite.experiments.active_learning.repetitions import (
    LIMIT,
    OTHER_TEMPERATURE,
    OUTPUTS,
    PUBLISHED_STARTS,
    TEMPERATURE,
    EngineData,
    engine_table,
    temperature,
    training_and_test,
)
from gpsuite.experiments.active_learning.repetitions import OUTPUTS as MODELLED
from gpsuite.experiments.base import (
    EXPERIMENTS,
    Experiment,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_task,
    only_arrays,
)
from gpsuite.experiments.settings import Count, at_least
from gpsuite.experiments.tasks import take
from gpsuite.methods.active_learning.acquisition import Kernel, rmse
from gpsuite.methods.active_learning.inference import Learner
from gpsuite.models.multi_output.coregionalization import LinearCoregionalization
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import SparseMultiOutput
from gpsuite.models.sampling.posterior import OptimumSettings, find_optimum, mixture_moments
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.reporting.palette import LIMIT as LIMIT_COLOUR
from gpsuite.reporting.palette import PAPER
from gpsuite.reporting.tables import mean_and_error
from gpsuite.seeds import derived_seed
from gpsuite.statistics.estimates import finite, mean, slopes

if TYPE_CHECKING:
    import pandas as pd


SECONDS = 0.5  # of one iteration at a pool of 10,000 rows


@dataclass
class EngineSettings(ActiveSettings):
    """Settings of the engine.

    Attributes:
        pool_rows: rows of each repetition's pool, sampled from all training rows, unsafe ones included.
        test_rows: rows sampled from the test files to evaluate predictions on.
        pool_members: hyperparameter vectors used for predictions, 0 uses all.
        saturation_rows: numbers of random training rows the sparse multi-output GP is given.
        saturation_repetitions: random sets of rows of each size.
        fit_rows: rows its hyperparameters are fitted to.
        inducing: inducing (input, output) pairs.
        starts: starting points of the search for its hyperparameters.
    """

    pool_rows: Annotated[int, at_least(2)]
    test_rows: Annotated[int, at_least(2)]
    pool_members: Annotated[int, at_least(0)]
    saturation_rows: list[Annotated[int, at_least(2)]]
    saturation_repetitions: Annotated[int, at_least(0)]
    fit_rows: Annotated[int, at_least(2)]
    inducing: Annotated[int, at_least(2)]
    starts: Count

    def source(self, seed: int) -> Source:
        """Return the data of the repetitions; seed: the request's."""
        start_seed = PUBLISHED_STARTS if seed == 0 else derived_seed(seed, "engine", "start")

        def data(repetition: int) -> EngineData:
            return EngineData(
                seed=repetition_seed(seed, "engine", repetition),
                initial=self.initial,
                offers=self.offers,
                pool_rows=self.pool_rows,
                test_rows=self.test_rows,
                repetition=repetition,
                start_seed=start_seed,
            )

        seconds = SECONDS * (0.8 + 0.2 * (self.pool_rows + self.test_rows) / 14_000)
        return Source("engine", data, len(OUTPUTS), seconds, self.pool_members or None)


DATA, SATURATION = "data", "saturation"
VERSION = 1  # of the tasks that are no repetitions


@dataclass(frozen=True)
class DataTask:
    """The facts about the data."""

    kind: str = DATA


@dataclass(frozen=True)
class SaturationTask:
    """The error of a sparse multi-output GP from many random training rows. Further settings as `EngineSettings`.

    Attributes:
        rows: number of training rows.
        seed: of rows, search and test rows.
    """

    rows: int
    seed: int
    fit_rows: int
    inducing: int
    starts: int
    test_rows: int
    kernel: Kernel
    kind: str = SATURATION


def plan(request: Request[EngineSettings]) -> list[Task[object]]:
    """Return one task per repetition and pipeline, one that describes the data, and those of the sparse GP."""
    settings = request.settings
    described = request.task(
        DataTask(),
        label="the data",
        axes={"method": "", "repetition": 0, "part": DATA, "rows": 0},
        version=VERSION,
        cost=10.0,
    )
    return [*repetition_tasks(request, settings, settings.source(request.seed)), described, *_saturation_tasks(request)]


def _saturation_tasks(request: Request[EngineSettings]) -> Iterator[Task[SaturationTask]]:
    settings, kernel = request.settings, pipeline_kernel(request.model)
    for repetition in range(settings.saturation_repetitions):
        seed = derived_seed(request.seed, SATURATION, repetition)
        for rows in settings.saturation_rows:
            yield request.task(
                take(SaturationTask, settings, rows=rows, seed=seed, kernel=kernel),
                label=f"sparse multi-output GP  {rows} rows  repetition {repetition}",
                axes={"method": "", "repetition": repetition, "part": SATURATION, "rows": rows},
                version=VERSION,
                cost=20.0,
            )


def run_and_standardise(task: Task[RepetitionTask], shared: SharedWork) -> Outcome:
    """Run a repetition and add its last errors in standard deviations."""
    outcome = run_repetition(task, shared)
    return replace(outcome, metrics={**outcome.metrics, **standardised_errors(task, outcome)})


def standardised_errors(task: Task[RepetitionTask], outcome: Outcome) -> dict[str, float]:
    """Return the last models' RMSE on the safe test rows over the standard deviation there: of each output and of z.

    The safety model is inferred again from all its measurements, to predict at the test rows. Nothing without one.
    """
    repetition, pipeline = read_repetition(task), task.params.read_pipeline()
    if not pipeline.safe or "row" not in outcome.arrays:
        return {}
    test, safe = repetition.test, repetition.test_safe
    deviation = test.Y[safe].std(axis=0)
    found = {
        f"standardised_output_{p + 1}": float(outcome.arrays[f"rmse_output_{p + 1}"][-1]) / float(deviation[p])
        for p in range(repetition.n_outputs)
    }
    rows = np.unique(outcome.arrays["row"][:-1].astype(np.int64))  # the last query is answered, not learnt
    X, z = np.vstack([repetition.start.X, repetition.pool.X[rows]]), repetition.pool.z[rows]
    known = Observations(X, np.zeros(len(X), dtype=np.int64), np.concatenate([repetition.start.z, z]))
    learner = Learner(pipeline.safety_model(), known, test.X[safe], task.params.inference.settings, capacity=len(X))
    learner.start(np.random.default_rng(task.params.sampler_seed))
    learner.predict()
    predictions = learner.predictions
    mean, _ = mixture_moments(predictions.mean, predictions.variance, learner.weights)
    found["standardised_z"] = rmse(mean, test.z[safe][:, None]) / float(test.z[safe].std())
    return found


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
        np.loadtxt(io.BytesIO(read_verified(spec, file, Path(prepared.paths[file.name]))), delimiter=",", ndmin=2)
        for file in spec.files
        if int(file.name.split("_")[1]) in TRAINING_FILES
    ]
    return np.vstack(tables)[:, -len(FILE_OUTPUTS) :]


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

    Hyperparameters maximise the posterior of a few rows. The sparse posterior then takes all of them.
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
    return Outcome({**found, "inducing": count}, headline=f"RMSE {found['rmse']:.3f} from {len(table.X)} rows")


def _observations(X: FloatArray, Y: FloatArray) -> Observations:
    """Return a complete table, the outputs of a row after each other."""
    outputs = Y.shape[1]
    p = np.tile(np.arange(outputs), len(X))
    return Observations(np.repeat(X, outputs, axis=0), p, Y.ravel())


# What Li et al. 2022 state about the engine, as statistics.


ROUGHLY_100 = 100  # values, at which the appendix states an error
DATA_FACTS = (
    "dataset_channels",
    "dataset_raw_inputs",
    "dataset_inputs",
    "dataset_rows",
    "temperature_correlation",
    "max_abs_channel_mean",
    "max_channel_variance_error",
    "temperature_quantile_80",
    "safe_row_percent",
    "unsafe_row_percent",
)


def engine_statistics(curves: Curves, others: Sequence[Record], settings: EngineSettings) -> list[Statistic]:
    """Return the statistics that conf/paper names."""
    found = []
    for record in (each for each in others if each.axes["part"] == DATA):
        found += [Statistic(name, record.number(name), n=1) for name in DATA_FACTS]
    saturated = saturated_errors(others)
    if len(saturated):
        found.append(Statistic.of("saturated_rmse", mean(saturated)))
    if not curves.methods:
        return found
    points = settings.points(max(curves.final(method) for method in curves.methods))
    for threshold in settings.thresholds:
        found += threshold_statistics(curves, threshold)
    return [
        *found,
        *safety_statistics(curves),
        *error_statistics(curves, [*points, ROUGHLY_100]),
        *precision_statistics(curves, points),
        *best_statistics(curves),
        *easiest_statistics(curves),
        *slope_statistics(curves),
    ]


def saturated_errors(others: Sequence[Record]) -> FloatArray:
    """Return the sparse GP's RMSE at the largest number of rows, one per repetition."""
    sparse = [record for record in others if record.axes["part"] == SATURATION]
    largest = max((int(record.axes["rows"]) for record in sparse), default=0)
    return np.array([record.number("rmse") for record in sparse if record.axes["rows"] == largest])


def easiest_statistics(curves: Curves) -> list[Statistic]:
    """Return for which outputs the temperature's standardised test error is the smaller one, with AL_MOGP."""
    if AL not in curves.methods:
        return []
    runs = list(curves.runs[AL].values())

    def average(name: str) -> float:
        return mean([run.number(name) for run in runs]).value

    names = sorted({name for run in runs for name in run.metrics if name.startswith("standardised_output")})
    if not names or not np.isfinite(average("standardised_z")):
        return []
    of_z, others = average("standardised_z"), [average(name) for name in names]
    shown = ", ".join(f"{value:.3f}" for value in (of_z, *others))
    easier = [of_z < value for value in others]
    return [claim("share_temperature_easiest", easier, f"z and outputs: {shown}")]


def slope_statistics(curves: Curves) -> list[Statistic]:
    """Return each pipeline's slope of the safety model's precision against N_sum over the runs."""
    found = []
    for method in (name for name in (RS, AL, IND) if curves.has(name, "precision_noisy")):
        curve = curves.curve(method, "precision_noisy")
        slope = mean(finite(slopes(curve.lines, curve.n_sum)))
        found.append(Statistic.of(statistic_name("precision_slope", method=method), slope))
    return found


FITS = {
    "least_squares_rmse": "least squares on all training rows: RMSE, safe test rows",
    "least_squares_rmse_all": "least squares on all training rows: RMSE, all test rows",
    "least_squares_rmse_pooled": "the same, outputs pooled",
}


def report_data(report: Report[EngineSettings]) -> None:
    """Write the facts about the data, and the sparse GP's error against its number of rows with a figure."""
    import pandas as pd

    for record in report.records(part=DATA):
        facts = [{"quantity": name, "value": record.number(name)} for name in DATA_FACTS]
        facts += [{"quantity": label, "value": record.number(name)} for name, label in FITS.items()]
        report.table(pd.DataFrame(facts), "engine_data", "The engine data")
    sparse = saturation_table(report.records(part=SATURATION))
    if len(sparse):
        caption = "Sparse multi-output GP on random training rows, safe or not. Mean ± standard error"
        shown = sparse.assign(
            **{
                label: [mean_and_error(m, e) for m, e in zip(sparse[name], sparse[f"{name}_error"], strict=True)]
                for name, label in (("rmse", "RMSE, safe test rows"), ("rmse_all", "RMSE, all test rows"))
            }
        )
        kept = ["rows", "RMSE, safe test rows", "RMSE, all test rows", "repetitions"]
        report.table(shown[kept], "engine_saturation", caption)
        _draw(report, sparse)


def saturation_table(sparse: Sequence[Record]) -> pd.DataFrame:
    """Return means and standard errors of the sparse GP's RMSE, one row per number of training rows."""
    import pandas as pd

    rows = []
    for count in sorted({int(record.axes["rows"]) for record in sparse}):
        line: dict[str, float | int] = {"rows": count}
        same = [record for record in sparse if record.axes["rows"] == count]
        for name in ("rmse", "rmse_all"):
            found = mean([record.number(name) for record in same])
            line |= {name: found.value, f"{name}_error": found.error}
        rows.append({**line, "repetitions": len(same)})
    return pd.DataFrame(rows)


def _draw(report: Report[EngineSettings], frame: pd.DataFrame) -> None:
    with report.figure("engine_saturation") as drawing:
        ax = drawing.ax
        for name, label in (("rmse", "safe test rows"), ("rmse_all", "all test rows")):
            ax.errorbar(frame["rows"], frame[name], frame[f"{name}_error"].fillna(0.0), fmt="o-", label=label)
        saturated = report.printed.get("saturated_rmse")
        if saturated is not None:
            ax.plot(
                frame["rows"].iloc[[-1]], [saturated], "o", ms=11, mfc="none", color=LIMIT_COLOUR, mew=1.8, label=PAPER
            )
        ax.set_xscale("log")
        ax.minorticks_off()
        ax.set_xticks(frame["rows"], [str(rows) for rows in frame["rows"]])
        drawing.name_axes("random training rows, both outputs measured", "RMSE (standardised units)")
        ax.set_title("sparse multi-output GP without a safety constraint")
        ax.legend(title=f"mean ± standard error over {frame['repetitions'].max()} sets of rows")
        drawing.data = frame


WHAT = "Engine, HC and O2"


def summarise(report: Report[EngineSettings]) -> list[Statistic]:
    """Write curves, safety, and what is known of the data. Return what the paper states."""
    settings, others = report.settings, report.records(method="")
    curves = Curves.from_records(report.records(), tuple(report.titles))
    report_data(report)
    if curves.methods:
        report_curves(report, curves, "engine", WHAT)
        heading, labels = "engine, HC and O2: safe test rows", errors("standardised units")
        draw_curves(report, curves, "engine_curves", heading, labels, thresholds=settings.thresholds)
        draw_safety(report, curves, "engine_safety", "engine: safety")
    return engine_statistics(curves, others, settings)


EXPERIMENTS.register("active_learning/engine")(
    Experiment(
        EngineSettings,
        plan,
        {RepetitionTask: run_and_standardise, DataTask: describe, SaturationTask: run_saturation},
        summarise,
        chaotic=every_task,
        method_traits=(PIPELINE,),
        model_keys=("kernel",),
        kernels=KERNELS,
        variants=("gengine1", "gengine1_co2_hc"),
        parts=("repetitions", "saturation_repetitions"),
        published=only_arrays("[!z]*"),  # not the measured temperatures
    )
)
