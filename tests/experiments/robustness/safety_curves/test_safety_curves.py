"""What a safety curve says in single numbers, and which point is displayed."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpsuite.budget import Budget
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.safety_curve_tasks import VERDICTS, Step, curve_metrics, linear_fit
from gpsuite.experiments.robustness.safety_curves import (
    BY_AUTHORS,
    LAST,
    RULES,
    SECOND,
    accuracy_gain,
    accuracy_table,
    choose_shown,
    curve_table,
    gpfgs_statistics,
    judged_panels,
    never_attacked,
    of_points,
    point_statistics,
)
from gpsuite.methods.robustness.point_search import probability_extremum
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.methods.robustness.verdict import binary_comparison
from gpsuite.models.classification.links import LINKS
from gpsuite.statistics.estimates import OF_POINTS
from tests.arrays import Array
from tests.models.gpc_problems import fitted_posterior

GAMMAS = [0.0, 0.5, 1.0]


def curve(point: int, inner: list[float], gpfgs: list[float], **metrics: Any) -> Record:
    """Return a record of a point of the negative class with a made-up curve."""
    values = np.array(inner)
    hit, attack = values > 0.5, np.array(gpfgs) > 0.5

    def first(where: Array) -> float | None:
        return GAMMAS[int(np.argmax(where))] if where.any() else None

    own: dict[str, Any] = {
        "label": "-1",
        "correct": inner[0] <= 0.5,
        "sign": 1,
        "cross_gamma": first(hit),
        "gpfgs_gamma": first(attack),
        "gpjm_gamma": None,
        "strong_gamma": first(hit),
        "attack_fails_radii": int(np.sum(hit & ~attack)),
        "linear_r2": 0.5,
        "witness_checked": bool(hit.any()),
        "monotone": True,
        "largest_gpfgs": max(gpfgs),
        **metrics,
    }
    arrays = {
        "gamma": np.array(GAMMAS),
        "inner": values,
        "outer": values + 0.01,
        "gpfgs": np.array(gpfgs),
        "gpjm": values * 0,
        "strong": values,
        "verdict": np.where(hit, VERDICTS.index("unsafe"), VERDICTS.index("safe")),
        "boxes": np.array([1, 2, 3]),
        "seconds": np.zeros(3),
    }
    axes = {"features": "all", "method": "laplace", "part": "point", "point": point}
    return Record(f"k{point}", "robustness/safety_spam", "", axes, "done", "", own, {}, arrays=arrays)  # type: ignore[arg-type]


NEVER = curve(0, [0.1, 0.2, 0.3], [0.1, 0.1, 0.1])
FOUND = curve(1, [0.1, 0.6, 0.9], [0.1, 0.2, 0.7], linear_r2=0.9)
MISSED = curve(2, [0.1, 0.3, 0.9], [0.1, 0.2, 0.3])
MISSED_EARLY = curve(3, [0.2, 0.7, 0.9], [0.1, 0.2, 0.3])
WRONG = curve(4, [0.8, 0.9, 0.9], [0.8, 0.1, 0.1], label="1", correct=False, linear_r2=1.0)


@pytest.mark.parametrize(
    ("records", "rule", "point", "reason", "as_asked"),
    [
        ([NEVER, FOUND, MISSED, MISSED_EARLY, WRONG], "attack_fails", 3, RULES["attack_fails"], True),
        ([NEVER, FOUND, WRONG], "attack_fails", 1, SECOND, False),
        ([NEVER, WRONG], "attack_fails", 0, LAST, False),
        ([NEVER, FOUND, MISSED, WRONG], "locally_linear", 1, RULES["locally_linear"], True),
        ([NEVER, FOUND, MISSED_EARLY], "point0", 0, BY_AUTHORS, True),
        ([NEVER, FOUND, MISSED_EARLY], "point9", 3, RULES["attack_fails"], True),
    ],
)
def test_the_displayed_point_follows_the_rule(
    records: list[Record], rule: str, point: int, reason: str, as_asked: bool
) -> None:
    shown = choose_shown(records, rule, "")
    assert shown is not None
    assert (shown.record.axes["point"], shown.rule, shown.as_asked) == (point, reason, as_asked)


def test_the_displayed_point_has_the_label_requested() -> None:
    other = curve(5, [0.1, 0.9, 0.9], [0.1, 0.1, 0.1], label="1")
    shown = choose_shown([MISSED, other], "attack_fails", "1")
    assert shown is not None
    assert shown.record is other
    assert choose_shown([], "attack_fails", "") is None


def test_displayed_points_give_the_statistics_of_bounds_and_attack() -> None:
    shown = choose_shown([MISSED, FOUND], "attack_fails", "")
    assert shown is not None
    found = {s.name: s for s in (*point_statistics([shown], [MISSED, FOUND]), *gpfgs_statistics([shown]))}
    assert found["points_both_bounds_cross"].value == 1
    assert found["points_attack_crosses"].value == 0
    assert found["share_attack_fails_although_adversarial"].value == 0.5
    # the attack still rises where the radii end: whether it fails is open
    assert np.isnan(found["attack_fails_although_adversarial"].value)
    assert "still rising" in found["attack_fails_although_adversarial"].note
    assert found["largest_gamma_attack_fails"].value == 1.0
    assert found["share_attack_fails_at_whole_range"].value == 1
    assert found["share_attack_crosses_with_bounds"].value == 0
    assert np.isnan(found["max_attack_probability"].value)
    assert len(found) == len(point_statistics([shown], [])) + len(gpfgs_statistics([shown]))


def test_a_point_that_we_chose_decides_nothing_next_to_a_named_one() -> None:
    ours, named = choose_shown([NEVER, FOUND], "attack_fails", ""), choose_shown([NEVER, FOUND], "point0", "")
    assert ours is not None and named is not None
    assert judged_panels([named, ours], False) == judged_panels([ours, named], False) == [named]
    assert judged_panels([ours, ours], False) == [ours, ours], "without a named one, all are shown for themselves"
    assert judged_panels([ours, named], True) == [ours]


def test_an_attack_that_has_stopped_rising_below_one_half_fails() -> None:
    shown = choose_shown([curve(2, [0.1, 0.3, 0.9], [0.1, 0.3, 0.3])], "attack_fails", "")
    assert shown is not None
    found = {s.name: s for s in gpfgs_statistics([shown])}
    assert found["attack_fails_although_adversarial"].value == 1
    assert found["max_attack_probability"].value == 0.3


def followed(curve: Record, gpfgs: list[float], mean: float = 1.0) -> Record:
    """Return the record of the attack alone at larger radii of a curve's point; the latent mean ends at `mean`."""
    arrays = {"gpfgs": np.array(gpfgs), "mean": np.array([mean])}
    return dataclasses.replace(curve, key="f", axes={**curve.axes, "part": "attack"}, arrays=arrays)


