"""pac_bayes/loss_exp: the exponential loss in place of the 0-1 band loss (Reeb et al. 2018, Table 3 and Fig. 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.data.catalogue import dataset_names
from gpsuite.experiments.base import EXPERIMENTS, Experiment, MethodOptions, Report, Request, Task, only_arrays
from gpsuite.experiments.pac_bayes.fits import AGREEMENT, paired_shown, run_fit, sparse_fit, split_mean, split_tasks
from gpsuite.experiments.pac_bayes.inducing import COST
from gpsuite.experiments.pac_bayes.large_sets import BASELINES, KL, NEEDED, claims_over_sets, over_sets
from gpsuite.experiments.pac_bayes.methods import BOUND, RISK_BOUND, SPARSE
from gpsuite.experiments.pac_bayes.tables import records_frame, summarise_splits, timing_table, wide_table
from gpsuite.experiments.pac_bayes.tasks import FitTask, SplitSettings
from gpsuite.experiments.settings import Count, Positive, filled, one_of, unique
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.plugins import shipped_conf_dir
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import LIMIT, method_style, panel, paper_marks
from gpsuite.reporting.tables import mean_and_error, metric_statistics
from gpsuite.statistics.paired import Paired

if TYPE_CHECKING:
    import pandas as pd


def shipped_datasets() -> list[str]:
    """Return the names of all shipped datasets."""
    return list(dataset_names(shipped_conf_dir()))


@dataclass
class ExponentialSettings(SplitSettings):
    """Settings of the comparison of losses.

    Attributes:
        epsilon: width of both losses, in standard deviations of the target.
        inducing: numbers M of inducing inputs. The paper's claims are decided at the largest.
        single_lengthscale: datasets whose inputs share a lengthscale although `model` has one per input.
    """

    epsilon: Positive
    inducing: Annotated[list[Count], filled, unique]
    single_lengthscale: list[Annotated[str, one_of(shipped_datasets)]]


def plan(request: Request[ExponentialSettings]) -> list[Task[FitTask]]:
    """Return one task per dataset, M, split, method and loss to train on. Likelihoods have no loss to choose."""
    settings = request.settings
    tasks = []
    for name, data in request.datasets.items():
        ard = request.model.ard and name not in settings.single_lengthscale
        for inducing in settings.inducing:
            fits = []
            for method, options in request.methods.items():
                for trained_on in _trainings(options):
                    loss = EXP if trained_on == EXP else BAND
                    fit = sparse_fit(method, options, inducing, data, ard, settings.epsilon, loss)
                    fits.append(replace(fit, axes={"dataset": name, "trained_on": trained_on, **fit.axes}))
            tasks += split_tasks(request, fits)
    return tasks


def _trainings(options: MethodOptions) -> tuple[str, ...]:
    return (BAND, EXP) if BOUND in options.method.traits else (LIKELIHOOD,)


# What Reeb et al. (2018) say about the exponential loss (Table 3), as statistics that decide it.


BAND, EXP, LIKELIHOOD = "band01", "exp", "likelihood"  # what a model was trained on


def mse_changes(frame: pd.DataFrame) -> dict[tuple[str, int], Statistic]:
    """Return (dataset, M) -> change of kl-PAC-SGP's test MSE in percent, (exponential - band)/band.

    The mean over the splits of each split's change, with its paired interval.

    Args:
        frame: one row per dataset, M, method, loss trained on, and split.
    """
    found = {}
    of_kl = frame[frame["method"] == KL]
    for dataset, inducing in sorted(set(zip(of_kl["dataset"], of_kl["inducing"], strict=True))):
        part = of_kl[(of_kl["dataset"] == dataset) & (of_kl["inducing"] == inducing)]
        if {BAND, EXP} <= set(part["trained_on"]):
            band, exp = Paired(part, ["split"], ["trained_on"]).pair("mse_test", BAND, EXP)
            name = statistic_name("mse_change_percent", dataset=dataset, inducing=inducing)
            change = split_mean(100.0 * (exp - band) / band)
            found[dataset, int(inducing)] = Statistic.of(name, change, unit="percent")
    return found


def exponential_claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return a statistic per claim, at the largest M of the frame, as far as methods and datasets decide it.

    Shares over other datasets than the paper's three name theirs, so that they are no answer to the paper's.

    Args:
        frame: one row per dataset, M, method, loss trained on, and split.
    """
    largest = int(frame["inducing"].max())
    last = frame[frame["inducing"] == largest]
    return [*_changes(last, largest), *_guarantees(last)]


def _changes(last: pd.DataFrame, largest: int) -> Iterator[Statistic]:
    """Yield the change on every dataset.

    The printed changes are of one M, which the text lost: those of pol and kin40k are reported only together.
    """
    found = {dataset: change for (dataset, _), change in mse_changes(last).items()}
    for dataset, change in found.items():
        if dataset not in NEEDED or found.keys() >= NEEDED:
            yield replace(change, name=statistic_name("mse_change_percent", dataset=dataset), note=f"M={largest}")


