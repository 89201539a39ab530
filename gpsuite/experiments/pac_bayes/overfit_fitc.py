"""pac_bayes/overfit_fitc: FITC's overfitting against kl-PAC-SGP (App. E of Reeb et al. 2018; Bauer et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.generators import sample_gaussian, squared_exponential
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import Standardiser
from gpsuite.experiments.base import (
    BUDGET,
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
    finite_or_none,
    require,
)
from gpsuite.experiments.pac_bayes.fits import AGREEMENT, Split, training_of
from gpsuite.experiments.pac_bayes.methods import RISK_BOUND, SPARSE, risk_method, with_inducing
from gpsuite.experiments.pac_bayes.tasks import LEAST_TRAINING_ROWS, TrainingTask
from gpsuite.experiments.settings import Count, Positive, Share, at_least
from gpsuite.experiments.tasks import take
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID
from gpsuite.methods.pac_bayes.evaluation import ALL_DIFFERENT, Copies, evaluate
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import Posterior
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.metrics import headings, metric
from gpsuite.reporting.palette import method_style
from gpsuite.reporting.tables import mean_and_error, metric_statistics, summarise_groups
from gpsuite.seeds import derived_seed, stream
from gpsuite.statistics.estimates import proportion
from gpsuite.statistics.paired import Paired

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


PAC, OVERFITTER = "kl_pac_sgp", "fitc"


@dataclass
class OverfitSettings:
    """Settings of the overfitting study: draws of a GP on [0, input_range] with noise, or rows of a dataset.

    Attributes:
        repetitions: number of data sets.
        rows: training rows of each.
        test_rows: further rows of each. Of a dataset all other rows are used.
        inducing: number M of inducing inputs of every method.
        epsilon: accuracy goal, in standard deviations of the target.
        signal_std: standard deviation of the drawn functions.
        lengthscale: lengthscale of the drawn functions.
        noise_std: standard deviation of the noise.
        input_range: inputs are uniform on [0, input_range].
        delta: allowed probability that a bound fails.
        max_evaluations: limit on objective evaluations per training.
    """

    repetitions: Count
    rows: Annotated[int, at_least(LEAST_TRAINING_ROWS)]
    test_rows: Count
    inducing: Count
    epsilon: Positive
    signal_std: Positive
    lengthscale: Positive
    noise_std: Positive
    input_range: Positive
    delta: Share
    max_evaluations: Count

    def check(self) -> None:
        """Refuse more inducing inputs than rows."""
        enough = self.rows >= self.inducing
        require(enough, "rows", self.rows, f"must be at least inducing={self.inducing}")


@dataclass(frozen=True, kw_only=True)
class OverfitTask(TrainingTask):
    """A fit to one data set: rows of a dataset, or a draw of a GP with noise. See `OverfitSettings`."""

    rows: int
    test_rows: int
    epsilon: float
    signal_std: float
    lengthscale: float
    noise_std: float
    input_range: float
    kind: str = "overfit"


def plan(request: Request[OverfitSettings]) -> list[Task[OverfitTask]]:
    """Return one task per data set and method. All methods see the same data and start."""
    settings = request.settings
    if request.dataset is not None:
        rows = request.dataset.rows
        require(settings.rows < rows, "rows", settings.rows, f"must be below the dataset's {rows}")
    return [
        request.task(
            task_params(request, options, repetition),
            label=f"{options.heading}  data set {repetition}",
            axes={"method": name, "repetition": repetition},
            version=options.method.version,
            cost=0.1,
        )
        for repetition in range(settings.repetitions)
        for name, options in request.methods.items()
    ]


def task_params(request: Request[OverfitSettings], options: MethodOptions, repetition: int) -> OverfitTask:
    """Return the science parameters of one data set and method."""
    settings = request.settings
    return take(
        OverfitTask,
        settings,
        method=with_inducing(options, settings.inducing),
        ard=request.model.ard,
        split_seed=derived_seed(request.seed, "overfit", repetition),
    )


CURVE_POINTS = 301


# of a record, in the order of the table
METRICS = (
    "noise_std",
    "gibbs_risk_train",
    "gibbs_risk_test",
    "gap",
    "mse_train",
    "mse_test",
    "nll_test",
    "bound_kl",
    "kl_over_n",
)


def draw_split(params: OverfitTask, dataset: PreparedDataset | None) -> Split:
    """Return training and test rows, standardised by the training rows.

    Without a dataset f is drawn from a GP with squared exponential kernel, y = f(x) + noise_std N(0, 1).
    """
    rng, rows, copies = stream(params.split_seed, "data"), params.rows, ALL_DIFFERENT
    if dataset is None:
        X = rng.uniform(0.0, params.input_range, (rows + params.test_rows, 1))
        covariance = squared_exponential(X, X, params.signal_std**2, params.lengthscale)
        y = sample_gaussian(rng, covariance, 1)[0] + params.noise_std * rng.standard_normal(len(X))
    else:
        data = load(dataset)
        order = rng.permutation(len(data.X))
        train, test = order[:rows], order[rows:]
        X, y = data.X[order], data.y[order, 0]
        copies = Copies.of_split(train, test, data.groups)
    inputs, target = Standardiser.fit(X[:rows]), Standardiser.fit(y[:rows, None])
    X, y = inputs.transform(X), target.transform(y[:, None])[:, 0]
    return Split(X[:rows], y[:rows], X[rows:], y[rows:], float(target.scale[0]), copies)


def run(task: Task[OverfitTask], shared: SharedWork) -> Outcome:
    """Train one method on one data set, certify it and measure it on the test rows.

    The noise is returned in units of y, the other numbers in units of the standardised target. The arrays hold the
    curve of one-dimensional data and the inducing inputs.
    """
    params = task.params
    split = draw_split(params, task.dataset)
    loss = BandLoss(params.epsilon)
    method = risk_method(params.method)
    trained = method.train(training_of(params, split, task.budget_seconds, shared), loss)
    if trained.status == DIVERGED or trained.Z is None:
        return Outcome({}, DIVERGED, trained.reason)
    rounded = PAPER_GRID.rounded(trained.hyperparameters)
    posterior = method.certify(params.method, rounded, split.X, split.y, trained)
    found = evaluate(posterior, split.X_test, split.y_test, loss, params.delta, copies=split.copies)
    numbers = {
        "noise_std": rounded.noise_variance**0.5 * split.scale,
        "gap": found.gibbs_risk_test - found.gibbs_risk_train,
        **{name: float(getattr(found, name)) for name in METRICS if name not in ("noise_std", "gap")},
    }
    return Outcome(
        {name: finite_or_none(value) for name, value in numbers.items()},
        BUDGET if trained.status == BUDGET else DONE,
        trained.reason if trained.status == BUDGET else found.certificate.reason,
        arrays=_curve(posterior, trained.Z, split),
        headline=f"noise {numbers['noise_std']:.3f}, gap {numbers['gap']:+.3f}",
    )


def _curve(posterior: Posterior, Z: FloatArray, split: Split) -> dict[str, FloatArray]:
    """Return mean and predictive standard deviation along the input, empty for more than one."""
    if split.X.shape[1] != 1:
        return {}
    x = np.linspace(split.X.min(), split.X.max(), CURVE_POINTS)
    mean, variance = posterior.predict(x[:, None])
    deviation = np.sqrt(variance + posterior.hyperparameters.noise_variance)
    return {"x": x, "mean": mean, "std": deviation, "Z": Z[:, 0]}


# What App. E of Reeb et al. 2018 says about FITC's overfitting, as statistics that decide it.


def claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return the shares of data sets in which FITC learns less noise, has the larger gap, both, and predicts worse.

    Args:
        frame: one row per method and repetition with noise_std, gap and gibbs_risk_test. Nothing without both methods.
    """
    if not {PAC, OVERFITTER} <= set(frame["method"]):
        return []
    metrics = ["noise_std", "gap", "gibbs_risk_test"]
    paired = Paired(frame, ["repetition"])
    differences = np.array([paired(metric, OVERFITTER) - paired(metric, PAC) for metric in metrics])
    noise, gap, risk = differences[:, np.isfinite(differences).all(axis=0)]
    if not len(noise):
        return []
    shares = {
        "share_only_fitc_overfits": (noise < 0) & (gap > 0),
        "share_fitc_learns_less_noise": noise < 0,
        "share_fitc_has_larger_gap": gap > 0,
        "share_fitc_has_larger_test_risk": risk > 0,
    }
    return [
        Statistic.of(name, proportion(int(held.sum()), len(held)), note=f"{held.sum()} of {len(held)} data sets")
        for name, held in shares.items()
    ]


