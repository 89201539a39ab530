"""robustness/distribution_*: delta over test points, Laplace against EP, by evaluations (Blaas et al. 2020, Fig. 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Report, Request, Task, every_array
from gpsuite.experiments.robustness.classifiers import classifier_params, read_problem
from gpsuite.experiments.robustness.inputs import split_word
from gpsuite.experiments.robustness.probability_change import (
    EP,
    LAPLACE,
    SearchSettings,
    by_classifier,
    delta_claims,
    delta_tasks,
    ratio_of_medians,
    run_delta,
)
from gpsuite.experiments.robustness.records import dataset_statistics, records_frame, timing_table
from gpsuite.experiments.robustness.tasks import AGREEMENT, CLASSIFIER, Radius
from gpsuite.experiments.settings import filled, unique
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import math_label
from gpsuite.reporting.palette import method_style
from gpsuite.reporting.tables import estimate_text, metric_statistics, summarise_groups
from gpsuite.statistics.estimates import mean

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

BY = ["method", "evaluations", "radius"]
METRICS = ["delta", "delta_proved", "deviation", "deviation_proved"]
MODEL = [
    "variance",
    "variance_at_end",
    "shortest_lengthscale",
    "longest_lengthscale",
    "log_marginal_likelihood",
    "test_accuracy",
]
WIDTH = 0.34  # of a box in the plot
FLOOR = 1e-4  # smaller ones lie on the edge
FLOORED = (
    f"boxes: median, quartiles, 1.5 of their distance, and points beyond; lines: median and quartiles. Smaller δ are "
    f"drawn at {FLOOR:g}"
)
SHOWN = ["method", "evaluations", "radius", "draw", "point", "delta", "delta_proved", "deviation"]


@dataclass
class DistributionSettings(SearchSettings):
    """Settings of the distribution of delta.

    Attributes:
        radii: radii of the boxes (L-infinity), in units of the scaled inputs. Sizes are compared with the paper at the
            first radius. Which method is more robust is compared at all.
    """

    radii: Annotated[list[Radius], filled, unique]


def plan(request: Request[DistributionSettings]) -> list[Task[object]]:
    """Return one task per training, draw, number of evaluations, method, radius and point."""
    settings, dataset = request.settings, request.require_dataset()
    options = next(iter(request.methods.values()))
    tasks: list[Task[object]] = list(
        delta_tasks(request, settings, dataset, settings.radii, {})
    )  # first: there may be too many
    for number in range(settings.draws):  # two classes, and rows enough of both, before any work
        read_problem(dataset, classifier_params(request, settings, options, number, 1))
    return tasks


def delta_table(frame: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Return median, quartiles and mean of delta, and the median of Definition 1, per radius, evaluations, method."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for (radius, evaluations, method), part in frame.groupby(["radius", "evaluations", "method"], sort=True):
        known = part[part["delta"].notna()]
        low, middle, high = known["delta"].quantile([0.25, 0.5, 0.75])
        centre = mean(known["delta"])
        rows.append(
            {
                "γ": radius,
                "evaluations": evaluations,
                "method": titles[str(method)],
                "median δ": middle,
                "quartiles": f"{low:.3g} to {high:.3g}",
                "mean δ": estimate_text(centre),
                "median by Definition 1": known["deviation"].median(),
                "largest gap": (known["delta_proved"] - known["delta"]).max(),
                "boxes": known["boxes"].mean(),
                "safe": (known["verdict"] == "safe").mean(),
                "points": len(known),
            }
        )
    return pd.DataFrame(rows)


def ratio_table(frame: pd.DataFrame, test_over_training: float) -> pd.DataFrame:
    """Return the ratio Laplace / EP of median delta per radius and evaluations, with its interval over draws."""
    import pandas as pd

    rows = []
    for radius, part in frame.groupby("radius", sort=True):
        deltas = by_classifier(part)
        for evaluations in deltas.levels("evaluations"):
            ratio = ratio_of_medians(deltas, evaluations, test_over_training)
            rows.append(
                {
                    "γ": radius,
                    "evaluations": evaluations,
                    "ratio": ratio.value,
                    "95 % from": ratio.low,
                    "to": ratio.high,
                    "draws": ratio.n,
                    "pairs": len(deltas.pair("delta", (LAPLACE, evaluations), (EP, evaluations))[0]),
                }
            )
    return pd.DataFrame(rows)


def model_table(frame: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Return hyperparameters, evidence and accuracy of every trained classifier."""
    by = ["evaluations", "draw", "method"]
    return _readable(frame.groupby(by, sort=True)[MODEL].first().reset_index(), titles)


