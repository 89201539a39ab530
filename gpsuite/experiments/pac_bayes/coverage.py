"""pac_bayes/coverage: how often the bound holds on simulated data (Theorem 1 and Eq. 5 of Reeb et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import roots_legendre

from gpsuite.budget import Budget
from gpsuite.data.generators import FUNCTIONS, kernel_regression
from gpsuite.experiments.base import (
    EXPERIMENTS,
    METHODS,
    Experiment,
    MethodOptions,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    require,
)
from gpsuite.experiments.pac_bayes.coverage_power import (
    power_statistic,
    power_table,
    power_tasks,
    run_power,
    write_power,
)
from gpsuite.experiments.pac_bayes.settings import check_epsilon
from gpsuite.experiments.statistics import clopper_pearson
from gpsuite.methods.pac_bayes.certificates import certify
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior
from gpsuite.methods.pac_bayes.training import train_full_gp
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.figures import figure_style, method_style, save_figure
from gpsuite.reporting.tables import write_table
from gpsuite.seeds import derived_seed

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]

TRUTH, DOMAIN = "sin_2x", (-2.0, 2.0)
NODES = 200  # Gauss-Legendre nodes over the domain; the integrand is smooth
INTERVAL = "95 % Clopper-Pearson interval"
POWER = "what a wrong bound would do is in the table coverage_power"


@dataclass
class CoverageSettings:
    """Settings of the simulation: y = sin(2x) + noise_scale N(0, 1), x uniform on [-2, 2].

    Attributes:
        simulations: number of simulated data sets.
        batch: data sets per task.
        rows: training rows of each data set.
        epsilon: half-width of the 0-1 band, in units of y.
        noise_scale: standard deviation of the noise.
        deltas: allowed probabilities of failure; the first is the one trained with.
        max_evaluations: limit on objective evaluations per training.
        power_simulations: data sets of noise per number of rows, in the settings where a wrong bound fails.
    """

    simulations: int = 2000
    batch: int = 50
    rows: int = 60
    epsilon: float = 0.5
    noise_scale: float = 0.3
    deltas: list[float] = field(default_factory=lambda: [0.01, 0.1, 0.5])
    max_evaluations: int = 1000
    power_simulations: int = 400

    def check(self) -> None:
        """Refuse impossible values."""
        for name in ("simulations", "batch", "max_evaluations", "power_simulations"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
        require(self.rows >= 5, "rows", self.rows, "must be 5 or more")
        check_epsilon("epsilon", self.epsilon)
        check_epsilon("noise_scale", self.noise_scale)
        require(bool(self.deltas), "deltas", self.deltas, "needs at least one value")
        for delta in self.deltas:
            require(0 < delta < 1, "deltas", delta, "must lie between 0 and 1")


def plan(request: Request) -> list[Task]:
    """Return one task per method and batch of simulated data sets, the same for all methods, and those with power."""
    settings: CoverageSettings = request.settings
    version = max(METHODS.get(options.builder).version for options in request.methods.values())
    return [*_tasks(request, settings), *power_tasks(request, settings.power_simulations, version)]


def _tasks(request: Request, settings: CoverageSettings) -> Iterator[Task]:
    for start in range(0, settings.simulations, settings.batch):
        for name, options in request.methods.items():
            count = min(settings.batch, settings.simulations - start)
            yield Task(
                experiment=request.experiment,
                label=f"{options.title}  data sets {start} to {start + count - 1}",
                axes={"method": name, "start": start},
                params=_params(settings, options, derived_seed(request.seed, "coverage", start), count),
                version=METHODS.get(options.builder).version,
                cost=0.05 * count,
                budget_seconds=request.budget_seconds,
            )


def _params(settings: CoverageSettings, options: MethodOptions, seed: int, count: int) -> dict[str, Any]:
    shared = ("rows", "epsilon", "noise_scale", "deltas", "max_evaluations")
    method = {key: value for key, value in asdict(options).items() if key not in ("title", "reference")}
    values = {name: getattr(settings, name) for name in shared}
    return {"kind": "coverage", "method": method, "seed": seed, "count": count, **values}


def run(task: Task, shared: SharedWork) -> Outcome:
    """Train on every data set of the batch; compare its bounds with its true risk."""
    params = task.params
    if params["kind"] == "coverage_power":
        return run_power(params)
    sample = kernel_regression(
        np.random.default_rng(params["seed"]),
        (params["count"], params["rows"]),
        function=TRUTH,
        noise="gaussian",
        noise_scale=params["noise_scale"],
        domain=DOMAIN,
    )
    pairs = [_bounds_and_risk(X, y, params) for X, y in zip(sample.X, sample.y, strict=True)]
    bounds, risks = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
    held = (risks[:, None] <= bounds).sum(axis=0)
    metrics = {f"held_{delta:g}": int(count) for delta, count in zip(params["deltas"], held, strict=True)}
    means = {"mean_bound": float(bounds[:, 0].mean()), "mean_risk": float(risks.mean())}
    return Outcome(
        {"count": params["count"], **metrics, **means},
        arrays={"bounds": bounds, "risks": risks},
        headline=f"{held[0]} of {params['count']} held",
    )


def _bounds_and_risk(X: FloatArray, y: FloatArray, params: Mapping[str, Any]) -> tuple[list[float], float]:
    """Return the bound at every delta, and the true Gibbs risk of the trained posterior."""
    loss, deltas, method = BandLoss(params["epsilon"]), params["deltas"], params["method"]
    fit = train_full_gp(
        X,
        y,
        loss,
        objective=method["objective"],
        delta=deltas[0],
        ard=False,
        start=None,
        budget=Budget(evaluations=params["max_evaluations"]),
        parametrisation=method["parametrisation"],
    )
    posterior = FullGPPosterior.fit(fit.rounded, X, y)
    risk, kl, counted = posterior.gibbs_risk(loss), posterior.kl, fit.rounded.n_kernel
    bounds = [certify(risk, kl, len(y), counted, delta).bound_kl for delta in deltas]
    return bounds, true_gibbs_risk(posterior, params["epsilon"], params["noise_scale"])


def true_gibbs_risk(posterior: FullGPPosterior, epsilon: float, noise_scale: float) -> float:
    """Return P(|y - f(x)| > epsilon) over new x, y and f drawn from the posterior, exact up to quadrature.

    For Gaussian noise y - f is N(truth - mean, variance + noise_scale^2) at every x; x is integrated by
    Gauss-Legendre quadrature over its uniform distribution.
    """
    nodes, weights = roots_legendre(NODES)
    half = 0.5 * (DOMAIN[1] - DOMAIN[0])
    x = DOMAIN[0] + half * (nodes + 1.0)
    mean, variance = posterior.predict(x[:, None])
    loss = BandLoss(epsilon).expected(FUNCTIONS[TRUTH](x), mean, variance + noise_scale**2)
    return float(0.5 * weights @ loss)


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write the table of shares with their intervals and the figure of bounds against true risks."""
    import pandas as pd

    settings: CoverageSettings = request.settings
    power = power_table([record for record in records if "part" in record.axes])
    records = [record for record in records if "part" not in record.axes]
    table = pd.DataFrame([row for name in request.methods for row in _shares(name, records, settings.deltas)])
    titles = {name: options.title for name, options in request.methods.items()}
    labels = {
        "delta": "δ",
        "share": "share of data sets in which the bound holds",
        "held": "held",
        "count": "data sets",
    }
    data = f"y = sin(2x) + N(0, {settings.noise_scale:g}²), {settings.rows} rows"
    caption = (
        f"{data}, ε = {settings.epsilon:g}; {INTERVAL}. Bounds this loose hold even without their KL: {POWER}"
    )
    shown = table.assign(method=table["method"].map(titles))
    write_table(shown, folder / "tables", "coverage", f"{caption}{f' ({note})' if note else ''}", labels)
    points = pd.DataFrame(
        [
            {"method": record.axes["method"], "risk": risk, "bound": bounds[0]}
            for record in records
            for risk, bounds in zip(record.arrays["risks"], record.arrays["bounds"], strict=True)
        ]
    )
    _draw(points, titles, settings, folder / "figures", note)
    write_power(power, folder / "tables", note)
    return [*_statistics(table), power_statistic(power)]


