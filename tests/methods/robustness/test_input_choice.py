from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from gpsuite.errors import UserError
from gpsuite.methods.robustness.input_choice import gradient_patch, nearest_pixels, shortest_lengthscales, sift_patch
from tests.arrays import Array


def picture(row: int, column: int) -> Array:
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


def test_sift_patch_lies_on_the_blob() -> None:
    places, chosen_by = sift_patch(picture(9, 3), 10)
    rows, columns = np.divmod(places, 14)
    assert chosen_by == "sift"
    assert abs(rows.mean() - 9) <= 2
    assert abs(columns.mean() - 3) <= 2


def test_sift_reports_that_the_gradient_had_to_choose() -> None:
    assert sift_patch(np.zeros((14, 14)), 4)[1] == "gradient"


def test_equal_lengthscales_are_taken_in_order() -> None:
    X = np.random.default_rng(0).standard_normal((9, 40))
    lengthscales = np.tile([2.0, 1.0], 20)
    assert shortest_lengthscales(lengthscales, X, 3).tolist() == [1, 3, 5]
    assert shortest_lengthscales(lengthscales, X, 21).tolist() == sorted([0, *range(1, 40, 2)])


def test_nearest_pixels_break_ties_by_place() -> None:
    """The four neighbours of a pixel are as far, and so are the four pixels about a corner."""
    assert nearest_pixels((5, 7), (2.0, 3.0), 3).tolist() == [10, 16, 17]
    assert nearest_pixels((5, 7), (1.5, 2.5), 2).tolist() == [9, 10]
    assert nearest_pixels((5, 7), (3.6, 5.8), 1).tolist() == [4 * 7 + 6]


@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_patch_is_around_the_largest_window(seed: int) -> None:
    """Energy summed pixel by pixel: central differences, one-sided at the edges; a Gaussian window of 1.5 pixels."""
    image = np.random.default_rng(seed).random((11, 17))
    by_row, by_column = np.empty_like(image), np.empty_like(image)
    for row in range(11):
        low, high = max(row - 1, 0), min(row + 1, 10)
        by_row[row] = (image[high] - image[low]) / (high - low)
    for column in range(17):
        low, high = max(column - 1, 0), min(column + 1, 16)
        by_column[:, column] = (image[:, high] - image[:, low]) / (high - low)
    rows, columns = np.mgrid[0:11, 0:17]
    away = (rows[..., None, None] - rows) ** 2 + (columns[..., None, None] - columns) ** 2
    energy = np.sum(np.exp(-away / (2.0 * 1.5**2)) * (by_row**2 + by_column**2), axis=(2, 3))
    middle = np.unravel_index(np.argmax(energy), image.shape)
    expected = nearest_pixels(image.shape, (float(middle[0]), float(middle[1])), 9)
    assert gradient_patch(image, 9).tolist() == expected.tolist()


class FakeOpenCV(ModuleType):
    """Returns given key points; keeps the image it was shown."""

    INTER_CUBIC = 2

    def __init__(self, *points: tuple[float, float, float, float]) -> None:
        """Take (column, row, response, size) of each key point, in the enlarged image."""
        super().__init__("cv2")
        self.points = [SimpleNamespace(pt=(x, y), response=r, size=s) for x, y, r, s in points]
        self.shown = np.empty(0)
        self.enlarged_to = (0, 0)

    def resize(self, grey: Array, size: tuple[int, int], interpolation: int) -> Array:
        self.enlarged_to = size
        assert interpolation == self.INTER_CUBIC
        self.shown = grey
        return grey

    def SIFT_create(self) -> FakeOpenCV:
        return self

    def detect(self, image: Array, mask: None) -> list[SimpleNamespace]:
        return self.points


@pytest.fixture
def fake_opencv(monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeOpenCV]:
    def install(*points: tuple[float, float, float, float]) -> FakeOpenCV:
        fake = FakeOpenCV(*points)
        monkeypatch.setitem(sys.modules, "cv2", fake)
        return fake

    return install


def test_the_key_point_is_brought_back_to_the_image(fake_opencv: Callable[..., FakeOpenCV]) -> None:
    """Enlarged four times, pixel (9, 3) covers columns 12 to 15 and rows 36 to 39: its centre is (13.5, 37.5)."""
    fake = fake_opencv((13.5, 37.5, 0.2, 3.0))
    image = picture(9, 3)[:, :12]
    assert sift_patch(image, 1) == ([9 * 12 + 3], "sift")
    assert fake.enlarged_to == (48, 56)
    fake_opencv((13.5 + 1.9, 37.5 - 1.9, 0.2, 3.0))
    places, _ = sift_patch(image, 4)
    assert places.tolist() == [8 * 12 + 3, 8 * 12 + 4, 9 * 12 + 3, 9 * 12 + 4]
    fake_opencv((13.5 + 2.1, 37.5, 0.2, 3.0))
    assert sift_patch(image, 1)[0].tolist() == [9 * 12 + 4]


def test_opencv_is_shown_grey_levels_from_0_to_255(fake_opencv: Callable[..., FakeOpenCV]) -> None:
    fake = fake_opencv((1.0, 1.0, 1.0, 1.0))
    sift_patch(np.array([[0.0, 0.5, 1.0], [-0.3, 1.7, 0.25]]), 1)
    assert fake.shown.dtype == np.uint8
    assert fake.shown.tolist() == [[0, 128, 255], [0, 255, 64]]


def test_the_strongest_key_point_wins_then_size_then_place(fake_opencv: Callable[..., FakeOpenCV]) -> None:
    image = np.zeros((14, 14))
    weak, strong = (5.5, 5.5, 0.1, 9.0), (29.5, 5.5, 0.3, 1.0)
    for points, place in (
        ([weak, strong], 14 + 7),
        ([(5.5, 5.5, 0.3, 1.0), (29.5, 5.5, 0.3, 2.0)], 14 + 7),
        ([(5.5, 9.5, 0.3, 1.0), (29.5, 5.5, 0.3, 1.0)], 14 + 7),
        ([(29.5, 5.5, 0.3, 1.0), (25.5, 5.5, 0.3, 1.0)], 14 + 6),
    ):
        for order in (points, points[::-1]):
            fake_opencv(*order)
            assert sift_patch(image, 1)[0].tolist() == [place]


def test_without_a_key_point_the_gradient_chooses_and_it_is_said(fake_opencv: Callable[..., FakeOpenCV]) -> None:
    fake_opencv()
    places, chosen_by = sift_patch(picture(9, 3), 6)
    assert chosen_by == "gradient"
    assert places.tolist() == gradient_patch(picture(9, 3), 6).tolist()