def test_an_attack_is_followed_beyond_the_searched_radii() -> None:
    shown = choose_shown([MISSED, FOUND], "attack_fails", "")
    assert shown is not None
    crossing, falling = followed(shown.record, [0.6, 0.55]), followed(shown.record, [0.45, 0.4])
    for further, fails, largest in ((crossing, 0.0, 0.6), (falling, 1.0, 0.45)):
        found = {s.name: s.value for s in gpfgs_statistics([shown], [MISSED, further])}
        assert found["attack_fails_although_adversarial"] == fails
        assert found["max_attack_probability"] == largest
        [never] = never_attacked([MISSED, FOUND], [MISSED, FOUND, further])
        assert (never.value, never.n) == (fails / 2, 2)
    other = dataclasses.replace(crossing, axes={**crossing.axes, "point": 99})
    assert np.isnan({s.name: s.value for s in gpfgs_statistics([shown], [other])}["max_attack_probability"])
    assert never_attacked([MISSED], [MISSED]) == []


@pytest.mark.parametrize(("mean", "decided"), [(-1e-4, True), (-1e-2, False)])
def test_an_attack_that_has_left_the_data_below_one_half_fails(mean: float, decided: bool) -> None:
    shown = choose_shown([MISSED], "attack_fails", "")
    assert shown is not None
    far = followed(shown.record, [0.49, 0.4999], mean)
    found = {s.name: s.value for s in gpfgs_statistics([shown], [MISSED, far])}
    assert np.isfinite(found["max_attack_probability"]) == decided
    assert not decided or found["attack_fails_although_adversarial"] == 1.0


def test_an_attack_one_radius_late_is_with_the_bounds() -> None:
    shown = choose_shown([FOUND], "locally_linear", "")
    assert shown is not None
    [late] = [s for s in gpfgs_statistics([shown]) if s.name == "share_attack_crosses_with_bounds"]
    assert late.value == 1


def test_accuracies_count_only_what_is_right() -> None:
    table = accuracy_table([NEVER, FOUND, WRONG], {"laplace": "Laplace"}).set_index("gamma")
    assert table.loc[0.0, "certified"] == pytest.approx(2 / 3)
    assert table.loc[1.0, "certified"] == pytest.approx(1 / 3)
    assert table.loc[0.5, "under gpfgs"] == pytest.approx(2 / 3)
    assert table.loc[1.0, "under gpfgs"] == pytest.approx(1 / 3)
    assert table.loc[1.0, "unsafe"] == 2
    shown = choose_shown([FOUND], "locally_linear", "")
    assert shown is not None
    assert list(curve_table([shown], {"laplace": "Laplace"})["verdict"]) == ["safe", "unsafe", "unsafe"]


