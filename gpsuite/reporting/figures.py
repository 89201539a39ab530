"""Figures in one style, each saved with the numbers it shows. PNG files with a palette, a third of the bytes."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from gpsuite.reporting.files import write_bytes, write_text
from gpsuite.reporting.palette import LIMIT, NOTE
from gpsuite.text import visible_lines
from gpsuite.untrusted import UnusableFileError, open_png, read_png

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = 256
_PICTURE = "Comment", "shows images"
STYLE = Path(__file__).with_name("house.mplstyle")
_MATHEMATICS: set[str] = set()
_NOTE_CHARACTERS = 13  # an inch, at 9 points
_PANEL = (4.6, 3.6)  # inches, where a figure does not say its size
_LEGEND = 0.8  # inches
_LINE = 0.17  # inches, of 9 points
# columns of a figure's numbers that say how many values are behind a mark, the surest first
COUNTS = ("repetitions", "runs", "n", "points")
WATCHERS: list[Callable[[str, Figure], None]] = []  # called with the name of each figure, and it, as it is saved


@dataclass
class Drawing:
    """A figure while it is drawn.

    Attributes:
        fig: the figure.
        grid: its axes, [rows, columns].
        data: the numbers it shows, saved with it. To be set before the block ends.
    """

    fig: Figure
    grid: npt.NDArray[Any]
    data: pd.DataFrame | None = None

    @property
    def axes(self) -> list[Axes]:
        """All axes, row by row."""
        return list(self.grid.flat)

    @property
    def ax(self) -> Axes:
        """The first axes, of most figures the only one."""
        return self.axes[0]

    def name_axes(self, x: str, y: str) -> None:
        """Label the horizontal axes of the last row and the vertical axes of the first column."""
        for ax in self.grid[-1]:
            ax.set_xlabel(x)
        for ax in self.grid[:, 0]:
            ax.set_ylabel(y)

    def legend(
        self, where: Literal["above", "below"] = "above", columns: int = 3, title: str = "", rows: slice = slice(None)
    ) -> None:
        """Draw one legend outside the axes, for all or some rows, each label once."""
        shown: dict[str, Any] = {}
        for ax in self.grid[rows].flat:
            handles, labels = ax.get_legend_handles_labels()
            for label, handle in zip(labels, handles, strict=True):
                shown.setdefault(label, handle)
        if shown or title:
            columns = min(columns, max(len(shown), 1))
            self.fig.legend(
                list(shown.values()),
                list(shown),
                loc="outside upper center" if where == "above" else "outside lower center",
                ncols=columns,
                title=title or None,
            )


@contextmanager
def figure(
    folder: Path,
    name: str,
    note: str | None = None,
    *,
    source: str = "",
    rows: int = 1,
    columns: int = 1,
    size: tuple[float, float] | None = None,
    **subplots: Any,
) -> Iterator[Drawing]:
    """Draw a figure in house style, without a screen, and save it as the block ends.

    Writes `folder`/`name`.png, .pdf and .csv (the numbers it shows; their index is not written). Axes left empty
    are hidden. When the block raises, nothing is written.

    Args:
        folder: the run's figures folder.
        name: file name without ending.
        note: written small below the figure, such as `stand-in data` or `smoke scale`.
        source: the dataset of the numbers. Written below the figure with how many values are behind a mark.
        rows: of axes.
        columns: of axes.
        size: width and height in inches. By default the same for every panel.
        **subplots: for `matplotlib.pyplot.subplots`, such as sharex.

    Raises:
        ValueError: if the drawing was given no data.
        ResultsError: if a file cannot be written.
    """
    import matplotlib as mpl

    with mpl.rc_context(fname=STYLE):
        mpl.use("Agg")
        import matplotlib.pyplot as plt

        inches = size or (_PANEL[0] * columns, _PANEL[1] * rows + _LEGEND)
        fig, grid = plt.subplots(rows, columns, figsize=inches, squeeze=False, **subplots)
        drawing = Drawing(fig, grid)
        try:
            yield drawing
            if drawing.data is None:
                raise ValueError(f"figure {name}: no data given")
            _hide_empty(drawing.grid)
            numbers = drawing.data
            behind = counted({column: list(numbers[column]) for column in COUNTS if column in numbers})
            origin = ", ".join(text for text in (source, behind) if text) if source else ""
            _save(fig, drawing.data, folder, name, origin, note or "")
        finally:
            plt.close(fig)


def shrink(png: bytes, picture: bool = False) -> bytes:
    """Return a PNG with a palette. What has one already, or shows images, stays as it is.

    A `picture` shows images, which is noted in the file: a palette would tint their greys, and a page that inverts
    drawings must keep their colours.

    Raises:
        ValueError: if it is no PNG, or a damaged or too large one.
    """
    from PIL import Image, PngImagePlugin

    try:
        image = open_png(png)
        if image.mode == "P" or is_picture(png):
            return png
        flat = image.convert("RGB")
    except Exception as error:  # damage raises a dozen kinds, from SyntaxError to zlib.error
        raise ValueError(f"not a usable picture, {error}") from error
    stream, notes = io.BytesIO(), PngImagePlugin.PngInfo()
    if picture:
        notes.add_text(*_PICTURE)
        flat.save(stream, "PNG", pnginfo=notes, optimize=True)
    else:  # of Pillow's methods the one that keeps white white
        few = flat.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(stream, "PNG")
    return stream.getvalue()


def read_picture(path: Path) -> tuple[bytes, bytes]:
    """Return the content of a figure's file, and the same made small.

    Raises:
        UnusableFileError: naming the file, if it is anything but an undamaged PNG of a size that can be shown.
    """
    content = read_png(path)
    try:
        return content, shrink(content)
    except ValueError as error:
        raise UnusableFileError(f"{path}: {error}") from error


def is_picture(png: bytes) -> bool:
    """Return whether `shrink` noted in the file that it shows images."""
    return "\0".join(_PICTURE).encode("latin-1") in png[:2000]


def math_label(text: str) -> str:
    """Mark a text of ours: its parts between `$` are set as mathematics.

    Everything else on a figure is shown as written: it may be a column name, a class or a unit of a user's table.
    """
    _MATHEMATICS.add(text)
    return text


def _hide_empty(grid: npt.NDArray[Any]) -> None:
    # the axes above take over what hidden ones say about the horizontal axis
    for column in grid.T:
        above = None
        for ax in column:
            if not (ax.has_data() or ax.texts or ax.axison is False):
                ax.set_axis_off()
                if above is not None and above.axison:
                    above.tick_params(labelbottom=True)
                    above.set_xlabel(above.get_xlabel() or ax.get_xlabel())
            above = ax


def counted(columns: Mapping[str, Sequence[object]]) -> str:
    """Return how many values are behind a mark, `n = 10` or `n = 5 to 30`, from the surest of the `COUNTS` columns."""
    for name in COUNTS:
        try:
            found = sorted({int(float(str(value))) for value in columns.get(name, ()) if str(value)})
        except (ValueError, OverflowError):
            continue
        if found:
            return f"n = {found[0]}" if found[0] == found[-1] else f"n = {found[0]} to {found[-1]}"
    return ""


def _save(fig: Figure, data: pd.DataFrame, folder: Path, name: str, source: str, note: str) -> None:
    _show_texts_as_they_are(fig)
    for watch in WATCHERS:
        watch(name, fig)
    below = _draw_below(fig, source, note) if source or note else 0.0
    # dates would make equal figures differ
    image, page = _render(fig, "png", {}, below), _render(fig, "pdf", {"CreationDate": None}, below)
    write_bytes(folder / f"{name}.png", shrink(image, picture=any(ax.images for ax in fig.axes)))
    write_bytes(folder / f"{name}.pdf", page)
    write_text(folder / f"{name}.csv", data.to_csv(index=False, lineterminator="\n"))


def _show_texts_as_they_are(fig: Figure) -> None:
    """Let matplotlib parse mathematics only in texts marked by `math_label`, and in powers of ten."""
    from matplotlib.text import Text
    from matplotlib.ticker import LogFormatter

    powers = {
        label
        for axes in fig.axes
        for axis in (axes.xaxis, axes.yaxis)
        for formatter, ticks in (
            (axis.get_major_formatter(), axis.get_major_ticks()),
            (axis.get_minor_formatter(), axis.get_minor_ticks()),
        )
        if isinstance(formatter, LogFormatter)
        for tick in ticks
        for label in (tick.label1, tick.label2)
    }
    for each in fig.findobj(Text):
        if each not in powers and each.get_text() not in _MATHEMATICS:
            each.set_parse_math(False)
            each.set_text(visible_lines(each.get_text()))


def _draw_below(fig: Figure, source: str, note: str) -> float:
    """Write source and note below the figure, under any legend. Return the height in inches that they need."""
    width, height = (float(size) for size in fig.get_size_inches())
    texts = [
        (textwrap.wrap(visible_lines(text), max(20, int(_NOTE_CHARACTERS * width))), color)
        for text, color in ((source, LIMIT), (note, NOTE))
        if text
    ]
    fig.draw_without_rendering()
    fig.set_layout_engine("none")  # otherwise the page's new edge pulls legends onto the note
    for legend in fig.legends:
        legend.set_bbox_to_anchor((0.0, 0.0, 1.0, 1.0), transform=fig.transFigure)
    above = 0
    for lines, color in texts:
        place = -(0.04 + _LINE * above) / height
        written = fig.text(0.995, place, "\n".join(lines), ha="right", va="top", fontsize=9, color=color)
        written.set_parse_math(False)
        above += len(lines)
    return 0.08 + _LINE * above


def _render(fig: Figure, ending: str, metadata: dict[str, str | None], below: float) -> bytes:
    from matplotlib.transforms import Bbox

    stream = io.BytesIO()
    width, height = fig.get_size_inches()
    page = Bbox.from_bounds(0.0, -below, width, height + below)
    fig.savefig(stream, format=ending, metadata=metadata, bbox_inches=page if below else None)
    return stream.getvalue()