def _guarantees(last: pd.DataFrame) -> Iterator[Statistic]:
    """Yield the share of (dataset, baseline) whose bound under the exponential loss PAC-SGP undercuts."""
    names, cells, factors = [], [], []
    for dataset, part in last[last["trained_on"] != BAND].groupby("dataset", sort=True):
        if not {KL, *BASELINES} <= set(part["method"]):
            continue
        names.append(str(dataset))
        paired = Paired(part, ["split"])
        for baseline in BASELINES:
            ours, theirs = paired.pair("bound_kl_exp", KL, baseline)
            cells.append(paired_shown(ours, theirs))
            if len(ours):
                factors.append(f"{dataset} {baseline} {theirs.mean() / ours.mean():.2f}")
    if cells:
        note = f"bound of the baseline over ours: {', '.join(factors)}"
        yield claim(over_sets("share_bound_lowest", names), cells, note)


# Fig. 5 of Reeb et al. 2018, and the changes of MSE and bound under the exponential loss.


TRAINED_ON = {BAND: "0-1 band loss", EXP: "exponential loss", LIKELIHOOD: "its own likelihood"}
FILLED = {BAND: "none", EXP: "full", LIKELIHOOD: "full"}  # markers tell the two trainings of one method apart


# loss in LOSSES -> title and line of Fig. 5
SHAPES = {
    "band01": ("0-1 band", "--"),
    "exp": ("exponential, 1 − exp(−r²/ε²)", "-"),
    "capped_square": ("capped square, min(r²/ε², 1)", "-."),
    "capped_abs": ("capped absolute, min(|r|/ε, 1)", ":"),
}


def draw(report: Report[ExponentialSettings], tidy: pd.DataFrame, changes: Mapping[tuple[str, int], Statistic]) -> None:
    """Draw the change of the MSE, and every bound under the exponential loss, by dataset and M."""
    import pandas as pd

    groups = sorted(set(zip(tidy["dataset"], tidy["inducing"], strict=True)))
    ticks = {f"{dataset} {inducing}": f"{dataset}\nM={inducing}" for dataset, inducing in groups}
    bounds = tidy[tidy["metric"] == "bound_kl_exp"]
    changed = _change_rows(changes, tidy)
    trained = set(zip(bounds["method"], bounds["trained_on"], strict=True))
    pairs = [(name, loss) for name in report.titles for loss in TRAINED_ON if (name, loss) in trained]
    lines = {f"{name} {loss}": (name, loss) for name, loss in pairs}
    titles = {line: f"{report.titles[name]}, trained on {TRAINED_ON[loss]}" for line, (name, loss) in lines.items()}
    styles = {line: {**method_style(name), "fillstyle": FILLED[loss]} for line, (name, loss) in lines.items()}
    with report.figure("loss_exp", columns=2, size=(min(max(9.0, 1.6 * len(groups) + 5.0), 13.0), 4.6)) as drawing:
        left, right = drawing.axes
        left.axhline(0.0, color=LIMIT, linewidth=1.0)
        panel(left, _cells(changed), "cell", {KL: "_"}, kind="points", error="interval", ticks=ticks)
        marks = _printed(report.printed, groups)
        paper_marks(left, [(KL, float(place), value) for place, _, value in marks])
        left.set_ylabel("change of the test MSE (%)")
        left.set_title("kl-PAC-SGP: exponential against 0-1 band loss\n(mean and 95 % t interval of paired splits)")
        panel(
            right,
            _cells(bounds),
            "cell",
            titles,
            by="line",
            kind="points",
            ticks=ticks,
            apart=0.6 / max(len(lines), 1),
            styles=styles,
        )
        right.set_ylabel(math_label("upper bound $B_{kl}$ (probability)"))
        right.set_title("bound under the exponential loss")
        epsilon = f"ε = {report.settings.epsilon:g}"
        drawing.legend("above", columns=2, title=f"{epsilon}; right: mean ± standard error over splits")
        drawing.data = pd.concat([changed, bounds]) if len(changed) else bounds
        rows = [{"dataset": name, "metric": "mse_change_percent", "printed": value} for _, name, value in marks]
        drawing.data = pd.concat([drawing.data, pd.DataFrame(rows)]) if rows else drawing.data


def _printed(printed: Mapping[str, float], groups: Sequence[tuple[str, int]]) -> list[tuple[int, str, float]]:
    """Return place, dataset and value of the printed changes, at each M of the dataset: theirs is lost in the text."""
    names = [
        (place, name, f"mse_change_percent[dataset={name.removesuffix('_test')}]")
        for place, (name, _) in enumerate(groups)
    ]
    return [(place, name, printed[key]) for place, name, key in names if key in printed]


