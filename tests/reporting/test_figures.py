from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

from gpsuite.reporting.figures import figure_style, math_label, method_style, save_figure
from gpsuite.text import visible

DATA = pd.DataFrame({"epsilon": [0.2, 0.4], "bound": [0.1 + 0.2, 0.5]})


def draw(folder: Path, note: str | None = None) -> None:
    with figure_style():
        figure, axes = plt.subplots()
        axes.plot(DATA["epsilon"], DATA["bound"], label="kl_pac_gp", **method_style("kl_pac_gp"))
        axes.set_xlabel("eps")
        axes.legend()
        save_figure(figure, DATA, folder, "bound", note)


def test_three_files_byte_reproducible_and_figure_closed(tmp_path: Path) -> None:
    draw(tmp_path / "a")
    draw(tmp_path / "b")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["bound.csv", "bound.pdf", "bound.png"]
    for ending in ("csv", "pdf", "png"):
        assert (tmp_path / f"a/bound.{ending}").read_bytes() == (tmp_path / f"b/bound.{ending}").read_bytes()
    assert b"CreationDate" not in (tmp_path / "a/bound.pdf").read_bytes()
    assert (
        pd.read_csv(tmp_path / "a/bound.csv", float_precision="round_trip")["bound"].tolist()
        == DATA["bound"].tolist()
    )
    assert plt.get_fignums() == []


def test_note_is_drawn_below_the_axes(tmp_path: Path) -> None:
    with figure_style():
        figure, axes = plt.subplots()
        axes.set_xlabel("eps")
        save_figure(figure, DATA, tmp_path, "bound", "stand-in data")
    (text,) = figure.texts
    assert text.get_text() == "stand-in data" and text.get_fontsize() >= 9
    assert text.get_window_extent().y1 <= axes.get_tightbbox().y0


def test_a_long_note_is_wrapped_below_the_lowest_legend(tmp_path: Path) -> None:
    with figure_style():
        figure, axes = plt.subplots(figsize=(4, 3))
        axes.plot([0, 1], label="a")
        legend = figure.legend(loc="outside lower center")
        save_figure(figure, DATA, tmp_path, "bound", "word " * 40)
    (text,) = figure.texts
    box = text.get_window_extent()
    assert box.y1 <= legend.get_window_extent().y0
    assert box.x0 >= 0


def test_a_legend_stays_where_it_was_without_the_note(tmp_path: Path) -> None:
    rows = {}
    for note in (None, "smoke scale"):
        with figure_style():
            figure, axes = plt.subplots(figsize=(4, 3))
            axes.plot([0, 1], label="a")
            figure.legend(loc="outside lower center", labelcolor="#ff0000")
            save_figure(figure, DATA, tmp_path, "bound", note)
        red = plt.imread(tmp_path / "bound.png")[..., :3] @ [1.0, -1.0, -1.0] > 0.9
        rows[note] = np.flatnonzero(red.any(axis=1))[[0, -1]]
    # counted from above, as the page grows below; to a pixel, since the letters' edges are smoothed
    np.testing.assert_allclose(rows["smoke scale"], rows[None], atol=1)


def test_figure_is_closed_when_drawing_fails(tmp_path: Path) -> None:
    with figure_style():
        figure, axes = plt.subplots()
        axes.set_title(math_label("$\\frac{$"))
        with pytest.raises(ValueError):
            save_figure(figure, DATA, tmp_path, "bound")
    assert plt.get_fignums() == []
    assert list(tmp_path.iterdir()) == []


def test_style_is_legible_and_left_behind(tmp_path: Path) -> None:
    before = mpl.rcParams["font.size"], mpl.rcParams["axes.grid"]
    with figure_style():
        sizes = [
            mpl.rcParams[f"{part}size"]
            for part in ("xtick.label", "ytick.label", "legend.font", "axes.label")
        ]
        assert min(sizes) >= 9 and mpl.rcParams["savefig.dpi"] == 150
    assert (mpl.rcParams["font.size"], mpl.rcParams["axes.grid"]) == before


def test_method_style_is_fixed_and_differs_within_a_group() -> None:
    group = [method_style(name) for name in ("kl_pac_gp", "sqrt_pac_gp", "full_gp")]
    assert len({style["color"] for style in group}) == len({style["marker"] for style in group}) == 3
    # an unknown label keeps its style in every process: it comes from a hash that has no random start
    assert method_style("my own method") == {"color": "#009E73", "marker": "o"}


MISREAD = ("cost $ and $ {\\frac", "$x_{$", "_a^b_{", "\\nope$ $", "$$", "a\\$b", "\x1b[31m \u202e")


def test_texts_of_the_users_are_not_read_as_mathematics(tmp_path: Path) -> None:
    with figure_style():
        figure, (axes, bars) = plt.subplots(1, 2)
        for text in MISREAD:
            axes.plot([1, 10], [1, 2], label=f"line {text}")
            axes.annotate(text, (1, 1))
        axes.set(title=MISREAD[0], xlabel=MISREAD[1], ylabel=MISREAD[-1])
        bars.barh(range(len(MISREAD)), 1.0)
        bars.set_yticks(
            range(len(MISREAD)), [visible(text) for text in MISREAD]
        )  # names are so from the door on
        figure.legend(title=MISREAD[1])
        figure.suptitle(MISREAD[1])
        save_figure(figure, DATA, tmp_path, "odd", note=" ".join(MISREAD))
    assert (tmp_path / "odd.png").is_file()
    texts = [each for each in figure.findobj(Text) if "$" in each.get_text()]
    assert len(texts) > 20 and not any(each.get_parse_math() for each in texts)
    assert axes.yaxis.label.get_text() == visible(MISREAD[-1])


def test_our_own_mathematics_and_powers_of_ten_are_still_set(tmp_path: Path) -> None:
    with figure_style():
        figure, axes = plt.subplots()
        axes.loglog([1, 1e6], [1, 1e6])
        axes.set_ylabel(math_label("bound $B_{kl}$"))
        save_figure(figure, DATA, tmp_path, "ours")
    assert axes.yaxis.label.get_parse_math()
    powers = [label for label in axes.get_xticklabels() if "mathdefault" in label.get_text()]
    assert powers and all(label.get_parse_math() for label in powers)
