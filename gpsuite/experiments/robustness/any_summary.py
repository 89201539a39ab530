"""Tables, figures and statistics of robustness/safety."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.any_checks import CANDIDATE_EPS, CANDIDATE_ROWS, CELLS
from gpsuite.experiments.robustness.delta_claims import wilcoxon_p
from gpsuite.experiments.robustness.safety_claims import share
from gpsuite.methods.robustness.verdict import HALF
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import figure_style, save_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist

COLUMNS = (
    "row",
    "label",
    "predicted",
    "correct",
    "probability",
    "verdict",
    "min_proved",
    "min_attained",
    "max_attained",
    "max_proved",
    "gap",
    "attacked",
    "attack_succeeds",
    "chosen_by",
    "free_inputs",
    "boxes",
    "certified_min",
    "certified_max",
    "certificate_decides",
    "why",
)
VERDICTS = ("safe", "unsafe", "unknown", "timeout")
COLOURS = {"safe": "#009E73", "unsafe": "#D55E00", "unknown": "#777777", "timeout": "#777777"}
LEVEL = 0.05
GAP = re.compile(r"gap\[eps=(.+)\]")


def of_part(records: Sequence[Record], part: str) -> list[Record]:
    """Return the records of points, or of checks."""
    return [record for record in records if record.axes["part"] == part]


def point_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per method and point; columns that no record has are left out."""
    import pandas as pd

    present = [name for name in COLUMNS if any(name in record.metrics for record in records)]
    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            **{name: record.metrics.get(name) for name in present},
            "status": record.status,
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def summary_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return per method the number of points with each verdict, and certified and attacked accuracy."""
    import pandas as pd

    rows = []
    for method, title in titles.items():
        own = [record for record in records if record.axes["method"] == method]
        if not own:
            continue
        counted = Counter(str(record.metrics["verdict"]) for record in own)
        right = [bool(record.metrics["correct"]) for record in own]
        safe = [hit and record.metrics["verdict"] == "safe" for hit, record in zip(right, own, strict=True)]
        kept = [hit and not record.metrics["attack_succeeds"] for hit, record in zip(right, own, strict=True)]
        rows.append(
            {
                "method": title,
                "points": len(own),
                **{name: counted[name] for name in VERDICTS},
                "accuracy": float(np.mean(right)),
                "accuracy under attack": float(np.mean(kept)),
                "certified accuracy": float(np.mean(safe)),
                "mean gap": float(np.mean([record.number("gap") for record in own])),
                "mean boxes": float(np.mean([record.number("boxes") for record in own])),
            }
        )
    return pd.DataFrame(rows)


def change_table(
    records: Sequence[Record], titles: Mapping[str, str], input_names: Sequence[str]
) -> pd.DataFrame:
    """Return the counterexamples as changes of the point's inputs, in the dataset's own units."""
    import pandas as pd

    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            "input": input_names[column],
            "change": float(record.arrays["change"][column]),
        }
        for record in records
        if "change" in record.arrays
        for column in np.flatnonzero(record.arrays["change"])
    ]
    return pd.DataFrame(rows, columns=["method", "point", "input", "change"])


def timing_table(records: Sequence[Record], titles: Mapping[str, str]) -> pd.DataFrame:
    """Return seconds of both searches, one row per method and point."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "method": titles[str(record.axes["method"])],
                "point": record.axes["point"],
                "search seconds": record.number("search_seconds"),
                "CPU seconds, certificate and training included": record.timing.get("cpu_seconds"),
            }
            for record in records
        ]
    )


def draw_ranges(
    table: pd.DataFrame, titles: Mapping[str, str], classes: tuple[str, str], folder: Path, note: str | None
) -> None:
    """Draw every point's proved and attained range, in the order of its class probability."""
    import matplotlib.pyplot as plt

    present = [title for title in titles.values() if (table["method"] == title).any()]
    with figure_style():
        size = (7.5, 0.6 + 3.4 * len(present))
        fig, axes = plt.subplots(len(present), 1, figsize=size, squeeze=False)
        for ax, title in zip(axes[:, 0], present, strict=True):
            own = table[table["method"] == title].sort_values("probability", kind="stable")
            places = np.arange(len(own))
            for verdict, rows in own.groupby("verdict", sort=False):
                at, color = places[own["verdict"] == verdict], COLOURS[str(verdict)]
                ax.vlines(at, rows["min_proved"], rows["max_proved"], color=color, alpha=0.3, lw=5)
                ax.vlines(at, rows["min_attained"], rows["max_attained"], color=color, lw=2, label=verdict)
            ax.plot(places, own["probability"], "k.", ms=5, label="at the point")
            ax.axhline(HALF, color="#555555", lw=1)
            ax.set_xticks(places, own["point"], fontsize=7, rotation=90 if len(places) > 25 else 0)
            ax.set_ylim(-0.02, 1.02)
            ax.set_ylabel(f"probability of {classes[1]}")
            ax.set_title(title)
        axes[-1, 0].set_xlabel("test point, by class probability")
        found: dict[str, Artist] = {}
        for ax in axes[:, 0]:
            handles, labels = ax.get_legend_handles_labels()
            found.update(dict(zip(labels, handles, strict=True)))
        title = "thin: attained, wide: proved range"
        fig.legend(list(found.values()), list(found), loc="outside lower center", ncols=5, title=title)
        shown = table[["method", "point", "probability", *COLUMNS[5:10]]]
        save_figure(fig, shown, folder, "safety", note)


