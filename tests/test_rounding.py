"""Properties of rounded numbers: a statement stays true, and short."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.rounding import rounded, rounded_interval, rounded_units, sureness

finite = st.floats(allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e12, 1e12)
scales = st.floats(1e-6, 1e6)


def named(value: float) -> Fraction:
    """The shortest decimal that names a float."""
    return Fraction(repr(value))


@given(finite, st.integers(1, 17))
def test_a_rounded_number_is_on_its_side_and_near(value: float, digits: int) -> None:
    low, high = (Fraction(rounded(value, digits, side)) for side in (-1, 1))
    assert low <= named(value) <= high
    assert high - low <= abs(named(value)) * Fraction(10) ** (1 - digits)


@given(moderate, scales, moderate)
def test_units_are_changed_without_rounding_to_the_wrong_side(
    value: float, scale: float, offset: float
) -> None:
    exact = named(value) * named(scale) + named(offset)
    low, high = (Fraction(rounded_units(value, scale, offset, side)) for side in (-1, 1))
    assert low <= exact <= high


@given(moderate, st.floats(1e-3, 1e6), scales, moderate)
def test_an_interval_is_shown_no_wider_and_hardly_narrower(
    low: float, width: float, scale: float, offset: float
) -> None:
    high = low + width
    first, last = (Fraction(end) for end in rounded_interval(low, high, scale, offset))
    exact = [named(end) * named(scale) + named(offset) for end in (low, high)]
    assert exact[0] <= first <= last <= exact[1]
    assert last - first >= (exact[1] - exact[0]) * Fraction(99, 100)


@pytest.mark.parametrize(
    ("value", "side", "shown"),
    [(0.123412, 1, "0.1235"), (-0.123412, 1, "-0.1234"), (0.0, 1, "0"), (1e-12, 1, "1e-12"), (0.1, 1, "0.1")],
)
def test_short_forms(value: float, side: int, shown: str) -> None:
    assert rounded(value, 4, side) == shown


def test_a_small_spread_beside_a_large_offset_is_shown() -> None:
    assert rounded_units(1.5, 3.0, 1.7e9, 1) == "1700000004.5"
    assert rounded_interval(-1.0, 1.0, 3.0, 1.7e9) == ("1699999997", "1700000003")


def test_what_is_not_finite_is_named() -> None:
    assert rounded(float("inf"), 4, 1) == "inf"
    assert rounded_units(float("-inf"), 1.0, 0.0, -1) == "-inf"
    assert rounded_interval(0.0, float("inf")) == ("0", "inf")


@pytest.mark.parametrize(
    ("delta", "shown"),
    [(0.05, "95 %"), (1e-9, "99.9999999 %"), (1e-40, f"99.{'9' * 38} %"), (0.1, "90 %"), (1 / 3, None)],
)
def test_confidence_is_never_rounded_up(delta: float, shown: str | None) -> None:
    said = sureness(delta)
    assert shown is None or said == shown
    assert Fraction(said[:-2]) <= 100
    assert Fraction(said[:-2]) == 100 * (1 - named(delta))


def test_hardly_any_doubt_is_still_some() -> None:
    assert sureness(1e-70) != "100 %"


def test_an_interval_ends_inside_however_close_its_end_is() -> None:
    low, _ = rounded_interval(1e-80, 2.0, 1.0, 1.0)
    assert Decimal(low) > 1
