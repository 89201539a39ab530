"""What each change of a category's level does: its table, and the answer's sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.shared.categories import levels_of

if TYPE_CHECKING:
    import pandas as pd

NAMED = 3  # categories in the answer's sentence


def category_table(records: Sequence[Record], titles: Mapping[str, str], data: Dataset) -> pd.DataFrame:
    """Return one row per method, point and level of a category: how far it moves the class probability."""
    import pandas as pd

    pairs = levels_of(data)
    parts = []
    for record in records:
        row = data.X[int(record.number("row"))]
        own = [_level(data, row, name) for name, _ in pairs]
        parts.append(
            pd.DataFrame(
                {
                    "method": titles[str(record.axes["method"])],
                    "point": record.axes["point"],
                    "category": [name for name, _ in pairs],
                    "from": own,
                    "to": [level for _, level in pairs],
                    "change": record.arrays["switches"],
                }
            )
        )
    table = pd.concat(parts, ignore_index=True)
    return table[table["from"] != table["to"]].reset_index(drop=True)


def _level(data: Dataset, row: FloatArray, name: str) -> str:
    """Return a row's level of a category: where no input says it, it is the level that has none."""
    places = {each: place for place, each in enumerate(data.input_names)}
    said = {level: places.get(f"{name}={level}") for level in data.categories[name]}
    for level, place in said.items():
        if place is not None and row[place] == 1.0:
            return level
    return next(level for level, place in said.items() if place is None)


def category_sentences(table: pd.DataFrame, shown: str) -> list[str]:
    """Return one sentence per method: how far the best change of level moves a probability, on average over points.

    Args:
        table: what `category_table` returned.
        shown: whose probability it is.
    """
    said = []
    for method, own in table.groupby("method", sort=False):
        largest = own["change"].abs().groupby([own["category"], own["point"]]).max()
        means = largest.groupby("category").mean().sort_values(ascending=False, kind="stable")
        named = ", ".join(f"{name} ({value:.3g})" for name, value in means.iloc[:NAMED].items())
        said.append(
            f"Categories change from level to level: the change that moves {method}'s probability of {shown} most "
            f"moves it, on average over the same points, by: {named}."
        )
    return said
