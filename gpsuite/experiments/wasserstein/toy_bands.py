"""wasserstein/toy_bands: predictive bands in one dimension, the distance's estimates, wide networks' covariance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy.linalg import eigh
from scipy.special import erf

from gpsuite.arrays import FloatArray
from gpsuite.experiments.base import (
    DIVERGED,
    DONE,
    EXPERIMENTS,
    Experiment,
    MethodOptions,
    Outcome,
    Record,
    Report,
    Request,
    SharedWork,
    Task,
    every_array,
    frame_of,
)
from gpsuite.experiments.settings import Count, Positive, at_least, filled, increasing
from gpsuite.experiments.wasserstein.fitting import TrainingParams, TrainingSettings, fit_regression, regression_scores
from gpsuite.experiments.wasserstein.images import wide
from gpsuite.experiments.wasserstein.methods import NUMBERS, regressor_version
from gpsuite.methods.wasserstein.distance import wasserstein_by_eigenvalues, wasserstein_on_points
from gpsuite.methods.wasserstein.fitting import DivergedError
from gpsuite.methods.wasserstein.scoring import interval_half_widths
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.palette import LIMIT, method_style
from gpsuite.reporting.tables import metric_statistics, summarise_groups
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import Estimate, mean


@dataclass
class ToySettings(TrainingSettings):
    """Settings of the one-dimensional example.

    Attributes:
        repetitions: data sets.
        rows: rows of each data set. Their inputs leave a gap in the middle.
        noise_scale: standard deviation of the noise, in units of y.
        distance_rows: points on which the distance's estimates are compared.
        distance_draws: random pairs of kernels, and random choices of X_S for each size.
        chosen_sizes: sizes of X_S.
        network_widths: widths of random networks whose covariance is compared with its limit.
        networks: random networks of each width.
    """

    repetitions: Count
    rows: Annotated[int, at_least(20)]
    noise_scale: Positive
    distance_rows: Annotated[int, at_least(10)]
    distance_draws: Count
    chosen_sizes: Annotated[list[Count], filled, increasing]
    network_widths: Annotated[list[Count], increasing]
    networks: Annotated[int, at_least(3)]


BANDS, DISTANCE, WIDTH = "bands", "distance", "width"
ACTIVATIONS = ("relu", "erf")


@dataclass(frozen=True, kw_only=True)
class BandTask:
    """One regression on one data set.

    Attributes:
        method: which regression.
        training: how.
        seed: of data and training.
        rows: of the data.
        noise_scale: of the noise.
    """

    method: MethodOptions
    training: TrainingParams
    seed: int
    rows: int
    noise_scale: float
    kind: str = "wasserstein_bands"


@dataclass(frozen=True, kw_only=True)
class DistanceTask:
    """Estimates of the distance on random pairs of kernels.

    Attributes:
        seed: of points, kernels and choices.
        rows: N.
        draws: pairs of kernels, and choices of X_S.
        chosen_sizes: N_S.
    """

    seed: int
    rows: int
    draws: int
    chosen_sizes: tuple[int, ...]
    kind: str = "wasserstein_distance"


@dataclass(frozen=True, kw_only=True)
class WidthTask:
    """Covariance of random networks against its limit.

    Attributes:
        seed: of networks and inputs.
        activation: relu or erf.
        widths: of the hidden layers.
        networks: of each width.
    """

    seed: int
    activation: str
    widths: tuple[int, ...]
    networks: int
    kind: str = "wasserstein_width"


def plan(request: Request[ToySettings]) -> list[Task[BandTask | DistanceTask | WidthTask]]:
    """Return one task per data set and method, one on the distance, one per activation on wide networks."""
    s = request.settings
    tasks: list[Task[BandTask | DistanceTask | WidthTask]] = [
        request.task(
            BandTask(
                method=options,
                training=s.work,
                seed=derived_seed(request.seed, "toy", repetition),
                rows=s.rows,
                noise_scale=s.noise_scale,
            ),
            label=f"{options.title}  data set {repetition}",
            axes={"part": BANDS, "method": name, "repetition": repetition},
            version=regressor_version(options),
            cost=5.0,
        )
        for repetition in range(s.repetitions)
        for name, options in request.methods.items()
    ]
    distance = DistanceTask(
        seed=derived_seed(request.seed, "distance"),
        rows=s.distance_rows,
        draws=s.distance_draws,
        chosen_sizes=tuple(s.chosen_sizes),
    )
    tasks.append(request.task(distance, label="estimates of the distance", axes={"part": DISTANCE}))
    for activation in ACTIVATIONS:
        width = WidthTask(
            seed=derived_seed(request.seed, "width", activation),
            activation=activation,
            widths=tuple(s.network_widths),
            networks=s.networks,
        )
        axes = {"part": WIDTH, "activation": activation}
        tasks.append(request.task(width, label=f"wide networks  {activation}", axes=axes))
    return tasks


GRID = np.linspace(-4.0, 4.0, 161)[:, None]
GAP = (-0.7, 0.7)  # without data
REACH = 2.5  # data lie within
TEST_ROWS = 500
WEIGHT, BIAS = 1.6, 0.2  # variances of random networks


def truth(x: FloatArray) -> FloatArray:
    """Return the function behind the data."""
    return np.asarray(np.sin(2.0 * x) + 0.3 * x)


def toy_data(rng: np.random.Generator, rows: int, noise_scale: float) -> tuple[FloatArray, FloatArray]:
    """Return inputs [rows, 1] on both sides of the gap and noisy targets [rows]."""
    x = rng.uniform(GAP[1], REACH, rows) * rng.choice([-1.0, 1.0], rows)
    return x[:, None], truth(x) + noise_scale * rng.standard_normal(rows)


def run_band(task: Task[BandTask], shared: SharedWork) -> Outcome:
    """Train one regression and return its band. Test rows lie where data are, and in the gap."""
    params = task.params
    X, y = toy_data(stream(params.seed, "data"), params.rows, params.noise_scale)
    budget = shared.budget(task.budget_seconds)
    try:
        model = fit_regression(params.method, params.training, X, y, params.seed, budget)
    except DivergedError as error:
        return Outcome({}, DIVERGED, str(error))
    X_test, y_test = toy_data(stream(params.seed, "test"), TEST_ROWS, params.noise_scale)
    mean, variance = model.predict(GRID, tempered=True)
    metrics = regression_scores(model, X_test, y_test)
    inside = (GRID[:, 0] > GAP[0]) & (GRID[:, 0] < GAP[1])
    near = (np.abs(GRID[:, 0]) > GAP[1]) & (np.abs(GRID[:, 0]) < REACH)
    metrics["gap_over_data_deviation"] = float(np.sqrt(variance[inside]).mean() / np.sqrt(variance[near]).mean())
    arrays = {"mean": mean, "deviation": np.sqrt(variance), "x": X[:, 0], "y": y}
    reason = "" if model.status == DONE else model.found.reason
    return Outcome(metrics, model.status, reason, arrays, f"NLL {metrics['nll_own']:.3f}")


def run_distance(task: Task[DistanceTask], shared: SharedWork) -> Outcome:
    """Return how the paper's estimate errs at X_S = X and for fewer points, and whether the two spectra agree."""
    params, rng = task.params, stream(task.params.seed, "kernels")
    at_data, spectrum = [], []
    estimates: dict[str, list[float]] = {}
    for _ in range(params.draws):
        K, R, mean = random_kernels(rng, params.rows)
        zero = np.zeros(params.rows)
        exact = wasserstein_on_points(zero, mean, K, R).squared_distance
        k, r = np.diagonal(K), np.diagonal(R)
        paper = wasserstein_by_eigenvalues(zero, mean, k, r, R, K).squared_distance
        at_data.append(abs(paper / exact - 1.0))
        spectrum.append(spectrum_error(K, R))
        for size in params.chosen_sizes:
            few = rng.choice(params.rows, min(size, params.rows), replace=False)
            part = np.ix_(few, few)
            found = {
                "eigenvalues": wasserstein_by_eigenvalues(zero, mean, k, r, R[few], K[:, few]),
                "own points": wasserstein_on_points(zero[few], mean[few], K[part], R[part]),
            }
            for name, terms in found.items():
                estimates.setdefault(f"{name} {size}", []).append(terms.squared_distance / exact - 1.0)
    metrics = {"largest_error_at_data": max(at_data), "largest_spectrum_error": max(spectrum)}
    arrays = {name: np.array(values) for name, values in estimates.items()}
    return Outcome(metrics, arrays=arrays, headline=f"largest error {max(at_data):.1e}")


