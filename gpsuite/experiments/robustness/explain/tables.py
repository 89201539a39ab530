"""Tables of robustness/explain: every input at every point, and the mean over the points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.base import Record
from gpsuite.methods.robustness.explain.effects import DOWN, UP
from gpsuite.statistics.estimates import mean
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd

STATED = "not proved of {count} points: probabilities of so many classes, or such variances, have an estimated error"
NAMED = 3  # inputs in the answer's sentence
ENDS = ("lowest proved", "lowest", "highest", "highest proved")


def unproved(records: Sequence[Record]) -> str:
    """Return for how many points the ends called proved rest on a cubature whose error is estimated; empty for none."""
    count = sum(not record.metrics.get("probabilities_proved", True) for record in records)
    return STATED.format(count=count) if count else ""


def point_table(
    records: Sequence[Record], titles: Mapping[str, str], input_names: Sequence[str]
) -> pd.DataFrame:
    """Return one row per method, point and input, the strongest effects of a point first."""
    import pandas as pd

    parts = []
    for record in records:
        arrays = record.arrays
        order = np.argsort(-np.abs(arrays["delta"]), kind="stable")
        sides = {
            f"{name}, {word}": arrays["ranges"][order, side, place]
            for side, word in ((DOWN, "down"), (UP, "up"))
            for place, name in enumerate(ENDS)
        }
        parts.append(
            pd.DataFrame(
                {
                    "method": titles[str(record.axes["method"])],
                    "point": record.axes["point"],
                    "row": record.metrics["row"],
                    "label": record.metrics["label"],
                    "predicted": record.metrics["predicted"],
                    "probability": record.metrics["probability"],
                    "input": [input_names[place] for place in order],
                    "down by": arrays["moved"][order, DOWN],
                    "up by": arrays["moved"][order, UP],
                    **sides,
                    "effect": arrays["delta"][order],
                    "effect, proved low": arrays["delta_low"][order],
                    "effect, proved high": arrays["delta_high"][order],
                    "LIME slope": arrays["lime"][order],
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def mean_table(
    records: Sequence[Record], titles: Mapping[str, str], input_names: Sequence[str]
) -> pd.DataFrame:
    """Return one row per method and input: means over the points, the strongest first."""
    import pandas as pd

    parts = []
    for method, title in titles.items():
        own = [record for record in records if record.axes["method"] == method]
        if not own:
            continue
        effects = [
            mean([record.arrays["delta"][place] for record in own]) for place in range(len(input_names))
        ]
        frame = pd.DataFrame(
            {
                "method": title,
                "input": list(input_names),
                "mean": [each.value for each in effects],
                "interval_low": [each.low for each in effects],
                "interval_high": [each.high for each in effects],
                "n": len(own),
                "proved_low": np.mean([record.arrays["delta_low"] for record in own], axis=0),
                "proved_high": np.mean([record.arrays["delta_high"] for record in own], axis=0),
                "LIME slope": np.mean([record.arrays["lime"] for record in own], axis=0),
            }
        )
        parts.append(frame.sort_values("mean", key=np.abs, ascending=False, kind="stable"))
    return pd.concat(parts, ignore_index=True)


def strongest_sentences(means: pd.DataFrame, shown: str) -> list[str]:
    """Return one sentence per method: which inputs move a probability most by their mean effect.

    Args:
        means: what `mean_table` returned.
        shown: whose probability it is.
    """
    said = []
    for method, own in means.groupby("method", sort=False):
        strongest = zip(own["input"][:NAMED], own["mean"][:NAMED], strict=True)
        named = ", ".join(f"{name} ({effect:+.3g})" for name, effect in strongest)
        points = counted(int(own["n"].iloc[0]), "test point")
        said.append(
            f"What moves {method}'s probability of {shown} most, by the mean effect Δ over {points} "
            f"(positive: it rises with the input): {named}."
        )
    return said
