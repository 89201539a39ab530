"""pac_bayes/overfit_fitc: FITC's overfitting against kl-PAC-SGP (App. E of Reeb et al. 2018; Bauer et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.data.generators import sample_gaussian, squared_exponential
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import Standardiser
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    EXPERIMENTS,
    METHODS,
    Experiment,
    MethodOptions,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    finite_or_none,
    require,
)
from gpsuite.experiments.pac_bayes.fitting import Split
from gpsuite.experiments.pac_bayes.frames import metric_statistics
from gpsuite.experiments.pac_bayes.overfit_figure import draw
from gpsuite.experiments.pac_bayes.settings import AGREEMENT, LEAST_TRAINING_ROWS, check_epsilon
from gpsuite.experiments.pac_bayes.trainers import (
    FITC,
    VFE,
    Trained,
    Training,
    maximise_sparse_likelihood,
    minimise_sparse_bound,
)
from gpsuite.methods.pac_bayes.evaluation import evaluate
from gpsuite.methods.pac_bayes.hyperparameters import PAPER_GRID
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.sparse_posterior import SparseGPPosterior
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import mean_and_error, summarise_groups, write_table
from gpsuite.seeds import derived_seed, stream

if TYPE_CHECKING:
    import pandas as pd

PAC, OVERFITTER = "kl_pac_sgp", "fitc"
CURVE_POINTS = 301
METRICS = {
    "noise_std": "learned noise σ (units of y)",
    "gibbs_risk_train": "Gibbs training risk",
    "gibbs_risk_test": "Gibbs test risk",
    "gap": "gap: test − training risk",
    "mse_train": "training MSE (variances of y)",
    "mse_test": "test MSE (variances of y)",
    "nll_test": "test neg. log density (nats)",
    "bound_kl": "upper bound B_kl",
    "kl_over_n": "KL/n (nats)",
}


@dataclass
class OverfitSettings:
    """Settings of the overfitting study: draws of a GP on [0, input_range] with noise, or rows of a dataset.

    Attributes:
        repetitions: number of data sets.
        rows: training rows of each.
        test_rows: further rows of each; of a dataset all the rest is used.
        inducing: number M of inducing inputs of every method.
        epsilon: accuracy goal, in standard deviations of the target.
        signal_std: standard deviation of the drawn functions.
        lengthscale: of the drawn functions.
        noise_std: standard deviation of the noise.
        input_range: inputs are uniform on [0, input_range].
        delta: allowed probability that a bound fails.
        max_evaluations: limit on objective evaluations per training.
    """

    repetitions: int = 50
    rows: int = 100
    test_rows: int = 1000
    inducing: int = 8
    epsilon: float = 0.6
    signal_std: float = 0.88
    lengthscale: float = 0.61
    noise_std: float = 0.28
    input_range: float = 6.0
    delta: float = 0.01
    max_evaluations: int = 1000

    def check(self) -> None:
        """Refuse impossible values."""
        for name in ("repetitions", "test_rows", "inducing", "max_evaluations"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
        enough = self.rows >= max(LEAST_TRAINING_ROWS, self.inducing)
        require(
            enough,
            "rows",
            self.rows,
            f"must be at least {LEAST_TRAINING_ROWS}, and at least inducing={self.inducing}",
        )
        for name in ("epsilon", "signal_std", "lengthscale", "noise_std", "input_range"):
            check_epsilon(name, getattr(self, name))
        require(0 < self.delta < 1, "delta", self.delta, "must lie between 0 and 1")


def plan(request: Request) -> list[Task]:
    """Return one task per data set and method; all methods see the same data and start."""
    settings: OverfitSettings = request.settings
    if request.dataset is not None:
        rows = request.dataset.rows
        require(settings.rows < rows, "rows", settings.rows, f"must be below the dataset's {rows}")
    return list(_tasks(request, settings))


def _tasks(request: Request, settings: OverfitSettings) -> Iterator[Task]:
    for repetition in range(settings.repetitions):
        for name, options in request.methods.items():
            yield Task(
                experiment=request.experiment,
                label=f"{options.title}  data set {repetition}",
                axes={"method": name, "repetition": repetition},
                params=_params(request, settings, options, repetition),
                dataset=request.dataset,
                version=METHODS.get(options.builder).version,
                cost=0.1,
                budget_seconds=request.budget_seconds,
            )


def _params(
    request: Request, settings: OverfitSettings, options: MethodOptions, repetition: int
) -> dict[str, Any]:
    method = {key: value for key, value in asdict(options).items() if key not in ("title", "reference")}
    values = {key: value for key, value in asdict(settings).items() if key not in ("repetitions", "inducing")}
    return {
        "kind": "overfit",
        "method": {**method, "inducing": settings.inducing},
        "ard": request.model.ard,
        "split_seed": derived_seed(request.seed, "overfit", repetition),
        **values,
    }


def draw_split(params: Mapping[str, Any], dataset: PreparedDataset | None) -> Split:
    """Return training and test rows, standardised by the training rows.

    Without a dataset f is drawn from a GP with squared exponential kernel, y = f(x) + noise_std N(0, 1).
    """
    rng, rows = stream(params["split_seed"], "data"), params["rows"]
    if dataset is None:
        X = rng.uniform(0.0, params["input_range"], (rows + params["test_rows"], 1))
        covariance = squared_exponential(X, X, params["signal_std"] ** 2, params["lengthscale"])
        y = sample_gaussian(rng, covariance, 1)[0] + params["noise_std"] * rng.standard_normal(len(X))
    else:
        data = load(dataset)
        order = rng.permutation(len(data.X))
        X, y = data.X[order], data.y[order, 0]
    inputs, target = Standardiser.fit(X[:rows]), Standardiser.fit(y[:rows, None])
    X, y = inputs.transform(X), target.transform(y[:, None])[:, 0]
    return Split(X[:rows], y[:rows], X[rows:], y[rows:], float(target.scale[0]))


def run(task: Task, shared: SharedWork) -> Outcome:
    """Train one method on one data set, certify it and measure it on the test rows.

    The noise is returned in units of y, all else in units of the standardised target; the arrays hold the curve of
    one-dimensional data and the inducing inputs.
    """
    params = task.params
    split = draw_split(params, task.dataset)
    loss = BandLoss(params["epsilon"])
    trained = _train(split, params, loss, task.budget_seconds)
    if trained.status == DIVERGED or trained.Z is None:
        return Outcome({}, DIVERGED, trained.reason)
    alpha = VFE if params["method"].get("posterior") == "vfe" else FITC
    rounded = PAPER_GRID.rounded(trained.hyperparameters)
    posterior = SparseGPPosterior.fit(rounded, split.X, split.y, trained.Z, alpha)
    found = evaluate(posterior, split.X_test, split.y_test, loss, params["delta"])
    numbers = {
        "noise_std": rounded.noise_variance**0.5 * split.scale,
        "gap": found.gibbs_risk_test - found.gibbs_risk_train,
        **{name: float(getattr(found, name)) for name in METRICS if name not in ("noise_std", "gap")},
    }
    return Outcome(
        {name: finite_or_none(value) for name, value in numbers.items()},
        BUDGET if trained.status == BUDGET else DONE,
        trained.reason if trained.status == BUDGET else found.certificate.reason,
        arrays=_curve(posterior, split),
        headline=f"noise {numbers['noise_std']:.3f}, gap {numbers['gap']:+.3f}",
    )


def _train(split: Split, params: Mapping[str, Any], loss: BandLoss, seconds: float | None) -> Trained:
    if params["method"]["builder"] == "sparse_gp":
        return maximise_sparse_likelihood(Training(split.X, split.y, params, seconds))
    return minimise_sparse_bound(Training(split.X, split.y, params, seconds), loss)


def _curve(posterior: SparseGPPosterior, split: Split) -> dict[str, np.ndarray[Any, Any]]:
    """Return mean and predictive standard deviation along the input, empty for more than one."""
    if split.X.shape[1] != 1:
        return {}
    x = np.linspace(split.X.min(), split.X.max(), CURVE_POINTS)
    mean, variance = posterior.predict(x[:, None])
    deviation = np.sqrt(variance + posterior.hyperparameters.noise_variance)
    return {"x": x, "mean": mean, "std": deviation, "Z": posterior.Z[:, 0]}


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the table of fits and the figure; return the means and the share in which only FITC overfits."""
    import pandas as pd

    settings: OverfitSettings = request.settings
    frame = pd.DataFrame(
        [{**record.axes, **{name: record.number(name) for name in METRICS}} for record in records]
    )
    tidy = summarise_groups(frame, ["method"], list(METRICS))
    titles = {name: options.title for name, options in request.methods.items()}
    count = frame.groupby("method").size().min()
    caption = (
        f"{_data_title(request)}: {settings.rows} training rows, M = {settings.inducing}, ε = {settings.epsilon:g} "
        f"standard deviations of the target; mean ± standard error over {count} data sets"
        f"{f' ({note})' if note else ''}"
    )
    write_table(_wide(tidy, titles), folder / "tables", "overfit_fitc", caption)
    write_table(tidy, folder / "tables", "overfit_fitc_tidy", caption)
    example = {str(record.axes["method"]): record for record in records if record.axes["repetition"] == 0}
    options = next(iter(request.methods.values()))
    split = draw_split(_params(request, settings, options, 0), request.dataset)
    draw(request, frame, example, split, folder / "figures", note)
    return [*metric_statistics(tidy, ["method"]), *claims(frame)]


