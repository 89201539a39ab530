"""Claims about runtimes on made-up frames whose answers are known."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from gpsuite.experiments.robustness.runtime_mnist38.claims import runtime_statistics
from gpsuite.experiments.robustness.runtime_mnist38.tables import ratio_table

OURS, PAPER = "rkhs_taylor", "paper"


def frame(growth: float = 2.0) -> pd.DataFrame:
    """Boxes grow by `growth` per dimension at gamma .25 and not at .125; the paper's take 100 times as long."""
    rows = []
    for bound, slow in ((OURS, 1e-3), (PAPER, 1e-1)):
        for gamma in (0.125, 0.25):
            cells = [(d, 0.025) for d in range(1, 11)] + [(5, eps) for eps in (0.005, 0.01)]
            for d, eps in cells:
                boxes = (growth**d if gamma == 0.25 else 4.0) * 0.025 / eps
                for point in range(4):
                    rows.append(
                        {
                            "method": "laplace",
                            "bound": bound,
                            "gamma": gamma,
                            "d": d,
                            "eps": eps,
                            "point": point,
                            "boxes": boxes + point,
                            "closed": bound == OURS or d < 8,
                            "search_seconds": boxes * slow,
                            "box_share": 1.8 * gamma,
                            "gap": 0.01,
                        }
                    )
    return pd.DataFrame(rows)


def statistics(growth: float = 2.0) -> dict[str, float]:
    return {s.name: s.value for s in runtime_statistics(frame(growth), 0.025, OURS, PAPER)}


def test_thresholds() -> None:
    found = statistics()
    assert found["box_share_percent[gamma=0.25]"] == 50
    assert found["linear_programs_per_box[training_points=1000]"] == 2001
    assert found["share_dimensions_under_5_seconds"] == 1.0
    assert found["max_mean_seconds[bound=paper,gamma=0.25]"] == pytest.approx(102.4)
    assert found["share_points_under_10_seconds[gamma=0.125,d=10]"] == 1.0
    assert found["mean_under_2_seconds[gamma=0.25,d=5,eps=0.01]"] == 1.0
    assert found["share_boxes_rise_as_eps_falls"] == 1.0


def test_growth_with_the_dimension() -> None:
    found = statistics()
    # 2, 4, 8, 16, 32 boxes and 1.5 more on average: ten times their mean of 13.9 lies between d = 7 and d = 8
    assert found["last_dimension_before_explosion[bound=paper]"] == 7
    assert found["log_boxes_slope_smallest[bound=paper,gamma=0.25]"] > 0.4
    assert found["boxes_ratio[bound=paper,d=10]"] == pytest.approx(5.5 / 1025.5)


def test_without_growth_there_is_no_explosion() -> None:
    found = statistics(growth=1.0)
    assert math.isnan(found["last_dimension_before_explosion[bound=paper]"])
    assert found["log_boxes_slope_smallest[bound=paper,gamma=0.25]"] == pytest.approx(0.0, abs=1e-12)


def test_an_unclosed_search_makes_the_ratio_a_lower_bound() -> None:
    table = ratio_table(frame(), OURS, PAPER).set_index(["gamma", "d", "eps"])
    assert table.loc[(0.25, 7, 0.025), "ratio"] == "100"
    assert table.loc[(0.25, 8, 0.025), "ratio"] == "≥ 100"
    assert table.loc[(0.25, 8, 0.025), "closed by paper"] == 0
