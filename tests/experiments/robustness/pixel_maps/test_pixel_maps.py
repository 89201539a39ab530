"""robustness/explain_mnist358: patches, statements that can fail, and the run on stand-in data."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.pixel_maps import (
    PixelMapSettings,
    by_digit,
    image_statistics,
    images_row,
    images_statistics,
    integral_statistics,
    middle,
    negative_pixels,
    probability_as_printed,
    random_patch,
    rectangle_mass,
    shown_images,
    strongest_patch,
)
from tests.experiments.robustness.safety_runs import run


def test_the_strongest_patch_is_connected_by_sides() -> None:
    chosen = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1], [1, 0, 0, 0]], dtype=bool)
    patch = strongest_patch(-np.ones((4, 4)), chosen)
    assert patch.sum() == 3 and patch[2, 3] and not patch[0, 0]
    np.testing.assert_allclose(middle(patch), [5.0 / 9.0, 7.0 / 9.0])
    effect = -np.ones((4, 4))
    effect[0, 1] = -3.0
    assert strongest_patch(effect, chosen).sum() == 2, "two strong pixels outweigh three weak ones"
    assert not strongest_patch(effect, np.zeros((4, 4), dtype=bool)).any()
    assert np.isnan(middle(np.zeros((3, 3), dtype=bool))).all()


def test_pixels_outside_the_core_neither_count_nor_set_the_limit() -> None:
    core = np.array([[True, True, True, False]])
    effect = np.array([[-0.6, -0.5, 1.0, -9.0]])
    assert negative_pixels(effect, core, 0.5).tolist() == [[True, False, False, False]]
    assert not negative_pixels(effect, np.zeros_like(core), 0.5).any()


def test_random_patches_are_connected_and_of_the_size() -> None:
    rng = np.random.default_rng(0)
    core = np.ones((4, 5), dtype=bool)
    for size in (1, 5, 12):
        patch = random_patch(core, size, rng)
        assert patch.sum() == size
        np.testing.assert_array_equal(strongest_patch(np.ones((4, 5)), patch), patch)
    assert not random_patch(core, 0, rng).any()
    core[:, 2] = core[0, :2] = False  # parts of 6 and 8 pixels
    for _ in range(20):
        patch = random_patch(core, 7, rng)
        assert patch.sum() == 7 and not patch[:, :3].any()


@pytest.mark.parametrize(
    ("row", "column", "left", "top_left"), [(0.2, 0.3, 1.0, 1.0), (0.7, 0.3, 1.0, 0.0), (0.2, 0.8, 0.0, 0.0)]
)
@pytest.mark.parametrize(("drop", "p_value"), [(0.1, 0.05), (0.0, 0.06)])
def test_statements_say_yes_and_no(
    row: float, column: float, left: float, top_left: float, drop: float, p_value: float
) -> None:
    metrics: dict[str, Any] = {
        "patch_row": row, "patch_column": column, "drop": drop, "top_left_size": 3, "p_value": p_value,
        "gains_most": "5", "probability": 0.6,
    }  # fmt: skip
    record = SimpleNamespace(axes={"digit": "3"}, metrics=metrics, number=lambda name: float(metrics[name]))
    values = {each.name: each.value for each in image_statistics(cast(Record, record))}
    assert values["class3_probability_drop"] == drop
    assert values["patch_pixels[digit=3]"] == 3.0
    assert values["gains_most_is_8[digit=3]"] == 0.0
    shares = {each.name: each.value for each in images_statistics([cast(Record, record)])}
    assert shares == {
        "share_patch_left_of_centre[digit=3]": left,
        "share_patch_in_top_left[digit=3]": top_left,
        "share_lowers_more_than_random[digit=3]": float(p_value <= 0.05),
        "share_class_probability_falls[digit=3]": float(drop > 0.0),
        "share_gains_most_is_8[digit=3]": 0.0,
    }


def image_record(digit: str, image: int, gains: str, column: float | None, drop: float, correct: bool = True) -> Record:
    metrics: dict[str, Any] = {
        "patch_row": 0.3, "patch_column": column, "drop": drop, "top_left_size": 2, "p_value": 0.01,
        "gains_most": gains, "correct": correct,
    }  # fmt: skip
    axes = {"digit": digit, "image": image}
    return cast(Record, SimpleNamespace(axes=axes, metrics=metrics, number=lambda name: float(metrics[name])))


@pytest.mark.parametrize(("others", "reached"), [(1, True), (12, False)])
def test_a_majority_of_images_must_be_shown(others: int, reached: bool) -> None:
    images = [image_record("5", k, "8", 0.2, 0.1) for k in range(14)]
    images += [image_record("5", 14 + k, "3", None, 0.3) for k in range(others)]
    wrong = image_record("5", 99, "3", 0.9, -9.0, correct=False)
    own = by_digit([*images, wrong, image_record("3", 0, "5", 0.2, 0.1)])
    assert [len(each) for each in own] == [14 + others, 1]
    found = images_statistics(own[0])[-1]
    assert found.name == "share_gains_most_is_8[digit=5]" and found.value == 14 / (14 + others)
    assert (found.judged("low") >= 0.5) is reached
    eights = images_statistics([image_record("8", k, "3", 0.2, 0.1) for k in range(2)])
    assert {each.name: each.value for each in eights}["share_gains_most_is_3[digit=8]"] == 1.0
    assert not any("gains" in s.name for s in images_statistics([image_record("7", 0, "3", 0.2, 0.1)]))
    row = images_row(own[0])
    assert row["gains most"] == f"8: 14, 3: {others}"
    assert row["patch left of the centre"] == row["in the top left quadrant"] == 14
    assert row["drop, from"] == pytest.approx(0.1)


def numbered(digit: str, image: int, number: int, probability: float) -> Record:
    metrics: dict[str, Any] = {"test_image": number, "probability": probability}
    axes = {"digit": digit, "image": image}
    return cast(Record, SimpleNamespace(axes=axes, metrics=metrics, number=lambda name: float(metrics[name])))


def test_the_printed_probability_is_looked_for_among_the_first_ten() -> None:
    far, near = numbered("3", 0, 4, 0.9), numbered("3", 1, 9, 0.577)
    others = [numbered("3", 2, 11, 0.58), numbered("5", 0, 1, 0.58)]
    (found,) = probability_as_printed([far, near, *others])
    assert (found.name, found.value) == ("class3_probability_before", 0.577)
    assert found.note == "test image 9, one of 2 3s among the first 10"
    assert probability_as_printed(others) == []
    settings = cast(PixelMapSettings, SimpleNamespace(shown=[9, 2]))
    assert shown_images([far, near, *others], settings) == [near, others[1]]


def integral_record(outside: int, printed: int) -> Any:
    metrics = {"rectangles": 10, "violations": outside, "printed_violations": printed,
               "median_relative_width": 0.4, "largest_correlation": 0.3}  # fmt: skip
    return SimpleNamespace(number=lambda name: float(metrics[name]))


@pytest.mark.parametrize(("outside", "printed", "fails"), [(0, 3, 1.0), (0, 0, 0.0), (2, 1, 1.0)])
def test_prop_4_is_refuted_by_any_mass_outside(outside: int, printed: int, fails: float) -> None:
    values = {
        each.name: (each.value, each.n)
        for each in integral_statistics([integral_record(outside, printed), integral_record(0, 0)])
    }
    assert values == {"violations_corrected_formula": (outside, 20), "printed_formula_fails": (fails, 20)}
    assert integral_statistics([]) == []


def test_masses_of_rectangles_multiply_where_nothing_is_correlated() -> None:
    mean, deviation = np.array([0.3, -1.0, 2.0]), np.array([0.5, 1.0, 2.0])
    lower = mean + deviation * np.array([-1.0, 0.2, 1.0])
    upper = lower + 0.8 * deviation
    mass = rectangle_mass(mean, np.diag(deviation**2), lower, upper)
    wanted = np.prod(ndtr((upper - mean) / deviation) - ndtr((lower - mean) / deviation))
    assert mass == pytest.approx(wanted, rel=1e-12)
    turned = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 1.0]])
    quadrant = [rectangle_mass(np.zeros(3), turned, np.zeros(3), np.array([k, k, 1.0])) for k in (0.5, 1.0)]
    assert quadrant[0] < quadrant[1] < 0.25 * (ndtr(1.0) - 0.5) * (1.0 + 2.0 * np.arcsin(0.6) / np.pi)


def test_a_run_draws_maps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)
    folder = run("explain_mnist358", "digits=['8']", "random_patches=3")
    numbers = pd.read_csv(folder / "figures" / "explain_mnist358.csv")
    assert len(numbers) == 196
    assert (numbers["proved_low"] <= numbers["effect"]).all()
    assert (numbers["effect"] <= numbers["proved_high"]).all()
    digits = pd.read_csv(folder / "tables" / "explain_mnist358.csv")["digit"].tolist()
    assert digits == [0], "the stand-in's first label"
    assert len(pd.read_csv(folder / "tables" / "explain_mnist358_timing.csv")) == 2
