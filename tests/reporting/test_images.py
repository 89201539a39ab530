from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from gpsuite.reporting.figures import is_picture, pixels, shrink


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
    assert pixels(after) == (400, 300)


@pytest.mark.parametrize("content", [b"", b"no picture", png()[:100], b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_stays(content: bytes) -> None:
    assert shrink(content) == content
    assert not is_picture(content)


def test_a_picture_is_known_by_its_file() -> None:
    assert is_picture(shrink(png(), picture=True)) and not is_picture(shrink(png()))
    assert pixels(b"no picture") == (0, 0)


def test_a_picture_keeps_every_colour() -> None:
    whole = shrink(png(), picture=True)
    assert shrink(whole) is whole  # also on the page
    old, new = (np.asarray(Image.open(io.BytesIO(each)).convert("RGB"), int) for each in (png(), whole))
    assert (old == new).all()
