"""Figures of several runs, drawn from the numbers of their own figures: a paper's, and overview.png of all."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpsuite.reporting.collect import RunFolder, find_runs
from gpsuite.reporting.comparison import read_paper_values
from gpsuite.reporting.figures import figure, math_label
from gpsuite.reporting.files import cannot, present, read_bytes, read_mapping
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import BLUE, LIMIT, PAPER, VERMILION, method_style, panel, tint
from gpsuite.untrusted import is_inside

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

NAME = "overview"
FOLDER = "figures"
_SOURCES = (
    "pac_bayes/epsilon_boston/paper/figures/epsilon_boston.csv",
    "robustness/safety_synthetic2d/paper/figures/safety_synthetic2d_accuracy.csv",
    "perturbation/region/paper/figures/region.csv",
    "active_learning/toy/paper/figures/toy_curves.csv",
)
_PANEL_TEXTS = (  # title, horizontal and vertical axis
    ("certified share of wrong predictions, Boston (PAC-Bayes)", "accuracy goal ε", "bound ± s.e. over splits"),
    ("proved under moving inputs, Synthetic2D (robustness)", "radius γ", "share of points"),
    ("exact regions, any symmetric noise (perturbation)", "bmi", "progression"),
    ("safe active learning, toy (active learning)", "measured values", "RMSE ± s.e."),
)
TITLES = {
    "kl_pac_sgp": "kl-PAC-SGP",
    "sqrt_pac_sgp": "sqrt-PAC-SGP",
    "vfe": "VFE",
    "vfe_fitc_posterior": "VFE, FITC posterior",
    "fitc": "FITC",
    "laplace": "Laplace",
    "ep": "EP",
}
STYLES = {"vfe_fitc_posterior": {"linestyle": "--"}}  # the training of another line
PANELS = ("bound_kl", "gibbs_risk_train", "gibbs_risk_test", "mse_test", "kl_over_n")
FLOOR = 1e-4  # smaller deltas are drawn there
BOXES: Mapping[str, Any] = {
    "widths": 0.34,
    "patch_artist": True,
    "medianprops": {"color": "black"},
    "flierprops": {"markersize": 3},
    "manage_ticks": False,
}


@dataclass(frozen=True)
class Part:
    """Part of one run: its dataset and limits in words, its figure's numbers, whether it is a study.

    A study has other settings, which cannot be compared with anything printed.
    """

    heading: str
    numbers: pd.DataFrame
    study: bool


@dataclass(frozen=True)
class Joint:
    """A figure of several runs.

    Attributes:
        title: the paper's figure, in words.
        experiments: in the order of rows or columns.
        every: whether all runs of an experiment enter. Otherwise the one with most numbers. A study only if nothing
            else is there.
        draw: draws it into a folder, from the parts and the printed values by statistic.
        shows: its caption: what is drawn, and what marks and bars are.
    """

    title: str
    experiments: tuple[str, ...]
    every: bool
    draw: Callable[[Path, str, str, Sequence[Part], Mapping[str, float]], None]
    shows: str


def draw_joint_figures(results_dir: Path, conf_dir: Path) -> list[Path]:
    """Draw every joint figure that at least two runs of the paper's scale answer. Return the images.

    Writes `results_dir`/figures/<name>.png, .pdf and .csv.

    Raises:
        ResultsError: if a file cannot be read or written.
        ValueError: if a file of conf/paper is malformed.
    """
    printed = {each.statistic: n for each in read_paper_values(conf_dir) if (n := each.number) is not None}
    runs = [run for run in find_runs(results_dir) if run.scale == "paper"]
    written = []
    for name, joint in JOINT.items():
        parts = [part for each in joint.experiments for part in _parts(runs, each, joint.every)]
        if len(parts) > 1:
            joint.draw(results_dir / FOLDER, name, joint.title, parts, printed)
            written.append(results_dir / FOLDER / f"{name}.png")
    return written


def _parts(runs: Sequence[RunFolder], experiment: str, every: bool) -> list[Part]:
    """Return what an experiment's runs add, without runs on other data than the experiment is named after."""
    found = []
    for run in runs:
        path = run.path / "figures" / f"{experiment.split('/')[1]}.csv"
        if run.experiment == experiment and is_inside(path) and present(path):
            about = read_mapping(run.path / "run.json") or {}
            data, notes = about.get("dataset"), about.get("notes")
            name = str(data.get("name") or "") if isinstance(data, dict) else ""
            if every or name.startswith(experiment.rpartition("_")[2]):
                limits = "; ".join(map(str, notes)) if isinstance(notes, list) else ""
                heading = f"{name}: {limits}" if name and limits else name or limits
                found.append(Part(heading, _numbers(path), bool(about.get("not_comparable"))))
    return found if every else sorted(found, key=lambda part: (part.study, -len(part.numbers)))[:1]