def random_kernels(rng: np.random.Generator, rows: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a prior's and a posterior's kernel matrix with noise-sized diagonals, and the difference of means."""
    x = rng.uniform(-2.0, 2.0, rows)
    lengths = rng.uniform(0.3, 1.0, 2)
    K, other = (np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 0.05 * np.eye(rows) for length in lengths)
    shrink = rng.uniform(0.2, 1.0, rows)
    R = shrink[:, None] * other * shrink + 0.05 * np.eye(rows)
    return K, R, rng.standard_normal(rows)


def spectrum_error(K: FloatArray, R: FloatArray) -> float:
    """Return the largest relative difference of the eigenvalues of R K and of K^1/2 R K^1/2."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(values) @ vectors.T
    symmetric = np.sort(eigh(root @ R @ root, eigvals_only=True))
    product = np.sort(np.linalg.eigvals(R @ K).real)
    return float(np.max(np.abs(product / symmetric - 1.0)))


def run_width(task: Task[WidthTask], shared: SharedWork) -> Outcome:
    """Return the error of random networks' covariance against the closed form, network by network."""
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.models.random_elements.elements import NNGP

    params = task.params
    X = stream(params.seed, "inputs").standard_normal((8, 3))
    limit = NNGP(1, params.activation, WEIGHT, BIAS)(X).numpy()
    scale = float(np.linalg.norm(limit))
    errors = np.array(
        [
            [
                np.linalg.norm(network_covariance(X, params, width, number) - limit) / scale
                for number in range(params.networks)
            ]
            for width in params.widths
        ]
    )
    return Outcome(
        {"activation": params.activation},
        arrays={"errors": errors, "widths": np.array(params.widths, dtype=np.float64)},
        headline=f"error {errors[-1].mean():.1e} at width {params.widths[-1]}",
    )


def network_covariance(X: FloatArray, params: WidthTask, width: int, number: int) -> FloatArray:
    """Return the outputs' covariance of one network of a hidden layer, given that layer [N, N]."""
    rng = stream(params.seed, "network", width, number)
    weights = rng.standard_normal((X.shape[1], width)) * np.sqrt(WEIGHT / X.shape[1])
    u = X @ weights + np.sqrt(BIAS) * rng.standard_normal(width)
    hidden = np.maximum(u, 0.0) if params.activation == "relu" else erf(u)
    return np.asarray(BIAS + WEIGHT * hidden @ hidden.T / width)


SHOWN = ("nll_own", "crps", "interval_coverage", "interval_width", "gap_over_data_deviation", "tempering")


def summarise(report: Report[ToySettings]) -> list[Statistic]:
    """Write and draw the bands, what the distance's estimates are off by, and the error of finite networks."""
    bands, distance, width = (report.records(part=part) for part in (BANDS, DISTANCE, WIDTH))
    found: list[Statistic] = []
    if bands:
        tidy = summarise_groups(frame_of(bands), ["method"], SHOWN)
        caption = (
            f"mean ± standard error over {report.settings.repetitions} data sets of {report.settings.rows} rows. "
            "Band in the gap without data over that at the data"
        )
        report.table(wide(tidy, report.titles, SHOWN), "bands", caption)
        _draw_bands(report, bands)
        found += metric_statistics(tidy, ["method"])
    if distance:
        found += _distances(report, distance[0])
    return found + _widths(report, width) if width else found


def _draw_bands(report: Report[ToySettings], records: Sequence[Record]) -> None:
    import pandas as pd

    first = [record for record in records if record.axes["repetition"] == 0]
    x, lines = GRID[:, 0], []
    columns = min(len(first), 3)
    rows = -(-len(first) // columns)
    size = (3.4 * columns, 3.2 * rows + 0.8)
    with report.figure("bands", rows=rows, columns=columns, size=size, sharey=True) as drawing:
        for ax, record in zip(drawing.axes, first, strict=False):
            name = str(record.axes["method"])
            centre = record.arrays["mean"]
            half = interval_half_widths(np.square(record.arrays["deviation"]), 0.95)
            colour = method_style(name)["color"]
            ax.fill_between(x, centre - half, centre + half, color=colour, alpha=0.2, label="95 % interval")
            ax.plot(x, centre, color=colour, label="mean")
            ax.plot(x, truth(x), color=LIMIT, linestyle="--", label="function")
            ax.plot(record.arrays["x"], record.arrays["y"], "k.", ms=3, label="data")
            ax.axvspan(*GAP, color="0.9", zorder=0, label="no data are drawn there")
            ax.set_title(report.titles[name])
            ax.set_ylim(-4.0, 4.0)
            lines += [
                {"method": name, "x": a, "mean": m, "half_width": h} for a, m, h in zip(x, centre, half, strict=True)
            ]
        drawing.name_axes("x", "y")
        drawing.legend("below", columns=4)
        drawing.data = pd.DataFrame(lines)


def _distances(report: Report[ToySettings], record: Record) -> list[Statistic]:
    import pandas as pd

    lines = []
    for name, values in record.arrays.items():
        rule, size = name.rsplit(" ", 1)
        own = mean(values)
        lines.append({"rule": rule, "chosen": int(size), "bias": own.value, "low": own.low, "high": own.high})
    frame = pd.DataFrame(lines).sort_values(["rule", "chosen"])
    rows, draws = report.settings.distance_rows, report.settings.distance_draws
    report.table(
        frame,
        "distance",
        f"relative bias of the squared distance from N_S of {rows} points, {draws} pairs of kernels, 95 % t intervals",
        {"rule": "estimate", "chosen": "N_S", "bias": "mean relative error", "low": "from", "high": "to"},
    )
    with report.figure("distance", size=(6.0, 4.4)) as drawing:
        for named, part in frame.groupby("rule"):
            ends = [part["bias"] - part["low"], part["high"] - part["bias"]]
            drawing.ax.errorbar(part["chosen"], part["bias"], ends, marker="o", capsize=3, label=str(named))
        drawing.ax.axhline(0.0, color=LIMIT, linestyle="--")
        drawing.name_axes("points N_S", "mean relative error of the squared distance")
        drawing.legend("below", title=f"mean and 95 % t interval over {draws} pairs of kernels")
        drawing.data = frame
    names = {
        "max_relative_error_at_data": "largest_error_at_data",
        "max_relative_spectrum_error": "largest_spectrum_error",
    }
    return [Statistic.of(name, Estimate(record.number(own), n=draws)) for name, own in names.items()]


def _widths(report: Report[ToySettings], records: Sequence[Record]) -> list[Statistic]:
    import pandas as pd

    lines, cells, notes = [], [], []
    with report.figure("network_width", size=(6.0, 4.4)) as drawing:
        for record in records:
            name, widths = str(record.axes["activation"]), record.arrays["widths"]
            errors = record.arrays["errors"]
            # every network has its own slope over the widths: as many independent ones as networks
            own = mean(np.polyfit(np.log(widths), np.log(errors), 1)[0])
            cells.append(own.contains(-0.5))
            notes.append(f"{name}: {own.value:.3f} [{own.low:.3f}, {own.high:.3f}]")
            drawing.ax.loglog(widths, errors.mean(axis=1), marker="o", label=f"{name}, slope {own.value:.2f}")
            lines += [
                {"activation": name, "width": w, "error": e} for w, e in zip(widths, errors.mean(axis=1), strict=True)
            ]
        drawing.name_axes("width of the hidden layer", "relative error of the covariance")
        drawing.legend("below")
        drawing.data = pd.DataFrame(lines)
    return [claim("share_width_slopes_near_half", cells, note="; ".join(notes))]


EXPERIMENTS.register("wasserstein/toy_bands")(
    Experiment(
        ToySettings,
        plan,
        {BandTask: run_band, DistanceTask: run_distance, WidthTask: run_width},
        summarise,
        method_traits=(NUMBERS,),
        parts=("methods",),
        agreement=1e-3,
        model_keys=(),
        published=every_array,
    )
)
