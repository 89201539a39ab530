"""Figures in one style, each saved with the numbers it shows."""

from __future__ import annotations

import hashlib
import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.reporting.atomic import write_bytes, write_text
from gpsuite.text import visible_lines

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("house.mplstyle")

_MATHEMATICS: set[str] = set()

# Okabe and Ito's colours, as in house.mplstyle; the yellow is left out, being too light on white
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_NOTE_CHARACTERS = 13  # an inch, at 9 points
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
# methods that meet in one figure, so that their colours differ; others get theirs from the label's hash
_KNOWN = (
    ("kl_pac_gp", "sqrt_pac_gp", "full_gp"),
    ("kl_pac_sgp", "sqrt_pac_sgp", "vfe", "fitc", "vfe_fitc_posterior", "full_gp_sparse"),
    ("laplace", "ep", "hmc", "vi"),
    ("RS_MOGP", "AL_MOGP", "AL_indGPs", "AL_MOGP_nosafe", "AL_conv", "RS_conv"),
)


def method_style(name: str) -> dict[str, str]:
    """Return `color` and `marker` for a label: the same in every figure, to be passed on to `Axes.plot`."""
    for group in _KNOWN:
        if name in group:
            position = group.index(name)
            return {"color": _COLOURS[position % len(_COLOURS)], "marker": _MARKERS[position]}
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    marker = _MARKERS[number // len(_COLOURS) % len(_MARKERS)]
    return {"color": _COLOURS[number % len(_COLOURS)], "marker": marker}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw in house style, without a screen; figures made inside keep it until saved inside."""
    import matplotlib as mpl

    with mpl.rc_context(fname=STYLE):
        mpl.use("Agg")
        yield


def math_label(text: str) -> str:
    """Return a text of ours whose parts between `$` are to be set as mathematics.

    Everything else on a figure is shown as it stands: it may be a column name, a class or a unit of a user's table.
    """
    _MATHEMATICS.add(text)
    return text


def save_figure(
    fig: Figure, data_frame: pd.DataFrame, folder: Path, name: str, note: str | None = None
) -> None:
    """Write `folder`/`name`.png, .pdf and .csv (the plotted data) and close the figure.

    Args:
        fig: the finished figure.
        data_frame: the numbers it shows; its index is not written.
        folder: the run's figures folder.
        name: file name without ending.
        note: written small below the figure, such as `stand-in data` or `smoke scale`.

    Raises:
        ResultsError: if a file cannot be written.
    """
    import matplotlib.pyplot as plt

    try:
        _show_texts_as_they_are(fig)
        below = _draw_note(fig, note) if note else 0.0
        # dates would make equal figures differ
        image, page = _render(fig, "png", {}, below), _render(fig, "pdf", {"CreationDate": None}, below)
    finally:
        plt.close(fig)
    write_bytes(folder / f"{name}.png", image)
    write_bytes(folder / f"{name}.pdf", page)
    write_text(folder / f"{name}.csv", data_frame.to_csv(index=False, lineterminator="\n"))


def _show_texts_as_they_are(fig: Figure) -> None:
    """Keep matplotlib from reading mathematics into texts but those marked by `math_label`, and powers of ten."""
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


def _draw_note(fig: Figure, note: str) -> float:
    """Write the note below the figure, where no legend can lie; return the height in inches that it needs."""
    width, height = (float(size) for size in fig.get_size_inches())
    lines = textwrap.wrap(visible_lines(note), max(20, int(_NOTE_CHARACTERS * width)))
    fig.draw_without_rendering()
    fig.set_layout_engine(
        "none"
    )  # what is laid out stays; else the page's new edge pulls legends onto the note
    for legend in fig.legends:
        legend.set_bbox_to_anchor((0.0, 0.0, 1.0, 1.0), transform=fig.transFigure)
    below = fig.text(
        0.995, -0.04 / height, "\n".join(lines), ha="right", va="top", fontsize=9, color="#9a3412"
    )
    below.set_parse_math(False)
    return 0.08 + 0.17 * len(lines)


def _render(fig: Figure, ending: str, metadata: dict[str, str | None], below: float) -> bytes:
    from matplotlib.transforms import Bbox

    stream = io.BytesIO()
    width, height = fig.get_size_inches()
    page = Bbox.from_bounds(0.0, -below, width, height + below)
    fig.savefig(stream, format=ending, metadata=metadata, bbox_inches=page if below else None)
    return stream.getvalue()
