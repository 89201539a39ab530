"""perturbation/band_comparison: width against coverage of bands for a function and intervals for new responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpsuite.data.generators.noises import NOISES, draw_noise
from gpsuite.errors import unknown_name
from gpsuite.experiments.base import (
    EXPERIMENTS,
    SKIPPED,
    Experiment,
    Outcome,
    Record,
    Request,
    SharedWork,
    Task,
    require,
)
from gpsuite.experiments.perturbation.peer_bands import (
    CENTRES,
    DOMAIN,
    FUNCTION,
    PEERS,
    RESPONSE,
    SIMULTANEOUS,
    Sample,
    features,
)
from gpsuite.experiments.statistics import clopper_pearson, mean_statistic
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.reporting.figures import figure_style, save_figure
from gpsuite.reporting.tables import write_table
from gpsuite.seeds import derived_seed, stream

if TYPE_CHECKING:
    import pandas as pd

FloatArray = npt.NDArray[np.float64]

VERSION = 1
MARKERS = "o^sDvP"  # of the bands for the function, in the order of `PEERS`
LABELS = {
    "width": "mean width",
    "width_error": "standard error",
    "simultaneous": "simultaneous coverage",
    "low": "95 % interval from",
    "high": "to",
    "pointwise": "mean pointwise coverage",
    "pointwise_error": "standard error of it",
    "n": "data sets",
}


@dataclass
class BandSettings:
    """Settings of the comparison: truths are combinations of 8 kernels with standard normal coefficients.

    Attributes:
        bands: keys of `PEERS`.
        noises: keys of `NOISES`.
        noise_scale: factor of the noise.
        data_sets: number of simulated data sets per cell, the same for every band.
        rows: data in each.
        q: the level is 1 - q/m.
        m: number of compared values.
        points: of the grid on which bands are judged.
        draws: rays of the members' band; samples of the bootstrap.
        evaluations: of the likelihood in training a Gaussian process.
    """

    bands: list[str] = field(default_factory=lambda: list(PEERS))
    noises: list[str] = field(default_factory=lambda: ["laplace", "heteroscedastic"])
    noise_scale: float = 0.3
    data_sets: int = 200
    rows: int = 100
    q: int = 10
    m: int = 100
    points: int = 101
    draws: int = 2000
    evaluations: int = 200

    def check(self) -> None:
        """Refuse impossible values."""
        known: tuple[tuple[str, Mapping[str, Any]], ...] = (("bands", PEERS), ("noises", NOISES))
        for key, names in known:
            values: list[str] = getattr(self, key)
            require(bool(values), key, values, "needs at least one name")
            require(len(set(values)) == len(values), key, values, "has a name twice")
            for value in values:
                if value not in names:
                    raise unknown_name(key, value, names)
        require(
            0 < self.q < self.m, "q", self.q, f"must lie in 0 < q < m={self.m}; the confidence is 1 - q/m"
        )
        require(
            0 < self.noise_scale < float("inf"), "noise_scale", self.noise_scale, "must be a number above 0"
        )
        least = {"data_sets": 1, "rows": 2 * len(CENTRES), "points": 2, "draws": 10, "evaluations": 1}
        for name, smallest in least.items():
            require(getattr(self, name) >= smallest, name, getattr(self, name), f"must be {smallest} or more")


def plan(request: Request) -> list[Task]:
    """Return one task per noise and band."""
    settings: BandSettings = request.settings
    names = ("noise_scale", "data_sets", "rows", "q", "m", "points", "draws", "evaluations")
    return [
        Task(
            experiment=request.experiment,
            label=f"{PEERS[band].title}  {noise}",
            axes={"noise": noise, "band": band},
            params={
                "kind": "perturbation_band",
                "band": band,
                "noise": noise,
                "seed": derived_seed(request.seed, "bands", noise),
                "available": not PEERS[band].missing,  # so that installing a package adds its bands
                **{name: getattr(settings, name) for name in names},
            },
            version=VERSION,
            cost=(0.2 if band.startswith("gp_") else 0.05) * settings.data_sets,
        )
        for noise in settings.noises
        for band in settings.bands
    ]


def run(task: Task, shared: SharedWork) -> Outcome:
    """Compute a band on every data set; record its mean width and where it holds its target."""
    params = task.params
    peer = PEERS[params["band"]]
    if peer.missing:
        return Outcome({}, SKIPPED, f"{peer.package} is not installed: pip install {peer.package}")
    widths, held = [], []
    for number in range(params["data_sets"]):
        sample, target = _simulated(params, number, peer.target)
        lower, upper = peer.compute(sample, stream(int(params["seed"]), "band", number, peer.title))
        widths.append(float(np.mean(upper - lower)))
        held.append((lower <= target) & (target <= upper))
    inside = np.array(held)
    arrays = {"width": np.array(widths), "share": inside.mean(axis=1), "everywhere": inside.all(axis=1)}
    headline = f"width {arrays['width'].mean():.3g}, everywhere {arrays['everywhere'].mean():.2f}"
    return Outcome({"data_sets": len(inside)}, arrays=arrays, headline=headline)


def _simulated(params: Mapping[str, Any], number: int, target: str) -> tuple[Sample, FloatArray]:
    """Return a data set, and on the grid the true function or new responses."""
    rng = stream(int(params["seed"]), "data", number)
    X = rng.uniform(-DOMAIN, DOMAIN, (params["rows"], 1))
    grid = np.linspace(-DOMAIN, DOMAIN, params["points"])[:, None]
    truth = rng.standard_normal(len(CENTRES))
    noise, new = (
        draw_noise(rng, params["noise"], len(x), inputs=x[:, 0], scale=params["noise_scale"])
        for x in (X, grid)
    )
    y, f = features(X) @ truth + noise, features(grid) @ truth
    sizes = {name: int(params[name]) for name in ("q", "m", "draws", "evaluations")}
    return Sample(X, y, grid, **sizes), f + new if target == RESPONSE else f


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write one table for the function and one for responses; draw width against coverage of the function."""
    settings: BandSettings = request.settings
    usable = [record for record in records if record.usable]
    if not usable:
        return []
    frame, tables = band_table(usable), folder / "tables"
    present = {record.axes["band"] for record in usable}
    absent = [PEERS[band] for band in settings.bands if band not in present]
    reasons = [f"without {peer.title}{': not installed' if peer.missing else ''}" for peer in absent]
    notes = [*([note] if note else []), *reasons]
    ending = f" ({'; '.join(notes)})" if notes else ""
    about = f"{settings.rows} data, level {1.0 - settings.q / settings.m:g}, x uniform on [-2, 2]"
    for target in (FUNCTION, RESPONSE):
        part = frame[frame["target"] == target].drop(columns=["target", "band"])
        if target == RESPONSE:  # nobody promises that all new responses are inside
            part = part.drop(columns=["simultaneous", "low", "high"])
        if len(part):
            write_table(
                part, tables, f"{target}_coverage", f"Bands for the {target}: {about}{ending}", LABELS
            )
    shown = frame[frame["target"] == FUNCTION]
    if len(shown):
        _draw(shown, settings, folder / "figures", note)
    found = []
    for record in usable:
        axes = {"noise": record.axes["noise"], "band": record.axes["band"]}
        for metric, key in (("band_width", "width"), ("pointwise_coverage", "share")):
            found.append(mean_statistic(statistic_name(metric, **axes), record.arrays[key]))
    return found


