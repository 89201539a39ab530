"""What the panels of a region's figure and its table say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gpsuite.experiments.base import Record
from gpsuite.experiments.perturbation.region import _draw_bands, size_table

LEVELS = [f"pointwise extremes, 1 - q/m = {level}" for level in (0.95, 0.8)]
ELLIPSOID = "ellipsoid, 1 - q/m = 0.95"


@pytest.mark.parametrize(
    ("height", "outer", "named", "unbounded"),
    [
        ((1.0, 0.5), 2.0, [*LEVELS, ELLIPSOID], []),
        ((np.inf, 0.5), np.inf, LEVELS[1:], [LEVELS[0], ELLIPSOID]),
        ((np.inf, np.inf), np.inf, [], [*LEVELS, ELLIPSOID]),
    ],
)
def test_what_is_unbounded_stands_in_the_panel_and_not_in_the_legend(
    height: tuple[float, float], outer: float, named: list[str], unbounded: list[str]
) -> None:
    x = np.arange(3.0)
    arrays: dict[str, Any] = {"x": x, "estimate": x}
    heights = {"ellipsoid_{end}_5": outer, "pointwise_{end}_5": height[0], "pointwise_{end}_20": height[1]}
    for name, by in heights.items():
        arrays |= {name.format(end="lower"): x - by, name.format(end="upper"): x + by}
    figure, ax = plt.subplots()
    record: Any = SimpleNamespace(arrays=arrays)
    settings: Any = SimpleNamespace(excluded=[20, 5], m=100)
    _draw_bands(ax, record, settings)
    assert ax.get_legend_handles_labels()[1] == [*named, "estimate"]
    written = [line for text in ax.texts for line in text.get_text().splitlines()]
    assert written == (["unbounded:", *unbounded] if unbounded else [])
    plt.close(figure)


def test_what_is_unbounded_is_infinite_in_the_table() -> None:
    widths = {"radius_1": None, "pointwise_width_1": 2.5, "ellipsoid_width_1": None}
    counts = {
        "unbounded_share_1": 0.5,
        "members_1": 3,
        "members_outside_ellipsoid_1": 0,
        "n": 9,
        "coefficients": 2,
    }
    axes: dict[str, str | int | float] = {"model": "lssvm_linear"}
    record = Record("key", "perturbation/region", "", axes, "done", "", {**widths, **counts}, {})
    settings: Any = SimpleNamespace(excluded=[1], m=20)
    row = size_table([record], settings).iloc[0]
    assert (row["radius"], row["pointwise_width"], row["ellipsoid_width"]) == (np.inf, 2.5, np.inf)
