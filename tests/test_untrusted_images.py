"""Pictures that others made: only PNG is decoded, sizes are read first, a wrong one is named and left out."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gpsuite.reporting.figures import read_picture
from gpsuite.reporting.gallery import write_gallery
from gpsuite.reporting.pages import write_report
from gpsuite.untrusted import LARGEST_PICTURE, MOST_PIXELS, UnusableFileError, open_png

CONF = Path(__file__).parents[1] / "conf"
RUN = "pac_bayes/one/paper"
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(%pipe%touch started) (w) file\nshowpage\n"


def picture(mode: str = "RGB", ending: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.arange(3000, dtype=np.uint8).reshape(20, 50, 3)).convert(mode).save(stream, ending)
    return stream.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def stating(width: int, height: int) -> bytes:
    """Return a small PNG that states any size: grey levels, all of them zero as far as they go."""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def other(ending: str) -> Callable[[], bytes]:
    return lambda: picture(ending=ending)


WRONG: dict[str, Callable[[], bytes]] = {
    "postscript": lambda: POSTSCRIPT,
    "gif": other("GIF"),
    "jpeg": other("JPEG"),
    "tiff": other("TIFF"),
    "bmp": other("BMP"),
    "states 100,000 x 100,000": lambda: stating(100_000, 100_000),
    "states 13,000 x 13,000": lambda: stating(13_000, 13_000),
    "states the largest numbers": lambda: stating(2**32 - 1, 2**32 - 1),
    "states no pixels": lambda: stating(0, 50),
    "empty": lambda: b"",
    "signature only": lambda: b"\x89PNG\r\n\x1a\n",
    "a head of another kind": lambda: picture()[:12] + b"IDAT" + picture()[16:],
    "cut short": lambda: picture()[:-40],
    "flipped": lambda: picture()[:60] + bytes([picture()[60] ^ 255]) + picture()[61:],
    "flipped with a palette": lambda: picture("P")[:-30] + bytes([picture("P")[-30] ^ 255]) + picture("P")[-29:],
    "secret": lambda: b"root:x:0:0:planted secret",
}


def page_with(results: Path, content: bytes) -> tuple[str, list[str]]:
    """Return the page of a run with a wrong and a right picture, and what was named."""
    folder = results / RUN / "figures"
    folder.mkdir(parents=True)
    (folder / "wrong.png").write_bytes(content)
    (folder / "right.png").write_bytes(picture())
    (results / RUN / "run.json").write_text(json.dumps({"title": "one"}))
    path, problems = write_report(results, CONF)
    return path.read_text(encoding="utf-8"), problems


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_picture_is_named_and_left_out_and_the_page_is_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.Popen", lambda *_args, **_more: pytest.fail("a decoder started a program"))
    text, problems = page_with(tmp_path, WRONG[kind]())
    assert [each for each in problems if "wrong.png" in each] == problems and len(problems) == 1
    assert problems[0].count("\n") == 0 and "not a usable picture" in problems[0]
    assert text.count("<img ") == 1 and 'alt="right"' in text
    assert "planted secret" not in text


def test_a_picture_whose_file_is_too_large_is_left_out(tmp_path: Path) -> None:
    text, problems = page_with(tmp_path, picture() + bytes(LARGEST_PICTURE))
    assert len(problems) == 1 and "larger than" in problems[0] and text.count("<img ") == 1


def test_the_gallery_leaves_a_wrong_picture_out_too(tmp_path: Path) -> None:
    page_with(tmp_path / "published", POSTSCRIPT)
    path = write_gallery(tmp_path, CONF)
    assert path is not None
    assert "wrong.png" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [(5000, 5000), (1, MOST_PIXELS)])
def test_the_largest_size_is_let_through_and_one_more_pixel_is_not(size: tuple[int, int]) -> None:
    assert open_png(stating(*size)).size == size
    with pytest.raises(ValueError, match="pixels"):
        open_png(stating(size[0], size[1] + 1))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1"])
def test_every_kind_of_undamaged_png_is_shown(mode: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture(mode))
    content, small = read_picture(tmp_path / "a.png")
    assert content == picture(mode) and Image.open(io.BytesIO(small)).size == (50, 20)


def test_no_damage_of_a_png_ends_in_another_error(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(55), tmp_path / "a.png"
    shown = 0
    for _ in range(400):
        content = bytearray(picture(["RGB", "P", "L"][rng.integers(3)]))
        for place in rng.integers(len(content), size=rng.integers(1, 4)):
            content[place] = rng.integers(256)
        path.write_bytes(bytes(content[: rng.integers(1, 2 * len(content))]))
        try:
            read_picture(path)
            shown += 1
        except UnusableFileError as error:
            assert str(path) in str(error)
    assert shown < 200
