"""One panel, one palette, one registry of metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from gpsuite.config.files import group_choices, read_file
from gpsuite.experiments.wasserstein.images import line_styles
from gpsuite.reporting import palette
from gpsuite.reporting.metrics import METRICS, PROBABILITY, SHARE, headings, metric
from gpsuite.reporting.palette import DATASETS, dataset_style, method_style, numbered_style, panel
from tests.arrays import Array

TITLES = {"laplace": "Laplace", "ep": "EP", "absent": "not run"}
FRAME = pd.DataFrame(
    {
        "method": ["ep", "ep", "laplace", "laplace", "laplace"],
        "x": [4, 1, 1, 2, 4],
        "mean": [4.0, 1.0, 10.0, 20.0, 40.0],
        "standard_error": [0.5, np.nan, 1.0, 2.0, 4.0],
        "interval_low": [3.0, np.nan, 5.0, 15.0, 35.0],
        "interval_high": [6.0, np.nan, 17.0, 27.0, 47.0],
    }
)


@pytest.fixture
def ax() -> Iterator[Axes]:
    yield Figure().add_subplot()


def reaches(ax: Axes, number: int) -> Array:
    """Return lower and upper ends of a series' error bars, [k, 2]."""
    bars = ax.containers[number].lines[2][0]  # type: ignore[attr-defined]
    return np.array([[segment[0][1], segment[1][1]] for segment in bars.get_segments() if len(segment)])


def test_lines_go_through_the_means_with_one_standard_error_to_either_side(ax: Axes) -> None:
    panel(ax, FRAME, "x", TITLES)
    first, second = (container.lines[0] for container in ax.containers)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(first.get_xydata(), [[1, 10], [2, 20], [4, 40]])
    np.testing.assert_array_equal(second.get_xydata(), [[1, 1], [4, 4]])  # sorted, no gap where x is missing
    np.testing.assert_array_equal(reaches(ax, 0), [[9, 11], [18, 22], [36, 44]])
    np.testing.assert_array_equal(reaches(ax, 1), [[3.5, 4.5]])  # one repetition has no error, and no bar
    assert [each.get_label() for each in ax.containers] == ["Laplace", "EP"]
    assert {first.get_color(), second.get_color()} == {palette.BLUE, palette.VERMILION}


def test_intervals_may_be_one_sided_and_series_stand_apart(ax: Axes) -> None:
    panel(ax, FRAME, "x", TITLES, kind="points", error="interval", apart=0.2)
    np.testing.assert_array_equal(reaches(ax, 0), [[5, 17], [15, 27], [35, 47]])
    first, second = (container.lines[0] for container in ax.containers)  # type: ignore[attr-defined]
    np.testing.assert_allclose(first.get_xdata(), [0.9, 1.9, 3.9])
    np.testing.assert_allclose(second.get_xdata(), [1.1, 4.1])
    assert first.get_linestyle() == "None"


def test_ticks_give_names_in_their_order(ax: Axes) -> None:
    panel(ax, FRAME, "x", TITLES, kind="bars", ticks={4: "four", 1: "one", 2: "two"})
    assert [label.get_text() for label in ax.get_xticklabels()] == ["four", "one", "two"]
    heights = [[bar.get_height() for bar in series] for series in ax.containers if isinstance(series, BarContainer)]
    np.testing.assert_array_equal(heights[0], [40, 10, 20])
    np.testing.assert_array_equal(heights[-1], [4, 1, np.nan])
    centres = [[bar.get_center()[0] for bar in series] for series in ax.containers if isinstance(series, BarContainer)]
    np.testing.assert_allclose(centres, [[-0.2, 0.8, 1.8], [0.2, 1.2, np.nan]])  # nothing was measured at two


def test_a_band_is_shaded_and_styles_replace_the_methods(ax: Axes) -> None:
    panel(ax, FRAME, "x", TITLES, kind="band", styles={"ep": {"color": "red", "ls": "--"}})
    low, high = (ax.collections[0].get_datalim(ax.transData).y0, ax.collections[0].get_datalim(ax.transData).y1)
    assert (low, high) == (9, 44)
    assert [line.get_color() for line in ax.lines] == [palette.BLUE, "red"]
    assert ax.lines[1].get_linestyle() == "--" and ax.lines[1].get_marker() == "s"


def test_a_band_of_intervals_reaches_to_their_ends(ax: Axes) -> None:
    panel(ax, FRAME[FRAME["method"] == "laplace"], "x", TITLES, kind="band", error="interval")
    limits = ax.collections[0].get_datalim(ax.transData)
    assert (limits.y0, limits.y1) == (5, 47)


