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
from gpsuite.reporting.figures import figure_style, method_style, save_figure
from gpsuite.reporting.tables import metric_statistics, write_table

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
    request, records, folder, note = report.request, report.records(), report.folder, report.note
    write_certificates(records, folder / "certificates")
    frame = records_frame(records)
    tidy = summarise_fits(frame, ["method"], [*METRICS, *OWN_UNITS, *PENALTY_ONLY])
    titles = {name: options.title for name, options in request.methods.items()}
    counted = frame.groupby("method").size().min()
    caption = (
        f"{_dataset(request)}: share of predictions off by more than {_goal(request)}, mean ± standard error over "
        f"{counted} random splits; bounds hold with probability {1 - request.settings.delta:g}"
        f"{f' ({note})' if note else ''}"
    )
    tables = folder / "tables"
    paid = tidy["metric"].isin(list(PENALTY))
    write_table(wide_table(tidy[~paid], ["method"], titles), tables, "regression", caption)
    write_table(tidy, tables, "regression_tidy", caption)
    pays = f"{_dataset(request)}: what the bounds pay for, nats per training point"
    write_table(wide_table(tidy[paid], ["method"], titles), tables, "regression_penalty", pays)
    _draw(tidy, titles, f"{_dataset(request)}, accuracy goal {_goal(request)}", folder / "figures", note)
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


def _draw(tidy: pd.DataFrame, titles: dict[str, str], heading: str, folder: Path, note: str | None) -> None:
    """Draw bound, test and training risk of every method, with 95 % intervals over splits."""
    import matplotlib.pyplot as plt

    shown = tidy[tidy["metric"].isin(list(SHOWN))]
    with figure_style():
        fig, ax = plt.subplots(figsize=(7, 4.4))
        for number, (name, title) in enumerate(titles.items()):
            rows = shown[shown["method"] == name].set_index("metric").reindex(list(SHOWN))
            places = [k + (number - (len(titles) - 1) / 2) * 0.22 for k in range(len(SHOWN))]
            reach = (rows["interval_high"] - rows["mean"]).fillna(0.0)
            style = method_style(name)
            ax.errorbar(
                places,
                rows["mean"],
                yerr=reach,
                fmt=style["marker"],
                color=style["color"],
                label=title,
                capsize=3,
            )
        ax.set_xticks(range(len(SHOWN)), list(SHOWN.values()))
        ax.set_ylim(0.0, 1.02)
        ax.set_ylabel("probability of an error above the goal")
        ax.set_title(heading)
        fig.legend(loc="outside lower center", ncols=len(titles), title="mean and 95 % interval over splits")
        save_figure(fig, shown, folder, "regression", note)


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
