"""pac_bayes/regression: a certified error rate for any regression dataset, a user's CSV included."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Report, Request, Task, only_arrays
from gpsuite.experiments.pac_bayes.shared.certificates import write_certificates
from gpsuite.experiments.pac_bayes.shared.method import RISK_BOUND
from gpsuite.experiments.pac_bayes.shared.plan import AGREEMENT, fit_tasks
from gpsuite.experiments.pac_bayes.shared.run import run_fit
from gpsuite.experiments.pac_bayes.shared.settings import SplitSettings
from gpsuite.experiments.pac_bayes.shared.tables import (
    METRICS,
    OWN_UNITS,
    PENALTY,
    records_frame,
    summarise_fits,
    wide_table,
)
from gpsuite.experiments.settings import Positive
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.panels import panel
from gpsuite.reporting.tables import metric_statistics

if TYPE_CHECKING:
    import pandas as pd

SHOWN = {
    "bound_kl": "certified bound",
    "gibbs_risk_test": "Gibbs test risk",
    "gibbs_risk_train": "Gibbs training risk",
}

PENALTY_ONLY = [name for name in PENALTY if name not in METRICS]


@dataclass
class RegressionSettings(SplitSettings):
    """Settings of regression on any dataset.

    Attributes:
        epsilon: accuracy goal in standard deviations of the target.
        accuracy: the same in the target's own units; replaces epsilon when given.
    """

    epsilon: Positive
    accuracy: Positive | None

    @property
    def goal(self) -> dict[str, float]:
        """The accuracy goal in force, by the name of its unit."""
        return {"epsilon": self.epsilon} if self.accuracy is None else {"accuracy": self.accuracy}


def plan(request: Request) -> list[Task]:
    """Return one task per split and method."""
    settings: RegressionSettings = request.settings
    axis = next(iter(settings.goal))
    return fit_tasks(request, settings, [settings.goal], axis)


def summarise(report: Report) -> list[Statistic]:
    """Write certificates, bounds and errors, and what the bounds pay for, by method; draw bound and risks."""
    request, records = report.request, report.records()
    write_certificates(records, report.folder / "certificates")
    frame = records_frame(records)
    tidy = summarise_fits(frame, ["method"], [*METRICS, *OWN_UNITS, *PENALTY_ONLY])
    titles = report.titles
    counted = frame.groupby("method").size().min()
    caption = (
        f"{_dataset(request)}: share of predictions off by more than {_goal(request)}, mean ± standard error over "
        f"{counted} random splits; bounds hold with probability {1 - request.settings.delta:g}"
    )
    paid = tidy["metric"].isin(list(PENALTY))
    report.table(wide_table(tidy[~paid], ["method"], titles), "regression", caption)
    report.table(tidy, "regression_tidy", caption)
    pays = f"{_dataset(request)}: what the bounds pay for, nats per training point"
    report.table(wide_table(tidy[paid], ["method"], titles), "regression_penalty", pays)
    _draw(report, tidy, f"{_dataset(request)}, accuracy goal {_goal(request)}")
    return metric_statistics(tidy, ["method"])


def _dataset(request: Request) -> str:
    data = request.dataset
    if data is None:
        return ""
    return Path(data.spec["path"]).name if "path" in data.spec else data.name


def _goal(request: Request) -> str:
    settings: RegressionSettings = request.settings
    if settings.accuracy is None:
        return f"{settings.epsilon:g} standard deviations of the target"
    target = request.dataset.spec.get("target") if request.dataset is not None else None
    name = target[0] if isinstance(target, list) and target else "the target"
    return f"{settings.accuracy:g} (units of {name})"


def _draw(report: Report, tidy: pd.DataFrame, heading: str) -> None:
    """Draw bound, test and training risk of every method, with 95 % intervals over splits."""
    shown = tidy[tidy["metric"].isin(list(SHOWN))]
    with report.figure("regression", size=(7, 4.4)) as drawing:
        ax, drawing.data = drawing.ax, shown
        panel(ax, shown, "metric", report.titles, kind="points", error="interval", ticks=SHOWN, apart=0.22)
        ax.set_ylim(0.0, 1.02)
        ax.set_ylabel("probability of an error above the goal")
        ax.set_title(heading)
        drawing.legend("below", len(report.titles), "mean and 95 % interval over splits")


EXPERIMENTS.register("pac_bayes/regression")(
    Experiment(
        RegressionSettings,
        plan,
        run_fit,
        summarise,
        method_traits=(RISK_BOUND,),
        dataset_tasks=("regression",),
        published=only_arrays(
            "lengthscales"
        ),  # all that is drawn; the other arrays are the model, for a certificate
        agreement=AGREEMENT,
    )
)
