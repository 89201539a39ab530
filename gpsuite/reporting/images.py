"""PNG files of few colours: a third of the bytes, nothing that an eye would miss."""

from __future__ import annotations

import io
import struct

_COLOURS = 256
_PICTURE = "Comment", "shows images"


def shrink(png: bytes, picture: bool = False) -> bytes:
    """Return a PNG with a palette; what has one already, or is no PNG, stays as it is.

    Args:
        png: the file's content.
        picture: whether it shows images, whose colours must stay where a page inverts drawings; noted in the file.
    """
    from PIL import Image, PngImagePlugin, UnidentifiedImageError

    try:
        image = Image.open(io.BytesIO(png))
        if image.mode == "P":
            return png
        flat = image.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
        return png
    # of Pillow's methods the one that keeps white white
    few = flat.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    notes = PngImagePlugin.PngInfo()
    if picture:
        notes.add_text(*_PICTURE)
    stream = io.BytesIO()
    few.save(stream, "PNG", pnginfo=notes)
    return stream.getvalue()


def is_picture(png: bytes) -> bool:
    """Whether `shrink` was told that the file shows images."""
    return "\0".join(_PICTURE).encode("latin-1") in png[:2000]


def pixels(png: bytes) -> tuple[int, int]:
    """Return width and height as the file's head says; zeros where it is no PNG."""
    if png[:8] != b"\x89PNG\r\n\x1a\n" or len(png) < 24:
        return 0, 0
    width, height = struct.unpack(">II", png[16:24])
    return int(width), int(height)
