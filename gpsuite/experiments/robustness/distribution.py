"""robustness/distribution_*: delta over test points, Laplace against EP, by evaluations (Blaas et al. 2020, Fig. 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Request, Task
from gpsuite.experiments.robustness.classifiers import read_problem
from gpsuite.experiments.robustness.delta_claims import Deltas, delta_claims, ratio_statistic
from gpsuite.experiments.robustness.deltas import DeltaSettings, check_radii, delta_tasks, run_delta
from gpsuite.experiments.robustness.distribution_figure import draw
from gpsuite.experiments.robustness.frames import dataset_statistics, records_frame, timing_table
from gpsuite.experiments.robustness.free_inputs import split_word
from gpsuite.experiments.robustness.settings import AGREEMENT, model_params, request_dataset
from gpsuite.experiments.statistics import metric_statistics, without_intervals
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import mean_and_error, summarise_groups, write_table

if TYPE_CHECKING:
    import pandas as pd

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


@dataclass
class DistributionSettings(DeltaSettings):
    """Settings of the distribution of delta.

    Attributes:
        radii: of the boxes (L-infinity), in units of the scaled inputs; the first is held against the paper.
    """

    radii: list[float] = field(default_factory=lambda: [0.5])

    def check(self) -> None:
        """Refuse impossible values."""
        super().check()
        check_radii(self.radii)


def plan(request: Request) -> list[Task]:
    """Return one task per training, draw, number of evaluations, method, radius and point."""
    settings: DistributionSettings = request.settings
    dataset = request_dataset(request)
    options = next(iter(request.methods.values()))
    tasks = list(delta_tasks(request, settings, dataset, settings.radii, {}))  # first: there may be too many
    for number in range(settings.draws):  # two classes, and rows enough of both, before any work
        read_problem(dataset, model_params(request, settings, options, number, 1))
    return tasks


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write tables of delta, ratios and trainings and the box plots; return means and the paper's claims."""
    settings: DistributionSettings = request.settings
    name, tables = request.experiment.split("/")[1], folder / "tables"
    titles = {method: options.title for method, options in request.methods.items()}
    everything = records_frame(records)
    frame = everything[everything["training"] == settings.trainings[0]]
    tidy = without_intervals(
        summarise_groups(frame, BY, METRICS)
    )  # its rows are points of shared classifiers
    heading = _heading(request, frame)
    caption = _caption(heading, settings, note)
    write_table(delta_table(frame, titles), tables, name, caption)
    write_table(tidy, tables, f"{name}_tidy", caption)
    if {"laplace", "ep"} <= set(request.methods):
        write_table(
            ratio_table(frame, shared_rows(settings)),
            tables,
            f"{name}_ratio",
            f"Median δ of Laplace over EP; {caption}",
        )
    write_table(model_table(frame, titles), tables, f"{name}_models", f"Trained classifiers; {caption}")
    first = everything[(everything["draw"] == 0) & (everything["radius"] == settings.radii[0])]
    if len(settings.trainings) > 1:
        owed = f"Start and search box changed, first draw, γ = {settings.radii[0]:g}; {caption}"
        write_table(training_table(first, titles), tables, f"{name}_trainings", owed)
    timing = timing_table(records, ["training", *BY], titles)
    write_table(timing, tables, f"{name}_timing", "CPU seconds per point; the first of a model trains it")
    draw(frame, titles, settings.radii, heading, folder / "figures", name, note)
    main = frame[frame["radius"] == settings.radii[0]]
    data = dataset_statistics(request_dataset(request))
    return [*data, *metric_statistics(tidy, BY), *delta_claims(main, shared_rows(settings))]


def _heading(request: Request, frame: pd.DataFrame) -> str:
    """Say what moved: SIFT falls back to the gradient without OpenCV, and in images without key points."""
    settings: DistributionSettings = request.settings
    draws = "1 draw" if settings.draws == 1 else f"{settings.draws} draws"
    rule, count = split_word(settings.features)
    used = sorted(set(frame["chosen_by"].dropna()))
    moved = "all inputs" if rule == "all" else f"{count} inputs by {' and '.join(used)}"
    return f"{request_dataset(request).name}, {moved} perturbed, {settings.points} test points of {draws}"


def _caption(heading: str, settings: DistributionSettings, note: str | None) -> str:
    return (
        f"{heading}, {settings.train_rows} training rows at most; δ = π_max − π_min over the box of half-width γ, "
        f"attained values, proved within {settings.tolerance:g} at each end; Definition 1 is "
        f"max |π(x) − π(x*)|{f' ({note})' if note else ''}"
    )


def delta_table(frame: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Return median, quartiles and mean of delta, and the median of Definition 1, per radius, evaluations, method."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for (radius, evaluations, method), part in frame.groupby(["radius", "evaluations", "method"], sort=True):
        known = part[part["delta"].notna()]
        low, middle, high = known["delta"].quantile([0.25, 0.5, 0.75])
        error = known["delta"].std(ddof=1) / max(len(known), 1) ** 0.5
        rows.append(
            {
                "γ": radius,
                "evaluations": evaluations,
                "method": titles[str(method)],
                "median δ": middle,
                "quartiles": f"{low:.3g} to {high:.3g}",
                "mean δ": mean_and_error(float(known["delta"].mean()), float(error)),
                "median by Definition 1": known["deviation"].median(),
                "largest gap": (known["delta_proved"] - known["delta"]).max(),
                "boxes": known["boxes"].mean(),
                "safe": (known["verdict"] == "safe").mean(),
                "points": len(known),
            }
        )
    return pd.DataFrame(rows)


def shared_rows(settings: DistributionSettings) -> float:
    """Return test points over training rows of a draw, which decides how alike draws of the same rows are."""
    return settings.points / settings.train_rows


def ratio_table(frame: pd.DataFrame, test_over_training: float) -> pd.DataFrame:
    """Return the ratio Laplace / EP of median delta per radius and evaluations, with its interval over draws."""
    import pandas as pd

    rows = []
    for radius, part in frame.groupby("radius", sort=True):
        deltas = Deltas(part)
        for evaluations in deltas.evaluations:
            ratio = ratio_statistic("", deltas, evaluations, test_over_training)
            rows.append(
                {
                    "γ": radius,
                    "evaluations": evaluations,
                    "ratio": ratio.value,
                    "95 % from": ratio.interval_low,
                    "to": ratio.interval_high,
                    "draws": ratio.n,
                    "pairs": len(deltas.pair(evaluations)[0]),
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
    return table.assign(
        method=table["method"].map(titles), variance_at_end=table["variance_at_end"].map(ends)
    )


for _name in ("distribution_synthetic2d", "distribution_spam", "distribution_mnist38"):
    EXPERIMENTS.register(f"robustness/{_name}")(
        Experiment(
            DistributionSettings,
            plan,
            run_delta,
            summarise,
            builders=("gpc",),
            dataset_tasks=("classification",),
            parts=("points", "draws", "radii", "trainings"),
            agreement=AGREEMENT,
        )
    )