_BELOW = ("noise_std", "gap", "gibbs_risk_test")  # the learned noise, and what overfitting shows in


def draw(report: Report[OverfitSettings], frame: pd.DataFrame, split: Split) -> None:
    """Draw the first data set's fits, if there is one input, and each metric over all data sets.

    Args:
        report: of the run.
        frame: one row per method and repetition.
        split: the first data set.
    """
    first = report.records(repetition=0)
    fits = {str(record.axes["method"]): record for record in first if "x" in record.arrays}
    columns, rows = max(len(fits), len(_BELOW)), 1 + bool(fits)
    size = (4.4 * columns, 3.5 * rows)
    with report.figure("overfit_fitc", rows=rows, columns=columns, size=size) as drawing:
        for number, (ax, name) in enumerate(zip(drawing.grid[0], fits, strict=False)):
            _draw_fit(ax, report.titles[name], name, fits[name], split)
            ax.set_ylabel("" if number else "output y (standardised)")
        below = drawing.grid[-1]
        for ax, shown in zip(below, _BELOW, strict=False):
            _draw_metric(ax, report.titles, frame, shown)
            ax.set_ylabel(metric(shown, "pac_bayes").axis)
        if report.request.dataset is None:
            below[0].axhline(report.settings.noise_std, color="k", linestyle="--", label="true noise")
            below[0].legend(loc="lower left")
        drawing.data = frame