def _shares(name: str, records: Sequence[Record], deltas: Sequence[float]) -> Iterator[dict[str, Any]]:
    mine = [record for record in records if record.axes["method"] == name]
    count = sum(int(record.number("count")) for record in mine)
    for delta in deltas if count else ():
        held = sum(int(record.number(f"held_{delta:g}")) for record in mine)
        low, high = clopper_pearson(held, count)
        share = held / count
        yield {
            **{"method": name, "delta": delta, "promised": 1 - delta, "share": share},
            **{"interval_low": low, "interval_high": high, "held": held, "count": count},
        }


def _statistics(table: pd.DataFrame) -> list[Statistic]:
    found = []
    for row in table.to_dict("records"):
        name = statistic_name("coverage", method=row["method"], delta=row["delta"])
        limits = {
            "interval_low": row["interval_low"],
            "interval_high": row["interval_high"],
            "interval": INTERVAL,
        }
        found.append(Statistic(name, row["share"], n=row["count"], **limits))
    first = table[(table["method"] == "kl_pac_gp") & (table["delta"] == 0.01)]
    for row in first.to_dict("records"):
        note = f"{row['held']} of {row['count']} held"
        found.append(Statistic("coverage_lower_limit", row["interval_low"], n=row["count"], note=note))
    return found


def _draw(
    points: pd.DataFrame,
    titles: Mapping[str, str],
    settings: CoverageSettings,
    folder: Path,
    note: str | None,
) -> None:
    """Draw each data set's bound against its true risk; the bound holds above the diagonal."""
    import matplotlib.pyplot as plt

    with figure_style():
        fig, ax = plt.subplots(figsize=(5.5, 4.8))
        for name, title in titles.items():
            part = points[points["method"] == name]
            colour = method_style(name)["color"]
            # open markers: the methods' clouds lie on each other
            ax.scatter(
                part["risk"],
                part["bound"],
                s=12,
                alpha=0.6,
                label=title,
                edgecolors=colour,
                facecolors="none",
            )
        ax.plot([0, 1], [0, 1], color="0.4", linestyle="--", label="bound = risk")
        ax.set_xlim(0.0, 1.0)
        ax.set_ylim(0.0, 1.02)
        ax.set_xlabel("true Gibbs risk (probability)")
        ax.set_ylabel(f"upper bound, δ = {settings.deltas[0]:g} (probability)")
        ax.legend(loc="lower right")
        save_figure(fig, points, folder, "coverage", note)


EXPERIMENTS.register("pac_bayes/coverage")(
    Experiment(CoverageSettings, plan, run, summarise, builders=("pac_gp",))
)
