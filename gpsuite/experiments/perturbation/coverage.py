"""perturbation/coverage: exactness for all models, groups and noises, and what breaks it (Csáji and Kis 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Request
from gpsuite.experiments.perturbation.coverage_cells import REFUSALS, CoverageSettings, plan, run
from gpsuite.experiments.perturbation.coverage_claims import Cell, statistics
from gpsuite.experiments.perturbation.coverage_models import BREAKS, MODEL_TITLES
from gpsuite.experiments.statistics import clopper_pearson
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import figure_style, save_figure
from gpsuite.reporting.tables import write_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

ERROR = 0.05  # of the intervals shown
LABELS = {
    "broken": "what is broken",
    "assumption": "assumption",
    "nominal": "1 - q/m",
    "low": "95 % interval from",
    "high": "to",
    "n": "repetitions",
    "p_value": "p value",
}
TITLES = {
    "signs": "sign changes",
    "permutations": "permutations",
    "signed_permutations": "signed permutations",
}


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write coverage of every exact and every broken cell, with intervals; draw both against 1 - q/m."""
    settings: CoverageSettings = request.settings
    usable = [record for record in records if record.usable]
    refusals = [record for record in usable if record.axes["part"] == REFUSALS]
    cells = [
        cell
        for record in usable
        if record.axes["part"] != REFUSALS
        for cell in _cells(record, settings.compared)
    ]
    accepted = int(sum(record.number("accepted") for record in refusals))
    needed = {name: case.assumption for name, case in BREAKS.items() if case.needed}
    found = statistics(cells, needed, accepted, 4 * len(settings.compared) * len(refusals))
    if cells:
        _write(coverage_table(cells), settings, folder, note)
    return found


def _cells(record: Record, compared: dict[int, list[int]]) -> list[Cell]:
    model, noise, group, broken = (str(record.axes[axis]) for axis in ("model", "noise", "group", "break"))
    return [
        Cell(model, noise, group, broken, record.arrays[f"ranks_{m}"], excluded)
        for m, excluded in compared.items()
    ]


def coverage_table(cells: Sequence[Cell]) -> pd.DataFrame:
    """Return one row per cell and level: nominal and measured coverage with its exact 95 % interval."""
    import pandas as pd

    rows = []
    for cell in cells:
        for q in cell.excluded:
            inside = cell.inside(q)
            low, high = clopper_pearson(inside, cell.total, ERROR)
            rows.append(
                {
                    "broken": cell.broken,
                    "model": MODEL_TITLES[cell.model],
                    "noise": cell.noise,
                    "group": cell.group,
                    "q": q,
                    "m": cell.m,
                    "nominal": 1.0 - q / cell.m,
                    "coverage": inside / cell.total,
                    "low": low,
                    "high": high,
                    "n": cell.total,
                    "p_value": cell.p_value(q),
                }
            )
    return pd.DataFrame(rows)


def _write(frame: pd.DataFrame, settings: CoverageSettings, folder: Path, note: str | None) -> None:
    tables, ending = folder / "tables", f" ({note})" if note else ""
    exact, broken = frame[frame["broken"] == ""], frame[frame["broken"] != ""]
    data = f"{settings.rows} data, {settings.repetitions} repetitions a cell"
    interval = "exact binomial 95 % intervals"
    if len(exact):
        caption = f"Coverage of the true coefficients where the assumptions hold; {data}; {interval}{ending}"
        write_table(exact.drop(columns="broken"), tables, "coverage", caption, LABELS)
    if len(broken):
        broken = broken.copy()
        assumption = [BREAKS[name].assumption for name in broken["broken"]]
        broken.insert(1, "assumption", assumption)
        caption = f"Coverage where something exactness rests on is missing; {data}; {interval}{ending}"
        write_table(broken, tables, "coverage_broken", caption, LABELS)
    _draw(exact, broken, folder / "figures", note)


def _draw(exact: pd.DataFrame, broken: pd.DataFrame, folder: Path, note: str | None) -> None:
    """Draw coverage minus 1 - q/m: exact cells by group on the left, broken ones by cause on the right."""
    import matplotlib.pyplot as plt
    import pandas as pd

    with figure_style():
        fig, (left, right) = plt.subplots(1, 2, figsize=(11.5, 5.4))
        if len(exact):
            _pooled(left, exact.assign(kind=exact["group"].map(TITLES)))
        left.set_title("assumptions hold: cells, groups with 95 % intervals")
        left.set_xlabel("nominal coverage 1 - q/m (probability)")
        _points(right, broken.assign(kind=broken["broken"]), "where something is missing")
        left.set_ylabel("measured coverage - (1 - q/m)")
        for ax, count in ((left, 3), (right, 2)):
            if ax.get_legend_handles_labels()[0]:
                ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=count)
        data = pd.concat([exact, broken], ignore_index=True)
        save_figure(fig, data.drop(columns="assumption", errors="ignore"), folder, "coverage", note)


def _pooled(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw cells as small dots, and each group's cells of a level together with their interval."""
    places = [-0.012, 0.0, 0.012]  # one a group
    for number, (kind, part) in enumerate(frame.groupby("kind", sort=False)):
        colour = f"C{number}"
        ax.plot(
            part["nominal"] + places[number],
            part["coverage"] - part["nominal"],
            ".",
            ms=2,
            color=colour,
            alpha=0.4,
        )
        for nominal, level in part.groupby("nominal"):
            total = int(level["n"].sum())
            inside = int((level["coverage"] * level["n"]).round().sum())
            low, high = clopper_pearson(inside, total, ERROR)
            share, place = inside / total, float(str(nominal)) + places[number]
            label = str(kind) if nominal == part["nominal"].min() else "_"
            ends = [[share - low], [high - share]]
            ax.errorbar(
                [place],
                [share - float(str(nominal))],
                ends,
                fmt="D",
                ms=4,
                color=colour,
                label=label,
                capsize=4,
            )
    ax.axhline(0.0, color="0.3", lw=1.0)


def _points(ax: Axes, frame: pd.DataFrame, heading: str) -> None:
    """Draw each cell's deviation with its interval, slightly apart where nominal values agree."""
    import matplotlib as mpl

    kinds = list(dict.fromkeys(frame["kind"]))
    colours = mpl.colormaps["tab10"](np.arange(len(kinds)))
    step = 0.04 / max(6, len(kinds))
    for number, (kind, colour) in enumerate(zip(kinds, colours, strict=True)):
        part = frame[frame["kind"] == kind]
        apart = np.linspace(-1.0, 1.0, len(part)) * 0.3 * step + (number - (len(kinds) - 1) / 2.0) * step
        ends = np.array([part["coverage"] - part["low"], part["high"] - part["coverage"]])
        deviation = part["coverage"] - part["nominal"]
        ax.errorbar(
            part["nominal"] + apart,
            deviation,
            ends,
            fmt="o",
            ms=3,
            lw=0.7,
            color=colour,
            alpha=0.7,
            label=kind,
        )
    ax.axhline(0.0, color="0.3", lw=1.0)
    ax.set_xlabel("nominal coverage 1 - q/m (probability)")
    ax.set_title(f"{heading}; 95 % intervals")


EXPERIMENTS.register("perturbation/coverage")(
    Experiment(
        CoverageSettings, plan, run, summarise, parts=("repetitions", "models", "noises", "groups", "breaks")
    )
)
