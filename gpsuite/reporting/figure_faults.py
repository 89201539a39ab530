"""Find what makes a figure hard to read: small text, marks cut off, a legend over data, an empty half."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path
    from matplotlib.transforms import Bbox

PAGE = 10.5  # inches: the width of the results page's text column on a screen of 96 dots an inch
LEAST_TEXT = 7.0  # points, once the figure is as wide as the page
OUTSIDE = 3.0  # points that a mark's centre may lie outside its axes
LEAST_FILLED = 0.45  # share of an axis
_STEPS = 25  # points of a line between two data points, where a legend may lie


def faults(fig: Figure) -> list[str]:
    """Return one sentence for each fault of a finished figure, none if it is easy to read."""
    fig.draw_without_rendering()
    found = list(_small_text(fig))
    for number, ax in enumerate(fig.axes, start=1):
        if ax.axison and not _is_colour_bar(ax):
            found += [
                f"panel {number}: {fault}" for fault in (*_marks_outside(ax), *_hidden_data(ax), *_empty_half(ax))
            ]
    return found


def _is_colour_bar(ax: Axes) -> bool:
    return ax.get_label() == "<colorbar>"


def _small_text(fig: Figure) -> Iterator[str]:
    from matplotlib.text import Text

    shrunk = min(1.0, PAGE / float(fig.get_size_inches()[0]))
    shown = [text for text in fig.findobj(Text) if text.get_visible() and text.get_text().strip()]
    small = min(shown, key=lambda text: float(text.get_fontsize()), default=None)
    points = LEAST_TEXT if small is None else float(small.get_fontsize()) * shrunk
    if small is not None and points < LEAST_TEXT:
        yield f"text of {points:.1f} points at page width: {small.get_text()!r}"


def _marks_outside(ax: Axes) -> Iterator[str]:
    """Find markers and ends of error bars that the axes cut off. Lines and bands may leave the axes."""
    frame, slack = ax.get_window_extent(), OUTSIDE * ax.figure.dpi / 72.0
    for label, points in _marks(ax):
        away = _finite(points)
        inside = (
            (away[:, 0] >= frame.x0 - slack)
            & (away[:, 0] <= frame.x1 + slack)
            & (away[:, 1] >= frame.y0 - slack)
            & (away[:, 1] <= frame.y1 + slack)
        )
        if not inside.all():
            yield f"{int((~inside).sum())} of {len(away)} marks outside the axes: {label}"


def _marks(ax: Axes) -> Iterator[tuple[str, FloatArray]]:
    """Yield each artist's label and its marks in pixels, [n, 2]."""
    from matplotlib.collections import LineCollection, PathCollection

    for line in ax.lines:
        if line.get_visible() and line.get_marker() not in (None, "None", "", " ", ","):
            yield str(line.get_label()), _pixels(line, line.get_xydata())
    for each in ax.collections:
        if not each.get_visible():
            continue
        if isinstance(each, PathCollection) and _in_data(each.get_offset_transform(), ax):
            yield str(each.get_label()), np.asarray(each.get_offset_transform().transform(each.get_offsets()))
        elif isinstance(each, LineCollection) and _in_data(each.get_transform(), ax):
            ends = [segment for segment in each.get_segments() if len(segment) == 2]
            if ends:
                yield str(each.get_label()), _pixels(each, np.concatenate(ends))


def _hidden_data(ax: Axes) -> Iterator[str]:
    """Find a legend inside the axes over data where another corner or side is free."""
    legend = ax.get_legend()
    if legend is None or not legend.get_visible():
        return
    points = np.concatenate([_finite(each) for each in _drawn(ax)] or [np.empty((0, 2))])
    frame, box = ax.get_window_extent(), legend.get_window_extent()
    if (
        _within(box, frame)
        and _covered(points, box).any()
        and any(not _covered(points, free).any() for free in _places(frame, box))
    ):
        yield "the legend lies over data, and there is room elsewhere"