def draw_traces(
    records: Sequence[Record], titles: Mapping[str, str], tolerance: float, folder: Path, note: str | None
) -> None:
    """Draw the gap of every search against the boxes bounded so far."""
    import matplotlib.pyplot as plt
    import pandas as pd

    rows = [
        {
            "method": titles[str(record.axes["method"])],
            "point": record.axes["point"],
            "side": side,
            "boxes": max(1.0, float(boxes)),
            "gap": abs(float(outer - inner)),
        }
        for record in records
        for side in ("minimum", "maximum")
        for boxes, inner, outer in record.arrays[f"{side}_trace"]
    ]
    if not rows:  # no search began
        return
    frame = pd.DataFrame(rows)
    with figure_style():
        fig, ax = plt.subplots(figsize=(6.4, 4.2))
        for (_, _, side), own in frame.groupby(["method", "point", "side"], sort=False):
            color = "#0072B2" if side == "maximum" else "#009E73"
            ax.step(own["boxes"], own["gap"].clip(lower=1e-4), where="post", color=color, lw=0.9, alpha=0.6)
        for side, color in (("maximum", "#0072B2"), ("minimum", "#009E73")):
            ax.plot([], [], color=color, label=f"search for the {side}")
        ax.axhline(tolerance, color="#555555", lw=1, label="tolerance")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.1 * tolerance)
        ax.set_xlabel("boxes bounded")
        ax.set_ylabel("gap between proved and attained probability")
        fig.legend(loc="outside lower center", ncols=3)
        save_figure(fig, frame, folder, "safety_trace", note)


def check_statistics(checks: Sequence[Record], tolerances: Sequence[float]) -> list[Statistic]:
    """Return the statistics by which the paper's statements about its method are decided."""
    found = [
        Statistic(f"prop1_cells[eps={eps}]", float(np.ceil(2 / eps)), note="the number whose gap is checked")
        for eps in dict.fromkeys((*tolerances, 0.025))
    ]
    if not checks:
        return found
    n = len(checks)
    closed, cells = [], []
    for record in checks:
        for name, gap in record.metrics.items():
            asked = GAP.fullmatch(name)
            if asked and isinstance(gap, float) and record.metrics[f"unbudgeted[eps={asked[1]}]"]:
                closed.append(gap <= float(asked[1]) + 1e-12)
            cell_gap = record.metrics.get(f"prop1_{name}") if asked else None
            if asked and isinstance(cell_gap, float):
                cells.append(cell_gap <= float(asked[1]))
    boxes = sum(int(record.number("closed_form_boxes")) for record in checks)
    approached = sum(int(record.number("prop1_approaches")) for record in checks)
    return [
        *found,
        Statistic("points_outside_bounds", _total(checks, "points_outside_bounds"), n=n),
        share("share_runs_with_gap_closed", closed, "runs that ended with their budget are not counted"),
        share("share_prop1_cells_suffice", cells),
        Statistic("violations_closed_form_tighter", _total(checks, "closed_form_violations"), n=boxes),
        share(
            "share_prop1_approaches_closed_form",
            [True] * approached + [False] * (boxes - approached),
            f"N = {', '.join(map(str, CELLS))}",
        ),
        Statistic(
            "points_outside_mixture_bounds",
            _total(checks, "points_outside_mixture_bounds"),
            n=n,
            note="mixture over four sets of hyperparameters around the trained ones",
        ),
        candidates_lower_boxes(checks),
    ]


def candidates_lower_boxes(checks: Sequence[Record]) -> Statistic:
    """Return 1 if the candidates of App. D lower the boxes until eps, paired by search; NaN without closed pairs."""
    pairs = np.array(
        [
            [record.number(f"boxes_{variant}_candidates[side={side}]") for variant in ("with", "without")]
            for record in checks
            for side in ("minimum", "maximum")
        ]
    )
    closed = pairs[np.isfinite(pairs).all(axis=1)]
    what = f"paper's bound on {CANDIDATE_ROWS} training rows, eps {CANDIDATE_EPS:g}; candidates are no boxes"
    note = f"{what}; closed both times: {len(closed)} of {len(pairs)} searches"
    if not len(closed):
        return Statistic("candidates_lower_boxes", float("nan"), n=0, note=note)
    ratio, p = float(np.mean(closed[:, 0] / closed[:, 1])), wilcoxon_p(closed[:, 0], closed[:, 1])
    lower = float(ratio < 1.0 and p < LEVEL)
    note = f"mean ratio {ratio:.3g}, p {p:.2g}; {note}"
    return Statistic("candidates_lower_boxes", lower, n=len(closed), note=note)


def _total(checks: Sequence[Record], name: str) -> float:
    return float(sum(record.number(name) for record in checks))


def point_statistics(records: Sequence[Record], titles: Mapping[str, str]) -> list[Statistic]:
    """Return shares of points by method."""
    found = []
    for method in titles:
        own = [record for record in records if record.axes["method"] == method]
        for verdict in VERDICTS:
            hits = [record.metrics["verdict"] == verdict for record in own]
            found.append(share(f"share_{verdict}[method={method}]", hits))
        right = [bool(r.metrics["correct"]) for r in own]
        safe = [hit and r.metrics["verdict"] == "safe" for hit, r in zip(right, own, strict=True)]
        found.append(share(f"certified_accuracy[method={method}]", safe))
    return found