def _draw_fit(ax: Axes, title: str, name: str, record: Record, split: Split) -> None:
    x, mean, deviation = (record.arrays[key] for key in ("x", "mean", "std"))
    colour = method_style(name)["color"]
    ax.plot(split.X[:, 0], split.y, "k.", markersize=3, label="training data")
    ax.plot(x, mean, color=colour, label="mean")
    ax.fill_between(
        x, mean - deviation, mean + deviation, color=colour, alpha=0.3, linewidth=0, label="± std., with noise"
    )
    low, high = float(split.y.min()), float(split.y.max())
    Z = record.arrays["Z"]
    inside = Z[np.abs(Z - (x[0] + x[-1]) / 2) <= (x[-1] - x[0]) / 2]
    height = np.full(len(inside), low - 0.15 * (high - low))
    ax.plot(inside, height, "kx", label="inducing inputs")
    ax.set_ylim(low - 0.25 * (high - low), high + 0.6 * (high - low))
    ax.legend(loc="upper center", ncols=2)
    ax.set_xlabel("input x (standardised)")
    ax.set_title(f"{title}, data set 0: noise σ = {record.number('noise_std'):.3f} (units of y)")


def _draw_metric(ax: Axes, titles: Mapping[str, str], frame: pd.DataFrame, shown: str) -> None:
    """Draw every data set's value as a line across the methods, and the methods' medians."""
    names = [name for name in titles if name in set(frame["method"])]
    wide = frame.pivot(index="repetition", columns="method", values=shown)[names]
    places = list(range(len(names)))
    for _, row in wide.iterrows():
        ax.plot(places, row, color="0.75", linewidth=0.7, zorder=1)
    for place, name in zip(places, names, strict=True):
        style = method_style(name)
        ax.plot(np.full(len(wide), place), wide[name], style["marker"], color=style["color"], markersize=3.5, alpha=0.7)
        ax.plot([place - 0.2, place + 0.2], [wide[name].median()] * 2, color="k", linewidth=2.5)
    ax.set_xticks(places, [titles[name] for name in names])
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.set_title(f"{len(wide)} data sets, bar: median")


HEADINGS = headings(METRICS, "pac_bayes")


def summarise(report: Report[OverfitSettings]) -> list[Statistic]:
    """Write the table of fits and the figure. Return the means and the share in which only FITC overfits."""
    request, settings, records = report.request, report.settings, report.records()
    import pandas as pd

    frame = pd.DataFrame([{**record.axes, **{name: record.number(name) for name in METRICS}} for record in records])
    tidy = summarise_groups(frame, ["method"], METRICS)
    count = frame.groupby("method").size().min()
    caption = (
        f"{_data_title(request)}: {settings.rows} training rows, M = {settings.inducing}, ε = {settings.epsilon:g} "
        f"standard deviations of the target. Mean ± standard error over {count} data sets"
    )
    report.table(_wide(tidy, report.titles), "overfit_fitc", caption)
    report.table(tidy, "overfit_fitc_tidy", caption)
    options = next(iter(request.methods.values()))
    draw(report, frame, draw_split(task_params(request, options, 0), request.dataset))
    return [*metric_statistics(tidy, ["method"]), *claims(frame)]


def _data_title(request: Request[OverfitSettings]) -> str:
    if request.dataset is not None:
        return f"random rows of {request.dataset.name}"
    return f"draws of a GP with noise σ = {request.settings.noise_std:g}"


def _wide(tidy: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    rows: dict[str, dict[str, Any]] = {name: {"method": title} for name, title in titles.items()}
    for line in tidy.to_dict("records"):
        rows[line["method"]][HEADINGS[line["metric"]]] = mean_and_error(line["mean"], line["standard_error"])
    return pd.DataFrame([row for row in rows.values() if len(row) > 1])


EXPERIMENTS.register("pac_bayes/overfit_fitc")(
    Experiment(
        OverfitSettings,
        plan,
        run,
        summarise,
        method_traits=(RISK_BOUND, SPARSE),
        agreement=AGREEMENT,
        dataset_tasks=("regression",),
        model_keys=("ard",),
        published=every_array,
    )
)
