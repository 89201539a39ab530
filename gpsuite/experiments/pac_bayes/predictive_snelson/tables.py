"""Tables of pac_bayes/predictive_snelson: the plotted fits, and the scan that chose them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

from gpsuite.experiments.base import Record
from gpsuite.experiments.pac_bayes.predictive_snelson.claims import MOVES_LEAST
from gpsuite.experiments.pac_bayes.predictive_snelson.settings import PAC, PredictiveSettings

if TYPE_CHECKING:
    import pandas as pd


SHOWN = ("kl_over_n", "bound_kl", "gibbs_risk_train", "noise_std", "lengthscale", "variance", "displacement",
         "roughness", "share_as_good")  # fmt: skip


TABLE_LABELS = {"epsilon": "ε (units of y)", "inducing": "M"}


def plots_table(plots: Mapping[tuple[str, str], Record], settings: PredictiveSettings) -> pd.DataFrame:
    """Return one row per plotted fit."""
    import pandas as pd

    rows = []
    for (name, goal), record in plots.items():
        printed = getattr(settings.published_kl_over_n, goal) if name == PAC else float("nan")
        row: dict[str, Any] = {"method": name, "goal": goal, "epsilon": record.axes["epsilon"]}
        row["inducing"] = str(record.axes["inducing"] or "all rows")
        for metric in SHOWN:
            row[metric] = record.number(metric)
            if metric == "kl_over_n":
                row["published_kl_over_n"] = printed
        rows.append(row)
    return pd.DataFrame(rows)


def scan_table(records: Sequence[Record], settings: PredictiveSettings) -> pd.DataFrame:
    """Return one row per M: KL/n at every epsilon, and the triple of epsilons closest to the printed KL/n."""
    import pandas as pd

    cells: dict[int, dict[float, Record]] = {}
    for record in records:
        if record.axes["method"] == PAC:
            cells.setdefault(int(record.axes["inducing"]), {})[float(record.axes["epsilon"])] = record
    printed = tuple(asdict(settings.published_kl_over_n).values())
    lines = []
    for inducing, row in sorted(cells.items()):
        found = {epsilon: row[epsilon].number("kl_over_n") for epsilon in sorted(row)}
        triple, difference = closest_triple(found, printed)
        ways = [row[epsilon].number("displacement") for epsilon in triple]
        lines.append(
            {
                "M": inducing,
                **{f"ε = {epsilon:g}": value for epsilon, value in found.items()},
                "closest ε": ", ".join(f"{epsilon:g}" for epsilon in triple),
                "largest difference (%)": 100 * difference,
                MOVES_LEAST: "yes" if ways and ways[-1] == min(ways) else "no",
            }
        )
    return pd.DataFrame(lines)


def closest_triple(
    found: Mapping[float, float], printed: tuple[float, ...]
) -> tuple[tuple[float, ...], float]:
    """Return the rising epsilons whose KL/n come closest to the printed ones, and the largest relative difference.

    Args:
        found: epsilon -> KL/n.
        printed: KL/n of as many rising epsilons.

    Returns:
        An empty tuple and NaN if there are fewer epsilons than printed values.
    """

    def distance(epsilons: tuple[float, ...]) -> float:
        return max(abs(found[e] / value - 1.0) for e, value in zip(epsilons, printed, strict=True))

    finite = sorted(epsilon for epsilon, value in found.items() if math.isfinite(value))
    best = min(combinations(finite, len(printed)), key=distance, default=())
    return best, distance(best) if best else math.nan
