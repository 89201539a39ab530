"""pac_bayes/regression: a certified error rate for any regression dataset, a user's CSV included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpsuite.data.splits import train_test_indices
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Report, Request, Task, only_arrays
from gpsuite.experiments.pac_bayes.certificates import write_certificates
from gpsuite.experiments.pac_bayes.fits import AGREEMENT, fit_tasks, run_fit, shown_over
from gpsuite.experiments.pac_bayes.methods import RISK_BOUND
from gpsuite.experiments.pac_bayes.tables import METRICS, OWN_UNITS, PENALTY, records_frame, summarise_fits, wide_table
from gpsuite.experiments.pac_bayes.tasks import FitTask, Goal, SplitSettings
from gpsuite.experiments.sentences import errors_bounded, percent_up
from gpsuite.experiments.settings import Positive
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.palette import panel
from gpsuite.reporting.tables import metric_statistics
from gpsuite.rounding import rounded

if TYPE_CHECKING:
    import pandas as pd

SHOWN = {"bound_kl": "certified bound", "gibbs_risk_test": "Gibbs test risk", "gibbs_risk_train": "Gibbs training risk"}

A_CONSTANT = 1.0  # nats: a posterior so near its prior predicts next to nothing
MORE_STARTS = 10

PENALTY_ONLY = [name for name in PENALTY if name not in METRICS]


@dataclass
class RegressionSettings(SplitSettings):
    """Settings of regression on any dataset.

    Attributes:
        epsilon: accuracy goal in standard deviations of the target.
        accuracy: accuracy goal in the target's units. Replaces epsilon when given.
    """

    epsilon: Positive
    accuracy: Positive | None

    @property
    def goal(self) -> Goal:
        """The accuracy goal in force."""
        return Goal(epsilon=self.epsilon) if self.accuracy is None else Goal(accuracy=self.accuracy)


def plan(request: Request[RegressionSettings]) -> list[Task[FitTask]]:
    """Return one task per split and method."""
    return fit_tasks(request, [request.settings.goal])


def summarise(report: Report[RegressionSettings]) -> list[Statistic]:
    """Write certificates, bounds and errors, and what the bounds account for, by method. Draw bound and risks."""
    request, titles, records = report.request, report.titles, report.records()
    write_certificates(records, report.folder / "certificates")
    frame = records_frame(records)
    tidy = summarise_fits(frame, ["method"], [*METRICS, *OWN_UNITS, *PENALTY_ONLY])
    shown = shown_over(frame.groupby("method").size())
    caption = (
        f"{request.require_dataset().shown_name}: share of predictions off by more than {_goal(request)}, {shown}. "
        f"Bounds hold with probability {1 - report.settings.delta:g}"
    )
    if any(record.number("n_train") < _training_rows(request) for record in records):
        caption += (
            ". Bounds and risks are the larger ones of all rows and of the different ones. A test row that "
            "training has seen counts as an error"
        )
    report.answer.extend(_sentences(report))
    paid = tidy["metric"].isin(PENALTY)
    report.table(wide_table(tidy[~paid], ["method"], titles), "regression", caption)
    report.table(tidy, "regression_tidy", caption)
    pays = f"{request.require_dataset().shown_name}: parts of the bounds' penalty, nats per training point"
    report.table(wide_table(tidy[paid], ["method"], titles), "regression_penalty", pays)
    _draw(report, tidy, f"{request.require_dataset().shown_name}, accuracy goal {_goal(request)}")
    return metric_statistics(tidy, ["method"])


def _sentences(report: Report[RegressionSettings]) -> Iterator[str]:
    """Yield what the bounds of the first split say, each of one model, and the range of the others' bounds."""
    delta, error = report.settings.delta, _goal(report.request)
    for method, title in report.titles.items():
        records = report.records(method=method)
        if not records:
            continue
        first, bounds = records[0], [record.number("bound_kl") for record in records]
        model = f"{title} trained on the {_training_rows(report.request)} rows of split {first.axes['split']}"
        yield errors_bounded(delta, bounds[0], error, f"a random draw of {model}")
        yield errors_bounded(delta, first.number("bound_bayes"), error, f"the posterior mean of {model}")
        if len(bounds) > 1:
            low, high = percent_up(min(bounds)), percent_up(max(bounds))
            yield f"  (Models of {len(bounds)} splits have bounds from {low} to {high}, each its own.)"
        constant = sum(record.number("kl_over_n") * record.number("n_train") < A_CONSTANT for record in records)
        if constant and getattr(report.request.methods[method], "starts", 0) == 1:
            where = "other lengthscales, and keeps the best"
            advice = f"method={method} method.starts={MORE_STARTS} begins at {where}"
            yield f"  (In {constant} of {len(records)} splits the training ended at a constant; {advice}.)"


def _training_rows(request: Request[RegressionSettings]) -> int:
    """Return how many rows a split trains on, copies of others included."""
    train, _ = train_test_indices(request.require_dataset().rows, request.settings.test_share, 0)
    return len(train)


def _goal(request: Request[RegressionSettings]) -> str:
    settings = request.settings
    if settings.accuracy is None:
        return f"{rounded(settings.epsilon, 6, 1)} standard deviations of the target"
    target = request.require_dataset().spec.get("target")
    name = target[0] if isinstance(target, list) and target else "the target"
    return f"{rounded(settings.accuracy, 6, 1)} (units of {name})"


def _draw(report: Report[RegressionSettings], tidy: pd.DataFrame, heading: str) -> None:
    """Draw bound, test and training risk of every method, with 95 % intervals over splits."""
    shown = tidy[tidy["metric"].isin(SHOWN)]
    with report.figure("regression", size=(7, 4.4)) as drawing:
        panel(drawing.ax, shown, "metric", report.titles, kind="points", error="interval", ticks=SHOWN, apart=0.22)
        drawing.ax.set_ylim(bottom=0.0)
        drawing.ax.set_ylabel("probability of an error above the goal")
        drawing.ax.set_title(heading)
        drawing.legend("below", columns=len(report.titles), title="mean and 95 % interval over splits")
        drawing.data = shown


EXPERIMENTS.register("pac_bayes/regression")(
    Experiment(
        RegressionSettings,
        plan,
        run_fit,
        summarise,
        method_traits=(RISK_BOUND,),
        model_keys=("ard",),
        dataset_tasks=("regression",),
        published=only_arrays("lengthscales"),  # all that is drawn. The other arrays are the model, for a certificate
        agreement=AGREEMENT,
    )
)
