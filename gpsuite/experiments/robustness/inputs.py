"""Categories among the inputs: they change from level to level, not by fractions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.sources.vlfeat_patches import MOST_PIXELS, vlfeat_patch
from gpsuite.errors import UserError, missing_package
from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.classifiers import Problem
from gpsuite.experiments.settings import Rule
from gpsuite.methods.robustness.input_choice import gradient_patch, shortest_lengthscales, sift_patch
from gpsuite.models.config import ModelSpec

WORD = re.compile(r"(all)|(first|shortest|sift|vlfeat|gradient)([1-9]\d*)")
MEANING = {
    "all": "all inputs",
    "first": "the first {} inputs",
    "shortest": "the {} inputs of shortest lengthscale",
    "sift": "the {} pixels nearest to the strongest SIFT key point",
    "vlfeat": "{} pixels of VLFeat's largest SIFT key point",
    "gradient": "the {} pixels around the largest gradient",
}
VALID = (
    "valid: all, first<N>, shortest<N>, and for images sift<N>, gradient<N>, N from 1. "
    f"For the test images of mnist38_first also vlfeat<N>, N to {MOST_PIXELS}"
)
choice_of_inputs = Rule(lambda word: WORD.fullmatch(word) is not None, f"unknown choice of inputs\n{VALID}")
BY_NAME = "name"  # what chose inputs that the user named
PIXEL = re.compile(r"pixel_(\d+)_(\d+)")


def levels_of(data: Dataset) -> list[tuple[str, str]]:
    """Return every category and level, S pairs, in the order of `switched`."""
    return [(name, level) for name, levels in data.categories.items() for level in levels]


def switched(problem: Problem, data: Dataset, x: FloatArray) -> FloatArray:
    """Return a scaled point [D] with each level of each category in turn, [S, D]."""
    found = []
    for name, levels in data.categories.items():
        inputs = {f"{name}={level}" for level in levels}
        places = np.array([place for place, each in enumerate(data.input_names) if each in inputs])
        for level in levels:
            own = np.array([float(data.input_names[place] == f"{name}={level}") for place in places])
            point = x.copy()
            point[places] = (own - problem.offset[places]) / problem.scale[places]
            found.append(point)
    return np.array(found).reshape(len(found), len(x))


@dataclass(frozen=True)
class Chosen:
    """Free inputs and what chose them.

    Attributes:
        inputs: [d] indices, increasing.
        by: the rule that chose them: sift becomes gradient in an image without key points, vlfeat also in one that is
            not stored.
    """

    inputs: IntArray
    by: str


def refuse_categories_alone(numbers: int) -> None:
    """Raise `UserError` if no input is a number: levels of a category do not move by fractions."""
    told = "every input is a level of a category, which does not move by fractions. Name numbers among the inputs"
    require(numbers > 0, "dataset.inputs", "[]", told)


def version_with(data: Dataset, version: int) -> int:
    """Return the version of a task: another for tables with categories, whose levels once moved by fractions."""
    return version + 100 if data.level_inputs else version


def split_word(word: str) -> tuple[str, int]:
    """Return rule and number of a word, 0 for `all`.

    Raises:
        UserError: if it is not such a word.
    """
    choice_of_inputs.check("features", word)
    found = WORD.fullmatch(word)
    assert found is not None
    return (found[1], 0) if found[1] else (found[2], int(found[3]))


def describe(word: str, most: int | None = None) -> str:
    """Return a word's meaning.

    Args:
        word: one of `WORD`.
        most: how many inputs there were to choose, where that may be fewer than the word requests.
    """
    rule, count = split_word(word)
    shown = count if most is None else min(count, most)
    said = MEANING[rule].format(shown)
    return said.replace(" 1 inputs", " 1 input").replace(" 1 pixels", " 1 pixel")


def check_words(words: Sequence[str], inputs: int, model: ModelSpec | None = None) -> None:
    """Refuse unknown words, more inputs than there are, and the shortest of lengthscales if there is only one.

    Args:
        words: choices of inputs.
        inputs: how many there are.
        model: the model whose lengthscales choose, if it is known.

    Raises:
        UserError: naming the word.
    """
    for word in words:
        rule, count = split_word(word)
        fits = count <= inputs or rule == "shortest"  # these are all inputs then
        require(fits, "features", word, f"the dataset has {inputs} inputs")
        stored = count <= MOST_PIXELS or rule != "vlfeat"
        require(stored, "features", word, f"the stored patches have {MOST_PIXELS} pixels")
        several = model is None or model.ard or rule != "shortest" or count >= inputs
        told = "the model has one lengthscale for all inputs, which chooses none; model.ard=true gives one to each"
        require(several, "features", word, f"{told}, all or first{count} need none")


def check_images(words: Sequence[str], scaling: str, input_names: Sequence[str] | None = None) -> None:
    """Refuse the choice of an image's pixels where the inputs are no image, or no longer its grey levels.

    Args:
        words: choices of inputs.
        scaling: of the inputs.
        input_names: of the dataset, if they are known.

    Raises:
        UserError: naming the word.
    """
    for word in words:
        rule, count = split_word(word)
        if rule == "sift":
            missing = missing_package("cv2", "images", f"features={word}", f"features=gradient{count}")
            if missing is not None:
                raise missing
        if rule in ("sift", "vlfeat", "gradient"):
            told = f"is for images, and needs scaling=pixels, not {scaling}. For tables: all, first<N>, shortest<N>"
            require(scaling == "pixels", "features", word, told)
            if input_names is not None:
                image_order(input_names)


def choose(word: str, problem: Problem, lengthscales: FloatArray, x: FloatArray) -> Chosen:
    """Return the free inputs of a point: of a table only numbers, no levels of a category.

    Args:
        word: one of `WORD`.
        problem: gives the pixels' places and the training inputs.
        lengthscales: of the classifier, [D].
        x: the point, scaled. Pixels from 0 to 1, [D].

    Raises:
        UserError: if the word requests pixels and the inputs are no image.
    """
    rule, count = split_word(word)
    numbers = problem.numbers
    if rule == "all":
        return Chosen(numbers, rule)
    if rule == "first":
        return Chosen(numbers[:count], rule)
    if rule == "shortest":
        places = shortest_lengthscales(lengthscales[numbers], problem.X[:, numbers], count)
        return Chosen(numbers[places], rule)
    order = image_order(problem.input_names)
    places, by = _patch(rule, x[order], count)
    return Chosen(np.sort(order.ravel()[places]), by)


def _patch(rule: str, image: FloatArray, count: int) -> tuple[IntArray, str]:
    """Return pixels of an image, as places row by row, and the rule that chose them."""
    if rule == "sift":
        return sift_patch(image, count)
    stored = vlfeat_patch(image, count) if rule == "vlfeat" else None
    return (gradient_patch(image, count), "gradient") if stored is None else (stored, rule)


def image_order(input_names: Sequence[str]) -> IntArray:
    """Return which input is the pixel (row, column), [h, w].

    Names `pixel_ROW_COLUMN` say it. Other inputs are read as a square image row by row.

    Raises:
        UserError: if they can be neither.
    """
    named = [PIXEL.fullmatch(name) for name in input_names]
    if all(named):
        places = np.array([(int(each[1]), int(each[2])) for each in named if each is not None])
        order = np.full(places.max(axis=0) + 1, -1)
        order[places[:, 0], places[:, 1]] = np.arange(len(places))
        if order.min() < 0:
            row, column = np.argwhere(order < 0)[0]
            raise _no_image(f"no input is pixel_{row}_{column} (a constant column is none), so they")
        return order
    side = math.isqrt(len(input_names))
    if side * side != len(input_names):
        raise _no_image(f"{len(input_names)} inputs")
    return np.arange(side * side).reshape(side, side)


def _no_image(inputs: str) -> UserError:
    return UserError(f"features: {inputs} are no image. Use all, first<N> or shortest<N>", key="features")
