"""Choice of the inputs that may move: the shortest lengthscales, or the patch around an image's salient point.

Blaas et al. (2020, Sec. 6.1, App. E) free the pixels of a SIFT patch (Lowe 2004). They do not print how the pixels
follow from the key points. Here the pixels are those nearest to the centre of the key point of largest response.
`gradient_patch` chooses if an image has no key point. Its choice is reported as "gradient".

Equation: Blaas et al. 2020, Sec. 6.1, App. E
Equation: Lowe 2004
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.errors import UserError, missing_package

ENLARGED = 4  # SIFT needs more pixels than 14 x 14 to build its octaves
WINDOW = 1.5  # standard deviation in pixels of the window over which gradients are collected


def shortest_lengthscales(lengthscales: FloatArray, X: FloatArray, count: int) -> IntArray:
    """Return the `count` inputs with the shortest lengthscales (all if there are fewer), increasing.

    Inputs that are constant in X are left out: training does not move their lengthscales, so these have no information.

    Args:
        lengthscales: [D].
        X: training inputs [N, D].
        count: largest number of inputs.
    """
    live = np.flatnonzero(X.max(axis=0) > X.min(axis=0))
    order = np.argsort(lengthscales[live], kind="stable")
    return np.sort(live[order[:count]])


def sift_patch(image: FloatArray, count: int) -> tuple[IntArray, str]:
    """Return the `count` pixels nearest to the strongest SIFT key point, as positions in the image read row by row.

    The image is enlarged four times before detection. Without any key point, `gradient_patch` is used.

    Args:
        image: grey levels from 0 to 1, [h, w].
        count: number of pixels.

    Returns:
        the positions, increasing, and the rule that chose them: "sift" or "gradient".

    Raises:
        UserError: if the image has fewer pixels, or OpenCV is not installed.
    """
    try:
        cv2: Any = importlib.import_module("cv2")  # its stubs lack SIFT_create
    except ModuleNotFoundError as error:
        raise missing_package("cv2", "images", f"features=sift{count}", f"features=gradient{count}") or error from error
    grey = np.round(255 * np.clip(image, 0.0, 1.0)).astype(np.uint8)
    size = (ENLARGED * image.shape[1], ENLARGED * image.shape[0])
    large = cv2.resize(grey, size, interpolation=cv2.INTER_CUBIC)
    points: list[Any] = list(cv2.SIFT_create().detect(large, None))
    if not points:
        return gradient_patch(image, count), "gradient"
    best = max(points, key=lambda point: (point.response, point.size, -point.pt[1], -point.pt[0]))
    column, row = ((coordinate + 0.5) / ENLARGED - 0.5 for coordinate in best.pt)
    return nearest_pixels(image.shape, (row, column), count), "sift"


def gradient_patch(image: FloatArray, count: int) -> IntArray:
    """Return the `count` pixels nearest to the largest squared gradient, collected in a Gaussian window.

    Args:
        image: grey levels [h, w].
        count: number of pixels.

    Returns:
        positions in the image read row by row, increasing.

    Raises:
        UserError: if the image has fewer pixels.
    """
    from scipy.ndimage import gaussian_filter

    by_row, by_column = np.gradient(image)
    energy = gaussian_filter(by_row**2 + by_column**2, WINDOW, mode="constant")
    row, column = np.unravel_index(int(np.argmax(energy)), image.shape)
    return nearest_pixels(image.shape, (float(row), float(column)), count)


def nearest_pixels(shape: tuple[int, ...], middle: tuple[float, float], count: int) -> IntArray:
    """Return the `count` pixels nearest to (row, column), as positions counted row by row. Ties go to the first.

    Raises:
        UserError: if there are fewer pixels.
    """
    height, width = shape
    if count > height * width:
        raise UserError(f"features: {count} pixels requested, the image has {height * width}")
    rows, columns = np.divmod(np.arange(height * width), width)
    distance = (rows - middle[0]) ** 2 + (columns - middle[1]) ** 2
    return np.sort(np.argsort(distance, kind="stable")[:count])
