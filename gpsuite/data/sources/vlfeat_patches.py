"""The SIFT patches of Blaas et al. 2020, computed once: the key points of VLFeat 0.9.21 in MNIST's digits 3 and 8."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np

from gpsuite.arrays import FloatArray, IntArray

STORED = Path(__file__).with_suffix(".json")
MOST_PIXELS = 10  # number that the paper's code takes
LEVELS = 4 * 255  # a pixel is a mean of four bytes


def vlfeat_patch(image: FloatArray, count: int) -> IntArray | None:
    """Return the first pixels, column by column, of the disc around an image's largest key point.

    Args:
        image: grey levels from 0 to 1, [h, w].
        count: number of pixels, at most `MOST_PIXELS`.

    Returns:
        positions in the image read row by row, or None if the image is not stored or has no key point.
    """
    places = _patches().get(image_key(image))
    return np.array(places[:count]) if places else None


def image_key(image: FloatArray) -> str:
    """Return the name of an image in the stored file: a hash of its grey levels."""
    levels = np.round(LEVELS * image).astype("<u2")
    return hashlib.sha256(levels.tobytes()).hexdigest()[:16]


@cache
def _patches() -> dict[str, list[int]]:
    found: dict[str, list[int]] = json.loads(STORED.read_text(encoding="utf-8"))["patches"]
    return found
