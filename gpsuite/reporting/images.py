"""PNG files of few colours: a third of the bytes, nothing that an eye would miss."""

from __future__ import annotations

import io
import struct

_COLOURS = 256
_PICTURE = "Comment", "shows images"


def shrink(png: bytes, picture: bool = False) -> bytes:
    """Return a PNG with a palette; what has one already, shows images, or is no PNG, stays as it is.

    Args:
        png: the file's content.
        picture: whether it shows images: their greys would be tinted by a palette, and their colours must stay where
            a page inverts drawings; noted in the file.
    """
    from PIL import Image, PngImagePlugin, UnidentifiedImageError

    try:
        image = Image.open(io.BytesIO(png))
        if image.mode == "P" or is_picture(png):
            return png
        flat = image.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
        return png
    stream, notes = io.BytesIO(), PngImagePlugin.PngInfo()
    if picture:
        notes.add_text(*_PICTURE)
        flat.save(stream, "PNG", pnginfo=notes, optimize=True)
    else:  # of Pillow's methods the one that keeps white white
        few = flat.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(stream, "PNG")
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
