"""Sentences: numbers are rounded to the side that keeps them true, and the trivial bound is called nothing."""

from __future__ import annotations

from gpsuite.experiments.perturbation.coverage_models import GROUPS
from gpsuite.experiments.sentences import (
    NOISE_WORDS,
    at_most,
    band_holds,
    certified,
    errors_bounded,
    percent_down,
    percent_up,
)


def test_percentages_are_rounded_outwards() -> None:
    assert (percent_up(0.12301), percent_down(0.12399)) == ("12.4 %", "12.3 %")
    assert (percent_up(0.3), percent_down(0.3)) == ("30 %", "30 %")  # .3 * 1000 is not 300 in floating point
    assert (percent_up(0.0), percent_down(1.0)) == ("0 %", "100 %")


def test_values_are_rounded_up_to_four_digits() -> None:
    given = (0.123401, 12345.2, 5.0, 5.000000000000001, 0.1, 0.0, 3e-7)
    assert [at_most(value) for value in given] == ["0.1235", "12350", "5", "5", "0.1", "0", "3e-7"]


def test_bounds_are_reported_with_their_probability_and_subject() -> None:
    said = errors_bounded(0.01, 0.2501, "5 (y)", "the kept model")
    assert said == (
        "With probability 99 %, at most 25.1 % of the predictions of the kept model are off by more than 5 (y)."
    )
    assert "at least 89.9 %" in certified(0.05, 0.8999, "the kept model", "an input is off")


def test_the_trivial_bound_says_that_nothing_is_proved() -> None:
    said = errors_bounded(0.01, 1.0, "5 (y)", "the kept model")
    assert said.startswith("Nothing is proved")
    assert "at most" not in said


def test_a_band_names_the_noise_that_its_perturbations_need() -> None:
    assert set(NOISE_WORDS) == set(GROUPS)
    said = {group: band_holds(0.95, "lssvm_linear", 1.0, "y", group) for group in GROUPS}
    assert "symmetric and independent," in said["signs"]
    assert "symmetric" not in said["permutations"]
    assert "symmetric, independent and of one distribution" in said["signed_permutations"]
    assert "take group=signs" in band_holds(0.95, "lssvm_linear", None, "y", "permutations")