def test_every_shipped_method_has_a_style_of_its_own_in_its_family() -> None:
    families: dict[str, set[str]] = {}
    for experiment in group_choices()["experiment"]:
        names = read_file("experiment", experiment).get("methods") or []
        if experiment == "league":  # its figure has a colour per size, and no method
            continue
        families.setdefault(experiment.split("/")[0], set()).update(names)
        for one, other in combinations(names, 2):
            full = one.removesuffix("_full") == other.removesuffix("_full")  # told apart by their lines
            many = len(names) > len(palette.COLOURS)  # told apart by their markers too, see below
            assert full or many or method_style(one)["color"] != method_style(other)["color"], (experiment, one, other)
    assert set(group_choices()["method"]) == set(palette.METHODS)
    for names in families.values():
        pairs = [tuple(method_style(name).values()) for name in names]
        assert len(set(pairs)) == len(pairs)


def test_an_unlisted_method_keeps_a_style_that_no_listed_one_has() -> None:
    # the same in every process: it comes from a hash that has no random start
    style = method_style("my own method")
    assert style == method_style("my own method") == {"color": palette.ORANGE, "marker": "^"}
    assert (style["color"], style["marker"]) not in palette.METHODS.values()


def test_datasets_and_numbered_lines_differ() -> None:
    assert len({dataset_style(name)["color"] for name in DATASETS}) == len(DATASETS)
    styles = [numbered_style(number) for number in range(len(palette.COLOURS))]
    assert len({style["color"] for style in styles}) == len({style["marker"] for style in styles}) == len(styles)


def test_the_palette_is_the_style_file_s() -> None:
    house = Path(palette.__file__).with_name("house.mplstyle").read_text(encoding="utf-8")
    cycle = re.search(r"prop_cycle: .*\[(.*)\]", house)
    assert cycle is not None
    assert [f"#{colour}" for colour in re.findall(r"[0-9A-F]{6}", cycle[1])] == list(palette.COLOURS)


def test_no_experiment_names_a_colour_itself() -> None:
    folder = Path(palette.__file__).parents[1] / "experiments"
    for path in folder.rglob("*.py"):
        assert not re.findall(r"\"#[0-9A-Fa-f]{6}\"|\"C[\d{]", path.read_text(encoding="utf-8")), path


def test_headings_name_units_and_axes_also_where_it_is_better() -> None:
    assert metric("bound_kl").heading == "upper bound B_kl on the Gibbs risk"
    assert metric("bound_kl").axis == "upper bound B_kl (probability) ↓"
    assert metric("log_density").axis == "log density (nats) ↑"
    assert metric("mse_test").heading == metric("mse_test").short_heading == "test MSE (variances of target)"
    assert metric("nothing known").heading == "nothing known"


def test_a_name_with_two_meanings_belongs_to_its_family() -> None:
    assert metric("gap", "pac_bayes") != metric("gap", "robustness") and metric("gap").label == "gap"
    assert headings(["gap", "rmse", "splits"], "pac_bayes") == {"gap": "gap: test − training risk", "rmse": "RMSE"}


def test_which_way_is_better_follows_from_what_is_measured() -> None:
    higher = re.compile(r"precision|coverage|log_density|lower_kl|truth_inside")
    lower = re.compile(r"^bound|risk|mse|nll|distance|seconds|wasserstein|unbounded|delta")
    for name, each in METRICS.items():
        measured = name.split("/")[-1]
        if measured in ("bound_change", "bound_against_two_decimals", "interval_coverage", "nll_gain_by_test_rows"):
            assert not each.better, name  # closer to 0, or to the level, is better, or nothing is
        elif higher.search(measured):
            assert each.better == "higher", name
        elif lower.search(measured):
            assert each.better == "lower", name
        assert each.unit != PROBABILITY or "(" not in each.label, name
        assert each.unit != PROBABILITY or each.possible == SHARE, name


def test_kinds_of_inference_have_styles_of_their_own() -> None:
    assert len(set(palette.INFERENCES.values())) == len(palette.INFERENCES)
    assert len({palette.inference_style(name)["color"] for name in palette.INFERENCES}) == len(palette.INFERENCES)


def test_classifiers_of_one_colour_have_lines_of_their_own() -> None:
    names = read_file("experiment", "wasserstein/digits")["methods"]
    styles = line_styles(names)
    pairs = {(style["color"], style["linestyle"]) for style in styles.values()}
    assert len(pairs) == len(names) > len(palette.COLOURS)


def test_a_tint_is_opaque_and_the_more_white_the_smaller_its_share() -> None:
    assert [palette.tint(palette.BLUE, share) for share in (0.0, 0.5, 1.0)] == ["#ffffff", "#80b8d8", "#0072b2"]