def _numbers(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(io.BytesIO(read_bytes(path)))
    except (OSError, ValueError) as error:
        raise cannot("read", path, error) from error


def _draw_inducing(folder: Path, name: str, title: str, parts: Sequence[Part], printed: Mapping[str, float]) -> None:
    """Draw a row per dataset and a column per metric against the number of inducing inputs."""
    import pandas as pd

    size = (16.0, 3.2 * len(parts) + 1.0)
    note = "; ".join(part.heading for part in parts if ":" in part.heading)
    with figure(folder, name, note, rows=len(parts), columns=len(PANELS), size=size) as drawing:
        for axes, part in zip(drawing.grid, parts, strict=True):
            for ax, shown in zip(axes, PANELS, strict=True):
                rows = part.numbers[part.numbers["metric"] == shown]
                panel(ax, rows, "inducing", TITLES, styles=STYLES)
                ax.set_xticks(sorted(rows["inducing"].unique()))
                ax.set_ylim(bottom=0.0)
                ax.set_title(f"{part.heading.partition(':')[0]}: {metric(shown).axis}", fontsize=9)
        for ax in drawing.grid[-1]:
            ax.set_xlabel("inducing inputs M")
        drawing.legend("above", columns=len(TITLES), title=f"{title}: mean ± standard error over the splits")
        drawing.data = pd.concat([part.numbers.assign(run=part.heading) for part in parts], ignore_index=True)


def _draw_changes(folder: Path, name: str, title: str, parts: Sequence[Part], printed: Mapping[str, float]) -> None:
    """Draw the change of the test MSE under the exponential loss by dataset and M, and the printed ones."""
    import pandas as pd

    numbers = pd.concat([part.numbers.assign(run=part.heading) for part in parts], ignore_index=True)
    changes = numbers[(numbers["metric"] == "mse_change_percent") & numbers["mean"].notna()]
    # if several runs have a cell, the one with most splits counts
    cell = ["dataset", "inducing"]
    changes = changes.sort_values("n", ascending=False, kind="stable").drop_duplicates(cell).sort_values(cell)
    counts = changes[[*cell, "n"]].itertuples(index=False)
    cells = [f"{dataset}\nM={m:g}, n={n:g}" for dataset, m, n in counts]
    note = "n: random splits. At which M the printed changes were measured is lost"
    with figure(folder, name, note, size=(1.6 * len(cells) + 4.0, 4.4)) as drawing:
        ax = drawing.ax
        style: dict[str, Any] = {**method_style("kl_pac_sgp"), "linestyle": "", "capsize": 3}
        ax.axhline(0.0, color=LIMIT, lw=1.0)
        ends = [changes["mean"] - changes["interval_low"], changes["interval_high"] - changes["mean"]]
        ax.errorbar(range(len(cells)), changes["mean"], yerr=ends, label="mean, 95 % t interval", **style)
        names = [str(dataset).removesuffix("_test") for dataset in changes["dataset"]]
        values = [printed.get(f"mse_change_percent[dataset={name}]", math.nan) for name in names]
        ax.plot(range(len(cells)), values, "_", ms=26, color=VERMILION, mew=2.2, label=PAPER)
        ax.set_xticks(range(len(cells)), cells)
        ax.set_ylabel("change of the test MSE (%)")
        drawing.legend("above", title=title)
        drawing.data = changes.assign(printed=values)


def _draw_deltas(folder: Path, name: str, title: str, parts: Sequence[Part], printed: Mapping[str, float]) -> None:
    """Draw box plots of delta by epochs and method, one panel per dataset, on a common logarithmic scale."""
    import pandas as pd

    boxes = "boxes: median, quartiles, 1.5 of their distance, and points beyond"
    limits = [part.heading for part in parts if ":" in part.heading]
    note = "; ".join([*limits, boxes, f"smaller δ are drawn at {FLOOR:g}"])
    size = (1.4 + 3.6 * len(parts), 4.4)
    with figure(folder, name, note, columns=len(parts), size=size, sharey=True) as drawing:
        for ax, part in zip(drawing.axes, parts, strict=True):
            own = part.numbers[part.numbers["radius"] == part.numbers["radius"].iloc[0]]
            epochs = sorted(own["evaluations"].unique())
            for place, method in enumerate(("laplace", "ep")):
                rows, style = own[own["method"] == method], method_style(method)
                deltas = [rows.loc[rows["evaluations"] == e, "delta"].dropna() for e in epochs]
                values = [each.clip(lower=FLOOR) for each in deltas]
                positions = [k + 0.4 * (place - 0.5) for k in range(len(epochs))]
                face = {"facecolor": style["color"], "alpha": 0.55}
                ax.boxplot(values, positions=positions, label=TITLES[method], boxprops=face, **BOXES)
            ax.set_xticks(range(len(epochs)), [f"{e:g}" for e in epochs])
            ax.set_yscale("log")
            title_of = part.heading.partition(":")[0]
            ax.set_title(f"{title_of}, γ = {own['radius'].iloc[0]:g}, {len(own)} searches")
        drawing.axes[0].set_ylabel(math_label(r"$\delta = \pi_{\max} - \pi_{\min}$ (probability)"))
        drawing.fig.supxlabel("evaluations of the marginal likelihood (epochs)")
        drawing.legend(columns=2, title=title)
        drawing.data = pd.concat([part.numbers.assign(run=part.heading) for part in parts], ignore_index=True)


def draw_overview(root: Path, titles: dict[str, str]) -> Path | None:
    """Write `root`/overview.png, .pdf and .csv, a panel per guarantee. Nothing unless all four runs are published."""
    paths = [root / source for source in _SOURCES]
    if not all(is_inside(path) and present(path) for path in paths):
        return None
    import pandas as pd

    boston, synthetic, region, toy = map(_numbers, paths)
    with figure(root, NAME, rows=2, columns=2, size=(10.4, 7.2)) as drawing:
        bound, safety, band, learning = drawing.axes
        shown = [
            _curves(bound, boston[boston["metric"] == "bound_kl"], "epsilon", titles),
            _certified(safety, synthetic),
            _band(band, region[region["model"] == region["model"].iloc[0]]),
            _curves(learning, toy[toy["metric"] == toy["metric"].iloc[0]], "n_sum", titles),
        ]
        for ax, (title, x, y) in zip(drawing.axes, _PANEL_TEXTS, strict=True):
            ax.set(title=title, xlabel=x, ylabel=y)
            ax.legend()
        drawing.data = pd.concat(shown, keys=range(4), names=["panel"]).reset_index(level=0)
    return root / f"{NAME}.png"


def _curves(ax: Axes, rows: pd.DataFrame, x: str, titles: dict[str, str]) -> pd.DataFrame:
    for method, line in rows.groupby("method", sort=False):
        label = titles.get(str(method), str(method))
        style: dict[str, Any] = {**method_style(str(method)), "markersize": 3.5}
        ax.errorbar(line[x], line["mean"], line["standard_error"], label=label, **style)
    return rows


def _certified(ax: Axes, rows: pd.DataFrame) -> pd.DataFrame:
    first: pd.DataFrame = rows[rows["features"] == rows["features"].iloc[0]]
    ax.plot(first["gamma"], first["certified"], color=BLUE, marker="o", markersize=3.5, label="proved")
    left = first["not proved unsafe"]
    ax.plot(first["gamma"], left, color=VERMILION, linestyle="--", label="not proved unsafe")
    return first


def _band(ax: Axes, rows: pd.DataFrame) -> pd.DataFrame:
    for level, share in (("10", 0.25), ("50", 0.55)):
        low, high = rows[f"pointwise_lower_{level}"], rows[f"pointwise_upper_{level}"]
        label = f"{100 - int(level)} %"
        ax.fill_between(rows["x"], low, high, color=tint(BLUE, share), linewidth=0, label=label)
    ax.plot(rows["x"], rows["estimate"], color=LIMIT, label="estimate")
    return rows


JOINT: Mapping[str, Joint] = {
    "reeb2018_fig3": Joint(
        "Fig. 3 of Reeb et al. 2018",
        ("pac_bayes/inducing_pol", "pac_bayes/inducing_sarcos", "pac_bayes/inducing_kin40k"),
        False,
        _draw_inducing,
        "Certified bound, Gibbs risks, test MSE and KL/n against the number of inducing inputs M, a row per dataset. "
        "Marks are means over random splits, bars one standard error.",
    ),
    "reeb2018_table3": Joint(
        "Table 3 of Reeb et al. 2018: exponential against 0-1 band loss",
        ("pac_bayes/loss_exp",),
        True,
        _draw_changes,
        "Change of kl-PAC-SGP's test MSE by training on the exponential instead of the 0-1 band loss. Squares are "
        "means over n splits with 95 % t intervals, dashes the printed changes.",
    ),
    "blaas2020_fig4": Joint(
        "Fig. 4 of Blaas et al. 2020",
        ("robustness/distribution_synthetic2d", "robustness/distribution_spam", "robustness/distribution_mnist38"),
        False,
        _draw_deltas,
        "Width δ of the class probability's proved range after several lengths of training, a panel per dataset. Boxes "
        "are median and quartiles over test points, whiskers reach 1.5 times their distance, dots lie beyond.",
    ),
}