def training_table(frame: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Return median delta and the classifier per change of start or box, evaluations and method."""
    by = ["training", "evaluations", "method"]
    groups = frame.groupby(by, sort=False)
    table = groups[MODEL].first().join(groups["delta"].median().rename("median δ")).reset_index()
    return _readable(table, titles)


def _readable(table: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    ends = {True: "yes", False: "no"}
    return table.assign(method=table["method"].map(titles), variance_at_end=table["variance_at_end"].map(ends))


def draw(report: Report[DistributionSettings], frame: pd.DataFrame, heading: str, name: str) -> None:
    """Draw delta at the first radius as the paper does, and per number of evaluations its median against the radius.

    Args:
        report: gives titles and radii.
        frame: one row per record.
        heading: above the panels.
        name: of the files.
    """
    radii, numbers = report.settings.radii, sorted(frame["evaluations"].unique())
    curves = numbers if len(radii) > 1 else []
    columns = min(2, 1 + len(curves))
    rows = -(-(1 + len(curves)) // columns)
    size = (5.2 * columns, 0.8 + 3.7 * rows)
    with report.figure(name, remark=FLOORED, rows=rows, columns=columns, size=size) as drawing:
        boxes, *others = drawing.axes
        drawing.name_axes("", math_label(r"$\delta = \pi_{\max} - \pi_{\min}$ (probability)"))
        _draw_panel(boxes, frame[frame["radius"] == radii[0]], report.titles)
        boxes.set_title(f"γ = {radii[0]:g}{' (stated rule)' if curves else ''}")
        boxes.set_xlabel("evaluations of the marginal likelihood (epochs)")
        for ax, number in zip(others, curves, strict=False):
            if ax is not others[0]:
                ax.sharey(others[0])
            _draw_curves(ax, frame[frame["evaluations"] == number], report.titles)
            ax.set_title(f"{number:g} evaluations")
            ax.set_xlabel("radius γ")
        drawing.legend(columns=len(report.titles), title=heading)
        drawing.data = frame[SHOWN]


def _draw_curves(ax: Axes, part: pd.DataFrame, titles: Mapping[str, str]) -> None:
    """Draw median and quartiles of delta against the radius."""
    ax.set_yscale("log")
    for method in titles:
        own = part.loc[part["method"] == method].groupby("radius")["delta"]
        low, middle, high = (own.quantile(share).clip(lower=FLOOR) for share in (0.25, 0.5, 0.75))
        style = method_style(method)
        ax.fill_between(middle.index, low, high, color=style["color"], alpha=0.2, lw=0)
        ax.plot(middle.index, middle, color=style["color"], marker=style["marker"])


def _draw_panel(ax: Axes, part: pd.DataFrame, titles: Mapping[str, str]) -> None:
    numbers = sorted(part["evaluations"].unique())
    for place, method in enumerate(titles):
        own = part[part["method"] == method]
        values = [own.loc[own["evaluations"] == number, "delta"].dropna().clip(lower=FLOOR) for number in numbers]
        offset = (place - (len(titles) - 1) / 2) * 1.15 * WIDTH
        style = method_style(method)
        ax.boxplot(
            values,
            positions=[number + offset for number in range(len(numbers))],
            widths=WIDTH,
            patch_artist=True,
            boxprops={"facecolor": style["color"], "alpha": 0.55},
            medianprops={"color": "black", "linewidth": 1.6},
            flierprops={"marker": style["marker"], "markersize": 3, "markerfacecolor": style["color"]},
            manage_ticks=False,
            label=titles[method],
        )
    ax.set_xticks(range(len(numbers)), [f"{number:g}" for number in numbers])
    ax.autoscale_view()
    ax.set_yscale("log")


def summarise(report: Report[DistributionSettings]) -> list[Statistic]:
    """Write tables of delta, ratios and trainings and the box plots. Return means and the paper's claims."""
    request, records, settings = report.request, report.records(), report.settings
    name = request.experiment.split("/")[1]
    titles = report.titles
    everything = records_frame(records)
    frame = everything[everything["training"] == settings.trainings[0]]
    # its rows are points of shared classifiers
    tidy = summarise_groups(frame, BY, METRICS, lambda values: mean(values).without_interval())
    heading = _heading(request, frame)
    caption = _caption(heading, settings)
    report.table(delta_table(frame, titles), name, caption)
    report.table(tidy, f"{name}_tidy", caption)
    if {"laplace", "ep"} <= set(request.methods):
        report.table(
            ratio_table(frame, shared_rows(settings)), f"{name}_ratio", f"Median δ of Laplace over EP; {caption}"
        )
    report.table(model_table(frame, titles), f"{name}_models", f"Trained classifiers; {caption}")
    first = everything[(everything["draw"] == 0) & (everything["radius"] == settings.radii[0])]
    if len(settings.trainings) > 1:
        owed = f"Start and search box changed, first draw, γ = {settings.radii[0]:g}; {caption}"
        report.table(training_table(first, titles), f"{name}_trainings", owed)
    timing = timing_table(records, ["training", *BY], titles)
    report.table(timing, f"{name}_timing", "CPU seconds per point. The first of a model trains it")
    draw(report, frame, heading, name)
    by_radius = [frame[frame["radius"] == radius] for radius in settings.radii]
    data = dataset_statistics(request.require_dataset())
    return [*data, *metric_statistics(tidy, BY), *delta_claims(by_radius, shared_rows(settings))]


def _heading(request: Request[DistributionSettings], frame: pd.DataFrame) -> str:
    """Return in words what moved: in images without key points the gradient chooses in place of SIFT."""
    settings = request.settings
    draws = "1 draw" if settings.draws == 1 else f"{settings.draws} draws"
    rule, count = split_word(settings.features)
    used = sorted(set(frame["chosen_by"].dropna()))
    moved = "all inputs" if rule == "all" else f"{count} inputs by {' and '.join(used)}"
    return f"{request.require_dataset().name}, {moved} perturbed, {settings.points} test points of {draws}"


def _caption(heading: str, settings: DistributionSettings) -> str:
    return (
        f"{heading}, {settings.train_rows} training rows at most; δ = π_max − π_min over the box of half-width γ, "
        f"attained values, proved within {settings.tolerance:g} at each end. Definition 1 is "
        f"max |π(x) − π(x*)|"
    )


def shared_rows(settings: DistributionSettings) -> float:
    """Return test rows over training rows of a draw, which decides how alike draws of the same rows are."""
    return settings.test_rows / settings.train_rows


for _name in ("distribution_synthetic2d", "distribution_spam", "distribution_mnist38"):
    EXPERIMENTS.register(f"robustness/{_name}")(
        Experiment(
            DistributionSettings,
            plan,
            run_delta,
            summarise,
            method_traits=(CLASSIFIER,),
            dataset_tasks=("classification",),
            parts=("points", "draws", "radii", "trainings"),
            agreement=AGREEMENT,
            published=every_array,
        )
    )
