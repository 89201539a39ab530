"""The search over many intervals, on waves whose extremes are known: rounding, budgets, batches, broken bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.explain import lines as module
from gpsuite.methods.robustness.explain.lines import LineExtrema, PieceBounds, line_extrema
from gpsuite.methods.robustness.search.branch_and_bound import UnsoundBoundError

SHIFTS = np.array([0.3, 1.7, -2.0])


@dataclass
class Waves:
    """Line l has the probability 1/2 + .3 sin(3 x + shift_l), known up to `blur`; pieces by slope and curvature."""

    blur: float = 0.0
    short: tuple[float, float, float] = (0.0, 0.0, 0.0)
    width: int = 4
    sharpens: bool = False
    proposes: bool = True
    unknown: int = -1
    sizes: list[int] = field(default_factory=list)
    targets: list[FloatArray] = field(default_factory=list)

    def value(self, lines: IntArray, points: FloatArray) -> FloatArray:
        return np.asarray(0.5 + 0.3 * np.sin(3.0 * points + SHIFTS[lines]))

    def pieces(self, lines: IntArray, low: FloatArray, high: FloatArray) -> Any:
        self.sizes.append(len(lines))
        return Pieces(self, lines, low, high)

    def evaluate(self, lines: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        self.sizes.append(len(lines))
        found = self.value(lines, points)
        return found - self.blur, found + self.blur

    def outward_probability(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


@dataclass
class Pieces:
    waves: Waves
    lines: IntArray
    low: FloatArray
    high: FloatArray

    @property
    def sharpens(self) -> bool:
        return self.waves.sharpens

    def centre_scores(self) -> tuple[FloatArray, FloatArray]:
        if self.waves.proposes:
            return (np.full(len(self.low), np.nan),) * 2
        return self.waves.evaluate(self.lines, 0.5 * (self.low + self.high))

    def bound(self, sign: int, target: FloatArray) -> PieceBounds:
        self.waves.targets.append(target)
        centre, radius = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low)
        slope = sign * 0.9 * np.cos(3.0 * centre + SHIFTS[self.lines])
        outer = sign * self.waves.value(self.lines, centre) + np.abs(slope) * radius + 1.35 * radius**2
        outer = outer + self.waves.blur - np.array(self.waves.short)[self.lines]
        outer = np.where(self.lines == self.waves.unknown, np.nan, outer)
        point = centre + np.sign(slope) * radius if self.waves.proposes else np.full(len(centre), np.nan)
        return PieceBounds(outer, point)


def search(
    waves: Waves, sign: int, tolerance: float = 1e-6, budget: Budget | None = None
) -> tuple[LineExtrema, FloatArray]:
    """Return the extremes over seven intervals of three lines, and the true ones."""
    which = np.array([2, 0, 1, 1, 0, 2, 1])
    low = np.array([-1.0, 0.2, 0.0, 1.5, -2.0, 0.7, 0.4])
    high = low + np.array([2.0, 0.1, 3.0, 0.5, 0.0, 1.0, 0.3])
    found = line_extrema(waves, which, low, high, sign, tolerance, budget or Budget(boxes=20_000))
    assert np.all((low <= found.witness) & (found.witness <= high))
    truth = sign * waves.value(which, np.linspace(low, high, 20_001))
    return found, sign * truth.max(axis=0)


@pytest.mark.parametrize("proposes", [False, True])
@pytest.mark.parametrize("sharpens", [False, True])
@pytest.mark.parametrize("sign", [-1, 1])
def test_every_interval_closes_around_its_own_extreme(sign: int, sharpens: bool, proposes: bool) -> None:
    waves = Waves(sharpens=sharpens, proposes=proposes)
    found, truth = search(waves, sign)
    assert found.closed.all() and np.all(found.gap <= 1e-6) and found.sign == sign
    assert np.all(sign * (found.outer - truth) >= -1e-12) and np.all(sign * (truth - found.inner) >= -1e-8)
    attained = waves.value(np.array([2, 0, 1, 1, 0, 2, 1]), found.witness)
    np.testing.assert_allclose(attained, found.inner, atol=1e-12)


@pytest.mark.parametrize("sign", [-1, 1])
def test_what_is_attained_is_rounded_inwards_and_rounding_closes(sign: int) -> None:
    blur = 1e-3
    found, truth = search(Waves(blur=blur), sign, tolerance=0.0)
    assert found.closed.all()
    assert np.all(sign * (truth - found.inner) >= blur - 1e-9)
    # twice the width of what is known of the witness, beyond which nothing could be told apart
    assert np.all(found.gap <= 4.0 * blur + 1e-12) and np.all(found.gap >= 2.0 * blur - 1e-9)


@pytest.mark.parametrize("sign", [-1, 1])
def test_without_a_budget_all_that_is_known_is_that_it_is_a_probability(sign: int) -> None:
    found, _ = search(Waves(), sign, budget=Budget(boxes=0))
    assert found.boxes == 0 and not found.closed.any()
    assert np.all(found.inner == (0.0 if sign > 0 else 1.0))
    assert np.all(found.outer == (1.0 if sign > 0 else 0.0))
    np.testing.assert_array_equal(found.gap, 1.0)


def test_a_budget_of_boxes_is_kept_and_what_was_proved_stays() -> None:
    whole, truth = search(Waves(), 1)
    for boxes in (6, 7, 20, 50):
        budget = Budget(boxes=boxes + 3, spent_boxes=3)
        found, _ = search(Waves(), 1, budget=budget)
        assert found.boxes <= boxes and budget.spent_boxes == found.boxes + 3
        assert np.all(found.outer >= truth - 1e-12) and np.all(found.inner <= truth + 1e-8)
        assert found.boxes == 0 if boxes < 7 else found.boxes >= 7
        assert not found.closed.all() and np.all(found.outer >= whole.outer - 1e-12)
        if boxes == 7:
            assert np.any(found.outer < 1.0)
    spent, _ = search(Waves(), 1, budget=Budget(seconds=0.0))
    assert spent.boxes == 0 and np.all(spent.outer == 1.0)


def test_batches_hold_no_more_than_their_share_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    waves = Waves(width=5)
    whole, _ = search(waves, 1, tolerance=1e-3)
    monkeypatch.setattr(module, "ENTRIES", 14)
    parts = Waves(width=5)
    found, _ = search(parts, 1, tolerance=1e-3)
    assert max(waves.sizes) >= 7 and max(parts.sizes) == 2
    assert found.closed.all() and np.all(np.abs(found.inner - whole.inner) <= 1e-3)
    monkeypatch.setattr(module, "ENTRIES", 1)
    alone = Waves(width=5)
    assert search(alone, 1, tolerance=1e-3)[0].closed.all() and max(alone.sizes) == 1


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_line_without_bounds_stays_open_and_spoils_no_other(sign: int) -> None:
    found, truth = search(Waves(unknown=1), sign, tolerance=1e-4, budget=Budget(boxes=3000))
    lost = np.array([False, False, True, True, False, False, True])
    assert np.all(found.outer[lost] == (1.0 if sign > 0 else 0.0)) and not found.closed[lost].any()
    assert np.all(sign * (found.outer - truth)[~lost] >= -1e-12)


@pytest.mark.parametrize("sign", [-1, 1])
def test_a_bound_below_what_is_attained_is_unsound_and_the_worst_is_named(sign: int) -> None:
    waves = Waves(short=(0.05, 0.0, 0.02))
    with pytest.raises(UnsoundBoundError, match=r"attained 0\.[0-9]+ at .*, bound") as raised:
        search(waves, sign)
    attained, place, bound = (float(each) for each in re.findall(r"[-+]?[0-9.]+(?:e-?[0-9]+)?", str(raised.value)))
    assert waves.value(np.array([0]), np.array([place]))[0] == pytest.approx(attained, abs=1e-9)
    assert abs(bound) == pytest.approx(sign * attained - 0.05 if sign > 0 else attained + 0.05, abs=1e-2)


@pytest.mark.parametrize("sign", [-1, 1])
def test_closed_is_what_agrees_within_the_tolerance_or_twice_the_rounding(sign: int) -> None:
    for boxes in (7, 20, 30, 45, 60, 80):
        for blur, tolerance in ((4e-3, 1e-4), (1e-6, 2e-2)):
            found, _ = search(Waves(blur=blur), sign, tolerance, Budget(boxes=boxes))
            limit = max(tolerance, 2.0 * 2.0 * blur)
            np.testing.assert_array_equal(found.closed, found.gap <= limit * (1.0 + 1e-9))
    single = np.array([0.4])
    exact = line_extrema(Waves(), np.array([1]), single, single, sign, 0.0, Budget())
    assert exact.inner == exact.outer and exact.closed.all()


@pytest.mark.parametrize("place", [1.0, 1.0 + 2.0**-52])
def test_a_piece_without_a_float_inside_is_not_halved(place: float) -> None:
    """The centre of neighbours rounds to the lower one, or to the upper one."""
    low, high = np.array([place]), np.array([np.nextafter(place, 2.0)])
    found = line_extrema(Waves(unknown=1), np.array([1]), low, high, 1, 0.0, Budget(boxes=50))
    assert found.boxes == 1 and found.outer == 1.0 and not found.closed.any()


@pytest.mark.parametrize("sign", [-1, 1])
def test_bounds_are_asked_to_be_sharp_just_beyond_what_is_attained(sign: int) -> None:
    once, twice = Waves(proposes=False), Waves(sharpens=True, proposes=False)
    search(once, sign, tolerance=0.25, budget=Budget(boxes=7))
    search(twice, sign, tolerance=0.25, budget=Budget(boxes=7))
    # no point was proposed, so the second round is not asked for
    assert len(once.targets) == len(twice.targets) == 1
    best = np.abs(once.targets[0] - 0.25)
    assert np.all((once.targets[0] - 0.25 <= 0.8) & (best >= 0.2))
    sharp = Waves(sharpens=True)
    search(sharp, sign, tolerance=1e-9, budget=Budget(boxes=7))
    assert len(sharp.targets) == module.ROUNDS
    assert np.all(sharp.targets[1] >= sharp.targets[0])


@pytest.mark.parametrize(
    ("low", "high", "sign", "tolerance"),
    [(1.0, 0.0, 1, 0.1), (0.0, np.inf, 1, 0.1), (np.nan, 1.0, 1, 0.1), (0.0, 1.0, 0, 0.1), (0.0, 1.0, 1, -0.1),
     (-np.inf, 1.0, 1, 0.1)],
)  # fmt: skip
def test_what_is_no_interval_is_refused(low: float, high: float, sign: int, tolerance: float) -> None:
    with pytest.raises(ValueError, match="finite intervals"):
        line_extrema(Waves(), np.arange(2), np.array([0.0, low]), np.array([1.0, high]), sign, tolerance, Budget())