def _cells(tidy: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the tick (dataset and M) and the line (method and training) that each belongs to."""
    cells = [f"{dataset} {inducing}" for dataset, inducing in zip(tidy["dataset"], tidy["inducing"], strict=True)]
    lines = [f"{name} {loss}" for name, loss in zip(tidy["method"], tidy["trained_on"], strict=True)]
    return tidy.assign(cell=cells, line=lines)


def _change_rows(changes: Mapping[tuple[str, int], Statistic], tidy: pd.DataFrame) -> pd.DataFrame:
    """Return the changes as rows of a frame like the tidy one."""
    import pandas as pd

    rows = [
        {
            "dataset": dataset,
            "inducing": inducing,
            "method": KL,
            "trained_on": f"{EXP} against {BAND}",
            "metric": "mse_change_percent",
            "mean": change.value,
            "standard_error": change.standard_error,
            "n": change.n,
            "interval_low": change.interval_low,
            "interval_high": change.interval_high,
            "interval": change.interval,
        }
        for (dataset, inducing), change in changes.items()
    ]
    return pd.DataFrame(rows, columns=tidy.columns)


def draw_shapes(report: Report[ExponentialSettings]) -> None:
    """Draw the losses against the residual (Fig. 5): near 0 the exponential one follows the square."""
    import pandas as pd

    epsilon = report.settings.epsilon
    residuals = np.linspace(-3.0 * epsilon, 3.0 * epsilon, 601)
    columns = {name: LOSSES.get(name)(epsilon).pointwise(np.zeros(601), residuals) for name in SHAPES}
    with report.figure("loss_shapes", size=(6.4, 4.4)) as drawing:
        for name, (title, line) in SHAPES.items():
            drawing.ax.plot(residuals / epsilon, columns[name], line, label=title)
        drawing.ax.set_ylim(-0.03, 1.05)
        drawing.name_axes("residual r = prediction − target, in ε", "loss")
        drawing.legend("above", columns=2, title=f"losses of width ε = {epsilon:g}")
        drawing.data = pd.DataFrame({"residual": residuals, **columns})


BY = ["dataset", "inducing", "method", "trained_on"]
METRICS = (
    "mse_test",
    "bound_kl",
    "gibbs_risk_train",
    "gibbs_risk_test",
    "bound_kl_exp",
    "gibbs_risk_test_exp",
    "kl_over_n",
    "noise_variance",
)
CHANGE = "test MSE of kl-PAC-SGP, exponential against 0-1 band loss: mean over n splits of the change on each"


def summarise(report: Report[ExponentialSettings]) -> list[Statistic]:
    """Write the tables, draw changes, bounds and the losses. Return means, changes and the paper's claims."""
    records, titles, settings = report.records(), report.titles, report.settings
    frame = records_frame(records)
    tidy, changes = summarise_splits(frame, BY, METRICS), mse_changes(frame)
    caption = (
        f"ε = {settings.epsilon:g}, mean ± standard error over at least {frame.groupby(BY).size().min()} random "
        "splits. Bound and Gibbs risks under the loss trained on (the 0-1 band for VFE and FITC), then under the "
        f"exponential loss. Each bound holds with probability {1 - settings.delta:g}"
    )
    wide, timing = wide_table(tidy, BY, titles), timing_table(records, BY, titles)
    for table in (wide, timing):
        table["trained_on"] = table["trained_on"].map(TRAINED_ON)
    heads = {"trained_on": "trained on", "inducing": "M"}
    report.table(wide, "loss_exp", caption, heads)
    report.table(tidy, "loss_exp_tidy", caption)
    report.table(timing, "loss_exp_timing", COST, heads)
    if changes:
        report.table(_change_table(tidy, changes), "loss_exp_mse", CHANGE)
    if len(tidy.groupby(["dataset", "inducing"])) > 1:  # one group is a line of the table
        draw(report, tidy, changes)
    draw_shapes(report)
    of_fig_3 = claims_over_sets(frame[frame["trained_on"] != EXP])
    return [*metric_statistics(tidy, BY), *changes.values(), *exponential_claims(frame), *of_fig_3]


def _change_table(tidy: pd.DataFrame, changes: Mapping[tuple[str, int], Statistic]) -> pd.DataFrame:
    import pandas as pd

    mse = tidy[(tidy["method"] == KL) & (tidy["metric"] == "mse_test")]
    names = zip(mse["dataset"], mse["inducing"], mse["trained_on"], strict=True)
    texts = [mean_and_error(*pair) for pair in zip(mse["mean"], mse["standard_error"], strict=True)]
    cells = dict(zip(names, texts, strict=True))
    rows = []
    for (dataset, inducing), change in changes.items():
        rows.append(
            {
                "dataset": dataset,
                "M": inducing,
                "MSE, 0-1 band loss": cells[dataset, inducing, BAND],
                "MSE, exponential loss": cells[dataset, inducing, EXP],
                "change (%)": change.value,
                "from (%)": change.interval_low,
                "to (%)": change.interval_high,
                "interval": change.interval,
                "n": change.n,
            }
        )
    return pd.DataFrame(rows)


EXPERIMENTS.register("pac_bayes/loss_exp")(
    Experiment(
        ExponentialSettings,
        plan,
        run_fit,
        summarise,
        method_traits=(RISK_BOUND, SPARSE),
        model_keys=("ard",),
        dataset_tasks=("regression",),
        several_datasets=True,
        parts=("repetitions", "inducing", "methods"),
        published=only_arrays("lengthscales"),  # all that is drawn. The other arrays are the model, for a certificate
        agreement=AGREEMENT,
    )
)
