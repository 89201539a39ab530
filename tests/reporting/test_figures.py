from __future__ import annotations

import io
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from PIL import Image

from gpsuite.reporting.figures import counted, figure, is_picture, math_label, shrink
from gpsuite.reporting.palette import method_style
from gpsuite.text import visible
from gpsuite.untrusted import png_size

DATA = pd.DataFrame({"epsilon": [0.2, 0.4], "bound": [0.1 + 0.2, 0.5]})


def draw(folder: Path, note: str | None = None) -> None:
    with figure(folder, "bound", note) as drawing:
        drawing.data = DATA
        drawing.ax.plot(DATA["epsilon"], DATA["bound"], label="kl_pac_gp", **method_style("kl_pac_gp"))  # type: ignore[arg-type]
        drawing.ax.set_xlabel("eps")
        drawing.ax.legend()


def test_a_figure_is_three_reproducible_files_and_closed(tmp_path: Path) -> None:
    draw(tmp_path / "a")
    draw(tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["bound.csv", "bound.pdf", "bound.png"]
    for ending in ("csv", "pdf", "png"):
        assert (tmp_path / f"a/bound.{ending}").read_bytes() == (tmp_path / f"b/bound.{ending}").read_bytes()
    assert b"CreationDate" not in (tmp_path / "a/bound.pdf").read_bytes()
    assert (
        pd.read_csv(tmp_path / "a/bound.csv", float_precision="round_trip")["bound"].tolist() == DATA["bound"].tolist()
    )
    assert plt.get_fignums() == []


def test_note_is_drawn_below_the_axes(tmp_path: Path) -> None:
    with figure(tmp_path, "bound", "stand-in data") as drawing:
        drawing.data = DATA
        drawing.ax.plot([0, 1])
        drawing.ax.set_xlabel("eps")
    (text,) = drawing.fig.texts
    assert text.get_text() == "stand-in data" and text.get_fontsize() >= 9
    assert text.get_window_extent().y1 <= drawing.ax.get_tightbbox().y0


def test_the_source_and_the_number_of_values_stand_above_the_note(tmp_path: Path) -> None:
    for data, expected in ((DATA, "boston, 506 rows"), (DATA.assign(n=[10] * len(DATA)), "boston, 506 rows, n = 10")):
        with figure(tmp_path, "bound", "stand-in data", source="boston, 506 rows") as drawing:
            drawing.data = data
            drawing.ax.plot([0, 1])
        source, note = drawing.fig.texts
        assert (source.get_text(), note.get_text()) == (expected, "stand-in data")
        assert note.get_window_extent().y1 <= source.get_window_extent().y0 + 1
        assert source.get_window_extent().y1 <= drawing.ax.get_tightbbox().y0


def test_the_surest_column_says_how_many_values_are_behind_a_mark() -> None:
    assert counted({"n": ["5", "", "30.0"], "points": [1, 1]}) == "n = 5 to 30"
    assert counted({"n": [1, 2, 3], "runs": [10, 10]}) == "n = 10"
    assert counted({"n": ["many"], "points": [7.0]}) == "n = 7"
    assert counted({"x": [3]}) == counted({"n": [""]}) == ""


def test_a_long_note_is_wrapped_below_the_lowest_legend(tmp_path: Path) -> None:
    with figure(tmp_path, "bound", "word " * 40, size=(4, 3)) as drawing:
        drawing.data = DATA
        drawing.ax.plot([0, 1], label="a")
        drawing.legend("below")
    (text,), (legend,) = drawing.fig.texts, drawing.fig.legends
    box = text.get_window_extent()
    assert box.y1 <= legend.get_window_extent().y0
    assert box.x0 >= 0


def test_a_legend_stays_where_it_was_without_the_note(tmp_path: Path) -> None:
    rows = {}
    for note in (None, "smoke scale"):
        with figure(tmp_path, "bound", note, size=(4, 3)) as drawing:
            drawing.data = DATA
            drawing.ax.plot([0, 1], label="a")
            drawing.fig.legend(loc="outside lower center", labelcolor="#ff0000")
        red = plt.imread(tmp_path / "bound.png")[..., :3] @ [1.0, -1.0, -1.0] > 0.9
        rows[note] = np.flatnonzero(red.any(axis=1))[[0, -1]]
    # counted from above, as the page grows below; to a pixel, since the letters' edges are smoothed
    np.testing.assert_allclose(rows["smoke scale"], rows[None], atol=1)


def test_figure_is_closed_and_nothing_written_when_drawing_fails(tmp_path: Path) -> None:
    with pytest.raises(ValueError), figure(tmp_path, "bound") as drawing:
        drawing.data = DATA
        drawing.ax.set_title(math_label("$\\frac{$"))
    with pytest.raises(KeyError), figure(tmp_path, "bound") as drawing:
        drawing.data = DATA
        raise KeyError
    with pytest.raises(ValueError, match="figure bound: no data"), figure(tmp_path, "bound") as drawing:
        drawing.ax.plot([0, 1])
    assert plt.get_fignums() == []
    assert list(tmp_path.iterdir()) == []


def test_a_legend_names_each_label_once_and_empty_axes_are_hidden(tmp_path: Path) -> None:
    with figure(tmp_path, "bound", rows=2, columns=2) as drawing:
        drawing.data = DATA
        for ax, labels in zip(drawing.axes, ("ab", "bc", "d"), strict=False):
            for label in labels:
                ax.plot([0, 1], label=label)
        drawing.legend(columns=9)
        drawing.legend("below", rows=slice(1, None))
        drawing.name_axes("x", "y")
    above, below = ([text.get_text() for text in legend.texts] for legend in drawing.fig.legends)
    assert (above, below) == (["a", "b", "c", "d"], ["d"])
    assert [ax.axison for ax in drawing.axes] == [True, True, True, False]
    assert [ax.get_xlabel() for ax in drawing.axes] == ["", "x", "x", "x"]  # the hidden one's, said above it
    assert [ax.get_ylabel() for ax in drawing.axes] == ["y", "", "y", ""]


def test_axes_above_hidden_ones_show_the_ticks_they_share(tmp_path: Path) -> None:
    with figure(tmp_path, "bound", rows=2, columns=2, sharex=True) as drawing:
        drawing.data = DATA
        for ax in drawing.axes[:3]:
            ax.plot([0, 1])
    shown = [any(tick.label1.get_visible() for tick in ax.xaxis.get_major_ticks()) for ax in drawing.axes[:3]]
    assert shown == [False, True, True]


def test_style_is_legible_and_left_behind(tmp_path: Path) -> None:
    before = mpl.rcParams["font.size"], mpl.rcParams["axes.grid"]
    with figure(tmp_path, "bound") as drawing:
        drawing.data = DATA
        sizes = [mpl.rcParams[f"{part}size"] for part in ("xtick.label", "ytick.label", "legend.font", "axes.label")]
        assert min(sizes) >= 9 and mpl.rcParams["savefig.dpi"] == 150
    assert (mpl.rcParams["font.size"], mpl.rcParams["axes.grid"]) == before


MISREAD = ("cost $ and $ {\\frac", "$x_{$", "_a^b_{", "\\nope$ $", "$$", "a\\$b", "\x1b[31m \u202e")


def test_texts_of_the_users_are_not_read_as_mathematics(tmp_path: Path) -> None:
    with figure(tmp_path, "odd", " ".join(MISREAD), columns=2) as drawing:
        (axes, bars), drawing.data = drawing.axes, DATA
        for text in MISREAD:
            axes.plot([1, 10], [1, 2], label=f"line {text}")
            axes.annotate(text, (1, 1))
        axes.set(title=MISREAD[0], xlabel=MISREAD[1], ylabel=MISREAD[-1])
        bars.barh(range(len(MISREAD)), 1.0)
        bars.set_yticks(range(len(MISREAD)), [visible(text) for text in MISREAD])  # names are so from the door on
        drawing.fig.legend(title=MISREAD[1])
        drawing.fig.suptitle(MISREAD[1])
    assert (tmp_path / "odd.png").is_file()
    texts = [each for each in drawing.fig.findobj(Text) if "$" in each.get_text()]
    assert len(texts) > 20 and not any(each.get_parse_math() for each in texts)
    assert axes.yaxis.label.get_text() == visible(MISREAD[-1])


def test_our_own_mathematics_and_powers_of_ten_are_still_set(tmp_path: Path) -> None:
    with figure(tmp_path, "ours") as drawing:
        axes, drawing.data = drawing.ax, DATA
        axes.loglog([1, 1e6], [1, 1e6])
        axes.set_ylabel(math_label("bound $B_{kl}$"))
    assert axes.yaxis.label.get_parse_math()
    powers = [label for label in axes.get_xticklabels() if "mathdefault" in label.get_text()]
    assert powers and all(label.get_parse_math() for label in powers)


def png(mode: str = "RGBA") -> bytes:
    """Return a white drawing with a soft blue disc."""
    x, y = np.meshgrid(np.linspace(-1, 1, 400), np.linspace(-1, 1, 300))
    disc = np.clip(4 - 8 * np.hypot(x, y), 0, 1)[..., None]
    colours = 255 * (1 - disc) + disc * np.array([0, 114, 178])
    stream = io.BytesIO()
    Image.fromarray(colours.astype(np.uint8)).convert(mode).save(stream, "PNG")
    return stream.getvalue()


def test_a_drawing_becomes_small_and_looks_the_same() -> None:
    before, after = png(), shrink(png())
    assert len(after) < 0.95 * len(before)  # of real figures a third is left
    old, new = (np.asarray(Image.open(io.BytesIO(each)).convert("RGB"), int) for each in (before, after))
    assert np.abs(old - new).max() <= 12
    assert (new[0, 0] == 255).all()  # white stays white
    assert shrink(after) is after and shrink(png()) == after
    assert png_size(after) == (400, 300)


@pytest.mark.parametrize("content", [b"", b"no picture", png()[:100], b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a usable picture"):
        shrink(content)
    assert not is_picture(content)


def test_a_picture_is_known_by_its_file() -> None:
    assert is_picture(shrink(png(), picture=True)) and not is_picture(shrink(png()))


def test_a_picture_keeps_every_colour() -> None:
    whole = shrink(png(), picture=True)
    assert shrink(whole) is whole  # also on the page
    old, new = (np.asarray(Image.open(io.BytesIO(each)).convert("RGB"), int) for each in (png(), whole))
    assert (old == new).all()
