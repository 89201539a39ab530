"""The share of unsafe first proposals, and over ten rounds, on functions no constant was chosen on.

The families, the numbers of seeds and the bounds were fixed before the runs; the guard's constants were chosen on
other families (`safety_cases.TUNING`) only. What is tested holds for this mix of made-up experiments and promises
nothing about any other: walls and cliffs that nothing measured hints at are found by stepping on them.

Results are kept in pytest's cache by the code they depend on, so that an interrupted study goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, t

from gpsuite import methods, models
from gpsuite.arrays import FloatArray
from gpsuite.methods.active_learning.plan.ask_tell import DEFAULT_GUARD, MeasurementPlanner
from gpsuite.methods.active_learning.plan.safety import SafetyGuard
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.seeds import stream
from tests.methods.active_learning import safety_cases
from tests.methods.active_learning.safety_cases import SET_ASIDE, TUNING
from tests.methods.active_learning.safety_study import Count, first_proposal, ten_rounds

pytestmark = [pytest.mark.guarantee, pytest.mark.slow]

SEEDS, LONG_SEEDS, BATCH = 200, 25, 25
GOAL, LIMIT = 0.05, 0.07


@pytest.fixture
def kept(request: pytest.FixtureRequest) -> Callable[[str, Callable[[], Any]], Any]:
    """Return a function that computes what is not in pytest's cache."""
    rooms = [Path(methods.__path__[0], "active_learning"), Path(models.__path__[0])]
    sources = [path for room in rooms for path in room.rglob("*.py")] + [Path(safety_cases.__file__)]
    code = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources))).hexdigest()[:16]

    def once(name: str, compute: Callable[[], Any]) -> Any:
        key = f"planner_safety/{code}/{name.replace('/', ' per ')}"
        found = request.config.cache.get(key, None)
        if found is None:
            found = compute()
            request.config.cache.set(key, found)
        return found

    return once


def batch(family: str, begin: int, purpose: str) -> dict[str, float]:
    total = Count()
    for number in range(begin, begin + BATCH):
        total.add(first_proposal(family, number, purpose))
    return asdict(total)


def counted(kept: Callable[..., Any], family: str, seeds: int, purpose: str) -> Count:
    total = Count()
    for begin in range(0, seeds, BATCH):
        name = f"{purpose} {family} {begin} to {begin + BATCH}"
        found = kept(name, lambda family=family, begin=begin: batch(family, begin, purpose))
        total.add(Count(**found))
    return total


def upper(unsafe: int, proposed: int) -> float:
    """Return the one-sided 95 % limit of a share (Clopper and Pearson)."""
    return float(beta.ppf(0.95, unsafe + 1, proposed - unsafe))


@pytest.mark.parametrize("family", SET_ASIDE)
def test_the_guard_costs_no_family_more_than_two_unsafe_proposals(family: str, kept: Callable[..., Any]) -> None:
    """Where one family does worse, it is still better than without the guard."""
    found = counted(kept, family, SEEDS, "first proposals")
    assert found.proposed > 0.7 * found.cases
    assert found.unsafe <= found.unguarded_unsafe + 2


def test_first_proposals_are_unsafe_in_at_most_a_twentieth_of_the_cases(kept: Callable[..., Any]) -> None:
    total = Count()
    for family in SET_ASIDE:
        total.add(counted(kept, family, SEEDS, "first proposals"))
    assert total.unsafe / total.proposed <= GOAL, total
    assert upper(total.unsafe, total.proposed) < LIMIT, total
    assert total.unguarded_unsafe / total.unguarded_proposed > LIMIT, "the families put it to the test"


@pytest.mark.parametrize("family", TUNING[4:])
def test_what_begins_just_outside_a_flat_region_is_met_in_fewer_than_a_tenth(
    family: str, kept: Callable[..., Any]
) -> None:
    found = counted(kept, family, SEEDS, "walls")
    assert found.unsafe / found.proposed < 0.1, found
    assert found.unguarded_unsafe / found.unguarded_proposed > 0.1, found


@pytest.mark.parametrize("example", ["bowl, 10 values", "bowl, 20 values", "bowl, 40 values", "flat, then a wall"])
def test_the_guard_makes_the_known_examples_safe(example: str, kept: Callable[..., Any]) -> None:
    """Measured in [-.4, .4]^2, asked over [-2, 2]^2. Without the guard 14 to 20 of 60, and behind the wall all."""

    def unsafe(guard: SafetyGuard | None) -> int:
        return sum(example_is_unsafe(example, seed, guard) for seed in range(60))

    assert kept(f"{example} guarded", lambda: unsafe(DEFAULT_GUARD)) <= 2
    assert kept(f"{example} unguarded", lambda: unsafe(None)) >= 6


def example_is_unsafe(example: str, seed: int, guard: SafetyGuard | None) -> bool:
    n = int(example.split()[1]) if example.startswith("bowl") else 20
    rng = stream(1407, "planner safety", example, seed)
    X, candidates = rng.uniform(-0.4, 0.4, (n, 2)), rng.uniform(-2.0, 2.0, (250, 2))

    def h(x: FloatArray) -> FloatArray:
        bowl = 0.6 * (x**2).sum(axis=1)
        return np.asarray(bowl if example.startswith("bowl") else 3.0 * (np.abs(x).max(axis=1) > 1.0))

    planner = MeasurementPlanner(SafetyLimit(1.0, "below"), rng, guard=guard)
    planner.tell(X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(n), h(X) + 0.02 * rng.standard_normal(n))
    return any(h(each.x[None])[0] > 1.0 for each in planner.ask(candidates).proposals)


def test_over_ten_rounds_at_most_a_twentieth_of_the_proposals_is_unsafe(kept: Callable[..., Any]) -> None:
    """Proposals of one run depend on each other: the limit is that of the runs' mean surplus, by their own spread."""
    runs = []
    for family in SET_ASIDE:
        runs += kept(
            f"{LONG_SEEDS} times ten rounds {family}",
            lambda family=family: [list(ten_rounds(family, number)) for number in range(LONG_SEEDS)],
        )
    proposals, unsafe = np.array(runs, dtype=np.float64).T
    share = unsafe.sum() / proposals.sum()
    assert share <= GOAL
    error = np.sqrt(np.sum((unsafe - share * proposals) ** 2)) / proposals.sum()  # of a ratio
    assert share + t.ppf(0.95, len(runs) - 1) * error < LIMIT