def _data_title(request: Request) -> str:
    settings: OverfitSettings = request.settings
    if request.dataset is not None:
        return f"random rows of {request.dataset.name}"
    return f"draws of a GP with noise σ = {settings.noise_std:g}"


def _wide(tidy: pd.DataFrame, titles: Mapping[str, str]) -> pd.DataFrame:
    import pandas as pd

    rows: dict[str, dict[str, Any]] = {name: {"method": title} for name, title in titles.items()}
    for line in tidy.to_dict("records"):
        rows[line["method"]][METRICS[line["metric"]]] = mean_and_error(line["mean"], line["standard_error"])
    return pd.DataFrame([row for row in rows.values() if len(row) > 1])


def claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return the shares of data sets in which FITC learns less noise, has the larger gap, both, and predicts worse.

    Args:
        frame: one row per method and repetition with noise_std, gap and gibbs_risk_test; nothing without both methods.
    """
    if not {PAC, OVERFITTER} <= set(frame["method"]):
        return []
    metrics = ["noise_std", "gap", "gibbs_risk_test"]
    wide = frame.pivot(index="repetition", columns="method", values=metrics)
    pair = wide[[(metric, name) for metric in metrics for name in (PAC, OVERFITTER)]].dropna()
    if not len(pair):
        return []
    less_noise = pair["noise_std", OVERFITTER] < pair["noise_std", PAC]
    larger_gap = pair["gap", OVERFITTER] > pair["gap", PAC]
    shares = {
        "share_only_fitc_overfits": less_noise & larger_gap,
        "share_fitc_learns_less_noise": less_noise,
        "share_fitc_has_larger_gap": larger_gap,
        "share_fitc_has_larger_test_risk": pair["gibbs_risk_test", OVERFITTER] > pair["gibbs_risk_test", PAC],
    }
    return [
        Statistic(name, float(held.mean()), n=len(pair), note=f"{int(held.sum())} of {len(pair)} data sets")
        for name, held in shares.items()
    ]


EXPERIMENTS.register("pac_bayes/overfit_fitc")(
    Experiment(
        OverfitSettings,
        plan,
        run,
        summarise,
        builders=("pac_sgp", "sparse_gp"),
        agreement=AGREEMENT,
        dataset_tasks=("regression",),
    )
)
