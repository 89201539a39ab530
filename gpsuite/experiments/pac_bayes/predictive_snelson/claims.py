"""What Reeb et al. (2018) say about Fig. 1, as statistics that decide it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpsuite.experiments.base import Record
from gpsuite.experiments.pac_bayes.predictive_snelson.settings import GOALS
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import share

if TYPE_CHECKING:
    import pandas as pd


CHOSEN = "ε and M were chosen to match the printed KL/n, so agreement is no independent check"


MOVES_LEAST = "Z moves least at the largest of them"


def claims(pac: Mapping[str, Record], elsewhere: str = "") -> list[Statistic]:
    """Return the statistics that decide what Sec. 4(a) says, as far as the three goals' records are there.

    Args:
        pac: goal -> record of kl-PAC-SGP.
        elsewhere: what the scan says about the inducing inputs at other M, for the note.
    """
    if set(pac) != set(GOALS):
        return []
    kl, rough, way = (
        {goal: pac[goal].number(metric) for goal in GOALS}
        for metric in ("kl_over_n", "roughness", "displacement")
    )
    steps = [kl["middle"] > kl["small"], kl["small"] > kl["large"]]
    return [
        Statistic.of("share_kl_order_of_epsilons", share(steps), note=f"{listed(kl)}; {CHOSEN}"),
        Statistic("smoothest_at_largest_epsilon", _smallest_at_large(rough), n=3, note=listed(rough)),
        Statistic(
            "inducing_inputs_move_least_at_largest_epsilon",
            _smallest_at_large(way),
            n=3,
            note="; ".join(part for part in (listed(way), elsewhere) if part),
        ),
    ]


def where_inputs_move_least(scan: pd.DataFrame) -> str:
    """Return for which M of the scan the inducing inputs move least at the largest of the closest epsilons."""
    if not len(scan):
        return ""
    held = [f"{row['M']}" for row in scan.to_dict("records") if row[MOVES_LEAST] == "yes"]
    return f"in the scan over {len(scan)} values of M it holds at M = {', '.join(held) or 'none'}"


def _smallest_at_large(values: Mapping[str, float]) -> float:
    return float(values["large"] < min(values["small"], values["middle"]))


def listed(values: Mapping[str, float]) -> str:
    """Return the goals' values in words."""
    return ", ".join(f"{goal} {value:.4g}" for goal, value in values.items())
