"""Words that choose the free inputs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError
from gpsuite.experiments.robustness.explain import is_image
from gpsuite.experiments.robustness.inputs import check_images, check_words, choose, describe, image_order, split_word
from gpsuite.models.config import ModelSpec


def test_words_are_split_and_described() -> None:
    assert split_word("all") == ("all", 0)
    assert split_word("sift10") == ("sift", 10)
    assert describe("shortest3") == "the 3 inputs of shortest lengthscale"
    for word in ("", "first", "first0", "sift-1", "All", "first3x"):
        with pytest.raises(UserError, match=r"unknown choice of inputs\nvalid: all"):
            split_word(word)


def test_more_inputs_than_there_are_cannot_be_asked_for() -> None:
    check_words(["first3", "all", "shortest9"], 3)  # shortest<N> means at most N
    with pytest.raises(UserError, match="features=first4: the dataset has 3 inputs"):
        check_words(["first4"], 3)


def test_stored_patches_have_ten_pixels() -> None:
    check_words(["vlfeat10"], 196)
    with pytest.raises(UserError, match="features=vlfeat11: the stored patches have 10 pixels"):
        check_words(["vlfeat11"], 196)


def test_an_image_without_a_stored_patch_gets_one_by_its_gradient() -> None:
    image = np.arange(196.0) / 195
    problem = SimpleNamespace(numbers=np.arange(196), input_names=[f"x{number}" for number in range(196)])
    found = choose("vlfeat5", problem, np.ones(196), image)  # type: ignore[arg-type]
    assert (found.by, len(found.inputs)) == ("gradient", 5)


def test_named_pixels_lie_where_they_say() -> None:
    names = [f"pixel_{row}_{column}" for column in range(3) for row in range(2)]  # column by column
    order = image_order(names)
    assert order.shape == (2, 3)
    assert [names[place] for place in order.ravel()] == [
        f"pixel_{row}_{column}" for row in range(2) for column in range(3)
    ]


def test_a_pixel_that_is_no_input_is_not_the_first_input() -> None:
    """A constant column of a table of images is left out; its place was that of input 0."""
    names = [f"pixel_{row}_{column}" for row in range(3) for column in range(3) if (row, column) != (2, 1)]
    told = r"no input is pixel_2_1 \(a constant column is none\), so they are no image. Use all, first<N>"
    with pytest.raises(UserError, match=told):
        check_images(["gradient3"], "pixels", names)
    data = Dataset("d", "classification", np.zeros((2, 8)), np.zeros((2, 1)), tuple(names), ("y",), "")
    assert not is_image(data)
    assert is_image(replace(data, X=np.zeros((2, 9)), input_names=(*names[:7], "pixel_2_1", names[7])))


def test_one_lengthscale_of_all_inputs_chooses_none() -> None:
    shared, own = ModelSpec(ard=False), ModelSpec(ard=True)
    told = "features=shortest2: the model has one lengthscale for all inputs.*model.ard=true.*, all or first2"
    with pytest.raises(UserError, match=told):
        check_words(["shortest2"], 3, shared)
    check_words(["shortest3", "first2"], 3, shared)
    check_words(["shortest2"], 3, own)


def test_other_inputs_are_a_square_or_no_image() -> None:
    assert np.array_equal(image_order(["a", "b", "c", "d"]), [[0, 1], [2, 3]])
    with pytest.raises(UserError, match="3 inputs are no image"):
        image_order(["a", "b", "c"])


def test_pixels_need_grey_levels() -> None:
    check_images(["sift3", "all"], "pixels", ["a", "b", "c", "d"])
    with pytest.raises(UserError, match="needs scaling=pixels, not train"):
        check_images(["gradient3"], "train")
    with pytest.raises(UserError, match="are no image"):
        check_images(["gradient3"], "pixels", ["a", "b", "c"])