def band_table(records: Sequence[Record]) -> pd.DataFrame:
    """Return one row per noise and band: mean width, simultaneous and mean pointwise coverage, with n and errors."""
    import pandas as pd

    rows = []
    for record in records:
        peer = PEERS[str(record.axes["band"])]
        everywhere, n = record.arrays["everywhere"], len(record.arrays["everywhere"])
        low, high = clopper_pearson(int(everywhere.sum()), n)
        width, pointwise = (_mean_and_error(record.arrays[key]) for key in ("width", "share"))
        rows.append(
            {
                "noise": record.axes["noise"],
                "target": peer.target,
                "band": record.axes["band"],
                "title": peer.title,
                "kind": peer.kind,
                "width": width[0],
                "width_error": width[1],
                "simultaneous": float(everywhere.mean()),
                "low": low,
                "high": high,
                "pointwise": pointwise[0],
                "pointwise_error": pointwise[1],
                "n": n,
            }
        )
    return pd.DataFrame(rows)


def _mean_and_error(values: FloatArray) -> tuple[float, float]:
    """Return the mean and its standard error; infinite and unknown where a band is unbounded."""
    if len(values) < 2 or not np.isfinite(values).all():
        return float(np.mean(values)), float("nan")
    return float(np.mean(values)), float(np.std(values, ddof=1)) / len(values) ** 0.5


def _draw(frame: pd.DataFrame, settings: BandSettings, folder: Path, note: str | None) -> None:
    import matplotlib.pyplot as plt

    noises = list(dict.fromkeys(frame["noise"]))
    with figure_style():
        fig, axes = plt.subplots(1, len(noises), figsize=(5.4 * len(noises), 5.0), sharey=True, squeeze=False)
        for ax, noise in zip(axes[0], noises, strict=True):
            for row in frame[(frame["noise"] == noise) & np.isfinite(frame["width"])].to_dict("records"):
                place = list(PEERS).index(str(row["band"]))
                colour = f"C{place}"
                ends = [[row["simultaneous"] - row["low"]], [row["high"] - row["simultaneous"]]]
                filled = colour if row["kind"] == SIMULTANEOUS else "white"
                label = f"{row['title']}{'' if row['kind'] == SIMULTANEOUS else ' (pointwise)'}"
                ax.errorbar(
                    [row["width"]],
                    [row["simultaneous"]],
                    ends,
                    fmt=MARKERS[place],
                    color=colour,
                    mfc=filled,
                    capsize=3,
                    label=label,
                )
            ax.axhline(1.0 - settings.q / settings.m, color="0.3", linestyle="--", lw=1.0)
            ax.set_xlabel("mean width (units of y)")
            ax.set_title(f"{noise} noise")
            ax.set_ylim(-0.03, 1.03)
        axes[0, 0].set_ylabel("coverage of f at all x at once (95 % interval)")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        fig.legend(handles, labels, loc="outside lower center", ncols=2)
        save_figure(fig, frame, folder, "band_comparison", note)


EXPERIMENTS.register("perturbation/band_comparison")(
    Experiment(BandSettings, plan, run, summarise, parts=("data_sets", "bands", "noises"))
)