def _within(box: Bbox, frame: Bbox) -> bool:
    return bool(box.x0 >= frame.x0 - 1 and box.x1 <= frame.x1 + 1 and box.y0 >= frame.y0 - 1 and box.y1 <= frame.y1 + 1)


def _covered(points: FloatArray, box: Bbox) -> BoolArray:
    x, y = points.T
    return np.asarray((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1))


def _places(frame: Bbox, box: Bbox) -> Iterator[Bbox]:
    """Yield the nine places where a legend of this size may lie inside the axes."""
    from matplotlib.transforms import Bbox

    for x in (frame.x0, (frame.x0 + frame.x1 - box.width) / 2.0, frame.x1 - box.width):
        for y in (frame.y0, (frame.y0 + frame.y1 - box.height) / 2.0, frame.y1 - box.height):
            yield Bbox.from_bounds(x, y, box.width, box.height)


def _empty_half(ax: Axes) -> Iterator[str]:
    """Find axes whose drawing fills less than half of their width or height. An axis from 0 is filled from there.

    Panels that share an axis fill it together.
    """
    if ax.images:
        return
    for name, column, shared in (("width", 0, ax.get_shared_x_axes()), ("height", 1, ax.get_shared_y_axes())):
        together = [np.empty(0), *(_shares(each, column) for each in shared.get_siblings(ax) if each.axison)]
        values = np.concatenate(together)
        if len(values) and float(np.ptp(values)) < LEAST_FILLED:
            yield f"the drawing fills {100 * float(np.ptp(values)):.0f} % of the {name}"


def _shares(ax: Axes, column: int) -> FloatArray:
    """Return where along the axis something is drawn, as shares of its length. Lines across count along the other."""
    frame = ax.get_window_extent()
    first, length = ((frame.x0, frame.width), (frame.y0, frame.height))[column]
    legend = ax.get_legend()
    words = [text.get_window_extent() for text in (*ax.texts, *([legend] if legend else []))]
    drawn = [_finite(each)[:, column] for each in _drawn(ax, column)]
    drawn += [np.array([(box.x0, box.y0)[column], (box.x1, box.y1)[column]]) for box in words]
    from_zero = [first] if drawn and (ax.get_xlim(), ax.get_ylim())[column][0] == 0.0 else []
    return np.asarray(np.clip((np.concatenate([np.empty(0), *drawn, from_zero]) - first) / length, 0.0, 1.0))


def _drawn(ax: Axes, column: int | None = None) -> Iterator[FloatArray]:
    """Yield what has its place by data, along one axis or both, in pixels, [n, 2]."""
    for line in ax.lines:
        if line.get_visible() and _in_data(line.get_transform(), ax, column):
            yield _dense(_pixels(line, line.get_xydata()))
    yield from (points for _, points in _marks(ax))
    shapes: list[tuple[Artist, Sequence[Path]]] = [(each, each.get_paths()) for each in ax.collections]
    for each, paths in [*shapes, *((patch, [patch.get_path()]) for patch in ax.patches)]:
        transform = each.get_transform()
        if each.get_visible() and _in_data(transform, ax, column):
            yield from (np.asarray(transform.transform(path.vertices)) for path in paths)


def _in_data(transform: Any, ax: Axes, column: int | None = None) -> bool:
    by_data = transform.contains_branch_seperately(ax.transData)
    return all(by_data) if column is None else bool(by_data[column])


def _pixels(artist: Any, points: Any) -> FloatArray:
    with np.errstate(all="ignore"):  # a logarithm of 0 is not drawn
        return np.asarray(artist.get_transform().transform(np.asarray(points, dtype=np.float64)))


def _dense(known: FloatArray) -> FloatArray:
    if len(known) < 2 or len(known) > 500:
        return known
    shares = np.linspace(0.0, 1.0, _STEPS, endpoint=False)[:, None, None]
    return np.concatenate([((1.0 - shares) * known[:-1] + shares * known[1:]).reshape(-1, 2), known[-1:]])


def _finite(points: FloatArray) -> FloatArray:
    return np.asarray(points[np.isfinite(points).all(axis=1)])