def test_shares_of_points_of_one_classifier_say_so() -> None:
    found = of_points("s", [True, True, False, True])
    assert (found.value, found.n, found.interval) == (0.75, 4, OF_POINTS)
    assert np.isnan(of_points("s", []).value)


def test_accuracy_gain_is_paired() -> None:
    def record(inputs: str, split: int, accuracy: float) -> Record:
        axes = {"features": inputs, "method": "laplace", "part": "accuracy", "point": split}
        return Record("k", "e", "", axes, "done", "", {"test_accuracy": accuracy}, {})  # type: ignore[arg-type]

    pairs = [(0.9, 0.88), (0.8, 0.79), (0.7, 0.70)]
    records = [record("ours", k, a) for k, (a, _) in enumerate(pairs)]
    records += [record("all", k, b) for k, (_, b) in enumerate(pairs)]
    (gain,) = accuracy_gain(records, "ours", "all", 0.2)
    assert gain.value == pytest.approx(0.01)
    assert gain.judged("high") == pytest.approx(0.01 + 4.302652729911275 * 0.01 * (1 / 3 + 0.2) ** 0.5)
    assert accuracy_gain(records[:1], "ours", "all", 0.2) == []
    (single,) = accuracy_gain([records[0], records[3]], "ours", "all", 0.2)
    assert (single.value, single.interval) == (pytest.approx(0.02), "")
    worse = [record("ours", k, b - 0.05 - 0.001 * k) for k, (_, b) in enumerate(pairs)]
    assert accuracy_gain([*worse, *records[3:]], "ours", "all", 0.2)[0].judged("high") < 0.0


def test_exactly_one_half_is_the_negative_class() -> None:
    assert binary_comparison(-1).crossed(0.5)
    assert not binary_comparison(1).crossed(0.5)


def test_curve_metrics_of_a_real_search_are_consistent() -> None:
    posterior = fitted_posterior("laplace", "squared_exponential", LINKS.get("probit"))[0]
    centre = np.array([0.2, 0.1])
    probability = float(posterior.probability(centre[None])[0])
    sign = -1 if probability > 0.5 else 1
    steps = []
    for gamma in (0.0, 0.3, 3.0):
        found = probability_extremum(posterior, linf_ball(centre, gamma), sign, 0.02, Budget(boxes=4000))
        steps.append(Step(found, 0, (probability,) * 3, False))
    metrics = curve_metrics([0.0, 0.3, 3.0], sign, steps, 0.02)
    assert metrics["monotone"]
    assert metrics["safe_gamma"] == 3.0  # the verdicts given
    assert metrics["gpfgs_gamma"] is None
    assert metrics["largest_gap"] <= 0.02
    reversed_metrics = curve_metrics([0.0, 0.3, 3.0], sign, steps[::-1], 0.02)
    assert not reversed_metrics["monotone"]


@pytest.mark.parametrize("sign", [1, -1])
def test_only_what_is_attained_crosses_and_only_a_failing_attack_misses_it(sign: int) -> None:
    """At the second radius the bound alone has crossed, at the third the search, at the last GPFGS, too."""
    inner, outer, reached = (
        (0.1, 0.3, 0.6, 0.7), (0.1, 0.6, 0.7, 0.8), (0.1, 0.2, 0.4, 0.7),
    )  # fmt: skip
    seen = [[value if sign > 0 else 1.0 - value for value in values] for values in (inner, outer, reached)]
    steps = []
    for low, high, attack in zip(*seen, strict=True):
        found: Any = SimpleNamespace(inner=low, outer=high, boxes=1, gap=abs(high - low), seconds=0.0)
        steps.append(Step(found, VERDICTS.index("unknown"), (attack, attack, low), False))
    metrics = curve_metrics([0.0, 0.1, 0.2, 0.3], sign, steps, 0.02)
    assert (metrics["cross_gamma"], metrics["gpfgs_gamma"], metrics["strong_gamma"]) == (0.2, 0.3, 0.2)
    assert (metrics["attack_fails_radii"], metrics["safe_gamma"]) == (1, None)


def test_a_latent_mean_is_linear_in_a_small_box_only() -> None:
    posterior = fitted_posterior("laplace", "squared_exponential", LINKS.get("probit"))[0]
    small, large = (linear_fit(posterior, linf_ball([0.2, 0.1], radius), 0) for radius in (1e-3, 3.0))
    assert small > 0.999
    assert large < 0.95
    assert np.isnan(linear_fit(posterior, linf_ball([0.2, 0.1], 0.0), 0))
