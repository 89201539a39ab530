from __future__ import annotations

import numpy as np
import pytest

from gpsuite.errors import UserError
from gpsuite.methods.robustness import input_choice
from gpsuite.methods.robustness.input_choice import (
    gradient_patch,
    nearest_pixels,
    shortest_lengthscales,
    sift_patch,
)


def picture(row: int, column: int) -> np.ndarray:
    """Return a dark image with one bright blob."""
    rows, columns = np.mgrid[0:14, 0:14]
    return np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 4.0)


def test_shortest_lengthscales_leave_out_constant_inputs() -> None:
    X = np.random.default_rng(0).standard_normal((20, 5))
    X[:, 1] = 0.3  # a dead pixel keeps its first lengthscale, here the shortest of all
    found = shortest_lengthscales(np.array([5.0, 0.01, 2.0, 1.0, 3.0]), X, 2)
    assert found.tolist() == [2, 3]
    assert shortest_lengthscales(np.ones(5), X, 9).tolist() == [0, 2, 3, 4]


def test_nearest_pixels_are_around_the_middle() -> None:
    assert nearest_pixels((4, 5), (1.0, 2.0), 5).tolist() == [2, 6, 7, 8, 12]
    assert nearest_pixels((4, 5), (0.0, 0.0), 20).tolist() == list(range(20))
    with pytest.raises(UserError, match="the image has 20"):
        nearest_pixels((4, 5), (0.0, 0.0), 21)


@pytest.mark.parametrize(("row", "column"), [(4, 5), (9, 3), (10, 10)])
def test_gradient_patch_lies_on_the_blob(row: int, column: int) -> None:
    places = gradient_patch(picture(row, column), 10)
    rows, columns = np.divmod(places, 14)
    assert len(set(places.tolist())) == 10
    assert abs(rows.mean() - row) <= 2.5
    assert abs(columns.mean() - column) <= 2.5


def test_sift_without_opencv_names_the_extra_and_the_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_choice, "OPENCV", "no_such_module")
    with pytest.raises(UserError, match=r"gpsuite\[sift\].*\n.*features=gradient"):
        sift_patch(picture(4, 5), 10)


def test_sift_patch_lies_on_the_blob() -> None:
    pytest.importorskip("cv2", reason="needs the extra sift")
    places, chosen_by = sift_patch(picture(9, 3), 10)
    rows, columns = np.divmod(places, 14)
    assert chosen_by == "sift"
    assert abs(rows.mean() - 9) <= 2
    assert abs(columns.mean() - 3) <= 2


def test_sift_says_so_when_the_gradient_had_to_choose() -> None:
    pytest.importorskip("cv2", reason="needs the extra sift")
    assert sift_patch(np.zeros((14, 14)), 4)[1] == "gradient"
