"""Each fault of a figure is found, and a figure without faults has none."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from gpsuite.reporting.figure_faults import faults
from gpsuite.reporting.figures import STYLE


@pytest.fixture(autouse=True)
def house_style() -> Iterator[None]:
    with mpl.rc_context(fname=STYLE):
        yield


def curve(width: float = 6.4) -> Figure:
    fig = Figure(figsize=(width, 4.0))
    ax = fig.subplots()
    ax.plot([0.0, 1.0, 2.0], [0.2, 1.0, 0.4], "o-", label="curve")
    return fig


def test_a_figure_without_faults_has_none() -> None:
    assert faults(curve()) == []


def test_text_too_small_at_page_width_is_found() -> None:
    (fault,) = faults(curve(width=20.0))
    assert fault.startswith("text of 4.7 points at page width")


@pytest.mark.parametrize("bars", [False, True])
def test_marks_and_ends_of_bars_outside_the_axes_are_found_and_lines_may_leave(bars: bool) -> None:
    fig = curve()
    ax = fig.axes[0]
    ax.plot([0.0, 2.0], [0.0, 9.0], "-")
    ax.set_ylim(0.0, 1.2)
    assert faults(fig) == []
    if bars:
        ax.errorbar([1.0], [1.0], [[0.5], [0.5]], fmt="none", label="bar", capsize=0)
    else:
        ax.plot([1.0], [1.5], "s", label="lost")
    (fault,) = faults(fig)
    assert "outside the axes" in fault and fault.startswith("panel 1: 1 of ")


def test_a_legend_over_data_is_a_fault_where_there_is_room() -> None:
    fig = curve()
    fig.axes[0].legend(loc="upper center")
    assert faults(fig) == ["panel 1: the legend lies over data, and there is room elsewhere"]
    fig.axes[0].legend(loc="lower center")
    assert faults(fig) == []


def test_a_legend_over_data_is_none_where_every_place_has_some() -> None:
    fig = Figure(figsize=(6.4, 4.0))
    ax = fig.subplots()
    x, y = np.meshgrid(np.linspace(0.0, 1.0, 40), np.linspace(0.0, 1.0, 40))
    ax.plot(x.ravel(), y.ravel(), ".", label="everywhere")
    ax.legend()
    assert faults(fig) == []


@pytest.mark.parametrize("side", ["width", "height"])
def test_an_empty_half_is_found_unless_the_axis_begins_at_zero_or_others_share_it(side: str) -> None:
    fig = curve()
    ax = fig.axes[0]
    limit = ax.set_xlim if side == "width" else ax.set_ylim
    limit(-9.0, 2.1)
    (fault,) = faults(fig)
    assert fault.startswith("panel 1: the drawing fills ") and fault.endswith(side)
    limit(0.0, 2.1)
    assert faults(fig) == []


def test_panels_that_share_an_axis_fill_it_together() -> None:
    fig = Figure(figsize=(6.4, 4.0))
    low, high = fig.subplots(1, 2, sharey=True)
    low.plot([0.0, 1.0], [0.1, 0.3], "o")
    high.plot([0.0, 1.0], [2.0, 4.0], "o")
    assert faults(fig) == []


def test_a_line_across_the_axes_fills_the_other_direction_only() -> None:
    fig = curve()
    ax = fig.axes[0]
    ax.set_ylim(-9.0, 1.2)
    ax.axvline(1.0)
    assert len(faults(fig)) == 1
    ax.axhline(-8.0)
    assert faults(fig) == []
