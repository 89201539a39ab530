"""The exploration: what it may query, how it ends, and what it keeps."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpsuite.arrays import FloatArray
from gpsuite.data.generators.sin_sigmoid import THRESHOLD, exploration_grid, initial_inputs, sin_sigmoid, true_safety
from gpsuite.methods.active_learning.acquisition import PIPELINES, Pipeline, entropy
from gpsuite.methods.active_learning.exploration import Planner, Step, explore
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.problem import ExplorationProblem, Monitor, Pool, SafetyLimit
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.multi_output.pool_predictions import PoolPredictions
from gpsuite.models.sampling.hamiltonian import HMCSettings
from gpsuite.models.sampling.posterior import OptimumSettings
from tests.methods.active_learning.exploration_problems import AL, SMALL, Truth, run, tiny
from tests.methods.active_learning.naive_exploration import ROUNDING, naive_loop


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    n_outputs=st.integers(1, 3),
    queries=st.sampled_from(["partial", "full"]),
    acquisition=st.sampled_from(["entropy", "random"]),
    share=st.floats(0.2, 1.0),
)
def test_every_query_is_available_and_probably_safe(
    seed: int, n_outputs: int, queries: Any, acquisition: Any, share: float
) -> None:
    available = np.random.default_rng(seed).random((15, n_outputs)) < share
    problem, truth = tiny(n_outputs, available=available, seed=seed)
    pipeline = Pipeline("any", queries=queries, acquisition=acquisition)
    explorer, steps = run(problem, truth, pipeline, seed=seed)
    left = available.copy()
    for number, step in enumerate(steps):
        wanted = slice(None) if step.p is None else step.p
        assert left[step.row, wanted].all()
        assert step.n_available == (left.all(axis=1).sum() if queries == "full" else left.sum())
        left[step.row, wanted] = False
        assert step.probabilities is not None
        assert step.probability_safe == step.probabilities[step.row] > 1.0 - problem.delta
        assert step.n_safe == (step.probabilities > 1.0 - problem.delta).sum()
        assert step.index == number
        assert step.n_sum == 4 + number * (n_outputs if queries == "full" else 1)
    assert explorer.status == ("done" if len(steps) == 6 else "infeasible")
    assert bool(explorer.reason) == (explorer.status == "infeasible")


def test_below_a_limit_is_above_its_negative() -> None:
    above, below = (run(*tiny(side=side))[1] for side in ("above", "below"))
    for first, second in zip(above, below, strict=True):
        assert (first.row, first.p) == (second.row, second.p)
        np.testing.assert_array_equal(first.probabilities, second.probabilities)  # type: ignore[arg-type]


def test_a_saved_exploration_of_another_pool_is_refused() -> None:
    problem, truth = tiny()
    explorer, _ = run(problem, truth, iterations=1)
    with pytest.raises(ValueError, match="the saved pool"):
        run(*tiny(n=14), resume=explorer.state())


def test_nothing_safe_stops_as_infeasible() -> None:
    problem, truth = tiny(limit=5.0)
    explorer, steps = run(problem, truth)
    assert steps == []
    assert explorer.status == "infeasible"
    assert "safe with probability above 0.8" in explorer.reason
    assert list(explorer) == []
    assert explorer.state()["index"] == 0


@pytest.mark.parametrize("queries", ["partial", "full"])
def test_nothing_safe_may_lead_to_the_safest(queries: Any) -> None:
    problem, truth = tiny(limit=5.0)
    explorer, steps = run(problem, truth, replace(AL, queries=queries), when_nothing_is_safe="safest")
    assert explorer.status == "done"
    left = problem.pool.available.copy()
    for step in steps:
        assert step.probabilities is not None
        rows = left.all(axis=1) if queries == "full" else left.any(axis=1)
        assert step.probability_safe == step.probabilities[rows].max()
        assert step.n_safe == 0
        left[step.row, slice(None) if step.p is None else step.p] = False


def test_an_exploration_is_done_after_its_last_query_and_runs_before() -> None:
    problem, truth = tiny()
    explorer, _ = run(problem, truth, iterations=0)
    assert explorer.status == "done"
    explorer = explore(problem, AL, truth.oracle, np.random.default_rng(0), 2, SMALL)
    told = [explorer.status]
    for _ in explorer:
        told.append(explorer.status)
    assert told == ["running", "running", "done"]


def test_an_exhausted_pool_ends_the_exploration() -> None:
    problem, truth = tiny(n=3)
    explorer, steps = run(problem, truth, PIPELINES["AL_MOGP_nosafe"], iterations=9)
    assert sorted((step.row, step.p) for step in steps) == [(row, p) for row in range(3) for p in range(2)]
    assert (explorer.status, explorer.reason) == ("infeasible", "the pool is exhausted after 6 queries")


def test_one_output_and_one_candidate_are_enough() -> None:
    problem, truth = tiny(1, n=3)
    only = np.array([[False], [True], [False]])
    explorer, steps = run(replace(problem, pool=Pool(problem.pool.X, only)), truth, iterations=2)
    assert [(step.row, step.p, step.n_available) for step in steps] == [(1, 0, 1)]
    assert explorer.status == "infeasible"


def test_a_row_of_one_output_leaves_when_used() -> None:
    available = np.arange(15)[:, None] % 2 == np.arange(2)
    _, steps = run(*tiny(available=available), PIPELINES["AL_MOGP_nosafe"], iterations=15)
    assert sorted(step.row for step in steps) == list(range(15))
    assert all(step.p == step.row % 2 for step in steps)


def test_an_input_that_stands_twice_is_measured_once() -> None:
    problem, truth = tiny(1, n=3)
    X, twice = (np.repeat(problem.pool.X, 2, axis=0), Truth(np.repeat(truth.Y, 2, axis=0), np.repeat(truth.z, 2)))
    doubled = replace(problem, pool=Pool(X, np.ones((6, 1), dtype=bool)))
    explorer, steps = run(doubled, twice, PIPELINES["AL_MOGP_nosafe"], iterations=6)
    assert len(steps) == len({float(step.x[0]) for step in steps}) == 3
    assert "exhausted" in explorer.reason


def test_measured_pairs_are_not_offered() -> None:
    problem, truth = tiny(n=3)
    known = Observations(problem.pool.X[[0, 0, 1]], np.array([0, 1, 0]), np.zeros(3))
    _, steps = run(replace(problem, outputs=known), truth, PIPELINES["AL_MOGP_nosafe"])
    assert sorted((step.row, step.p) for step in steps) == [(1, 1), (2, 0), (2, 1)]


def test_a_safety_value_read_again_from_the_table_counts_once() -> None:
    problem, _ = tiny(n=1)
    near = replace(problem, pool=Pool(np.zeros((1, 1)), np.ones((1, 2), dtype=bool)))
    planner = Planner(near, AL, np.random.default_rng(0), SMALL, "safest", 3)
    for z in (0.9, 0.9):
        assert planner.propose() is not None
        planner.observe(0.1, z)
    assert planner.propose() is None
    assert planner.state()["safety.y"].tolist() == [*problem.safety.y.tolist(), 0.9]
    assert planner.state()["main.y"].tolist()[4:] == [0.1, 0.1]


def test_without_safety_no_safety_model_is_trained() -> None:
    problem, _ = tiny()
    bare = replace(problem, safety=None, limit=None)
    truth = Truth(np.zeros((15, 2)), np.full(15, np.nan))
    explorer, steps = run(bare, truth, PIPELINES["AL_MOGP_nosafe"], iterations=2)
    for step in steps:
        assert set(step.diagnostics) == {"main"}
        assert set(step.seconds) == {"main", "predict"}
        assert all(0.0 < each < 600.0 for each in step.seconds.values()), "durations, not times of day"
        assert step.probabilities is None
        assert np.isnan(step.probability_safe)
        assert step.n_safe == 15
    assert not any(name.startswith("safety") for name in explorer.state())
    with pytest.raises(ValueError, match="needs a safety limit"):
        run(bare, truth)


def test_a_lost_factorisation_changes_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, truth = tiny()
    _, whole = run(problem, truth)

    def fails(*_: Any) -> FloatArray:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(PoolPredictions, "extend", fails)
    _, again = run(problem, truth)
    for first, second in zip(whole, again, strict=True):
        assert (first.row, first.p) == (second.row, second.p)
        np.testing.assert_allclose(first.probabilities, second.probabilities, atol=ROUNDING)  # type: ignore[arg-type]


def test_memory_does_not_grow() -> None:
    problem, truth = tiny(n=60)
    explorer = explore(problem, AL, truth.oracle, np.random.default_rng(0), 24, SMALL)
    held = []
    tracemalloc.start()
    for _ in explorer:
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert len(held) == 24
    # steps whose particles moved hold work space for gradients; rows of predictions made again would be 250 kB
    assert min(held[-8:]) - min(held[2:10]) < 60_000


def test_planner_waits_for_what_it_proposed() -> None:
    problem, _ = tiny()
    planner = Planner(problem, AL, np.random.default_rng(0), SMALL, "stop", 2)
    with pytest.raises(ValueError, match="nothing was proposed"):
        planner.observe(0.0, 1.0)
    proposal = planner.propose()
    assert planner.propose() is proposal
    with pytest.raises(ValueError, match="waiting"):
        planner.state()
    with pytest.raises(ValueError, match="One value per measured output"):
        planner.observe(np.zeros(2), 1.0)
    step = planner.observe(0.5, 1.0)
    assert (step.y, step.z, planner.index) == (0.5, 1.0, 1)


@pytest.mark.slow
def test_toy_errors_and_safety_are_the_published_ones() -> None:
    """Means of 6 runs; an independent implementation's means over 5 are .811 at 12, .478 at 22, .292 at 42 values."""
    curves, safe = [], []
    for seed in range(6):
        steps, errors = toy_run(seed)
        curves.append([errors[n] for n in (12, 22, 42)])
        safe += [step.z >= THRESHOLD for step in steps]
    mean = np.mean(curves, axis=0)
    np.testing.assert_allclose(mean, [0.81, 0.46, 0.29], atol=0.08)
    assert np.mean(safe) > 0.93


def toy_run(seed: int) -> tuple[list[Step], dict[int, float]]:
    rng = np.random.default_rng(seed)
    grid = exploration_grid(200)
    pool = sin_sigmoid(rng, grid, form="code")
    X = initial_inputs(rng, 12)
    first, p = sin_sigmoid(rng, X, form="code"), np.arange(12) % 2
    safe = true_safety(grid[:, 0]) > THRESHOLD
    problem = ExplorationProblem(
        Pool(grid, np.arange(200)[:, None] % 2 == np.arange(2)),
        Observations(X, p, first.Y[range(12), p]),
        Observations(X, np.zeros(12, dtype=np.int64), first.z),
        SafetyLimit(THRESHOLD, "above"),
        monitors={"safe": Monitor(grid[safe])},
    )
    _, steps = run(problem, Truth(pool.Y, pool.z), seed=1000 + seed, iterations=31, settings=InferenceSettings())
    F = pool.F[safe]
    errors = {s.n_sum: float(np.sqrt(((s.monitors["safe"].mean - F) ** 2).mean(axis=0)).mean()) for s in steps}
    return steps, errors


def test_the_entropy_of_all_outputs_together_is_below_the_sum_and_that_of_full_queries() -> None:
    problem, truth = tiny()
    planner = run(problem, truth, AL)[0].planner
    variance = planner._moments()[1][: len(problem.pool.X)]
    together = planner.joint_entropies(problem.pool.X)
    assert (together < entropy(variance).sum(axis=1)).all()  # the outputs are correlated
    full = run(problem, truth, replace(AL, queries="full"))[0].planner
    scores = full._scores(full._moments()[1])
    np.testing.assert_allclose(full.joint_entropies(problem.pool.X), scores, rtol=0.0, atol=1e-9)


def test_another_safety_value_at_the_same_input_is_learnt() -> None:
    problem, _ = tiny(n=1)
    near = replace(problem, pool=Pool(np.zeros((1, 1)), np.ones((1, 2), dtype=bool)))
    planner = Planner(near, AL, np.random.default_rng(0), SMALL, "safest", 3)
    for z in (0.9, 0.1):
        assert planner.propose() is not None
        planner.observe(0.1, z)
    assert planner.propose() is None
    assert planner.state()["safety.y"].tolist() == [*problem.safety.y.tolist(), 0.9, 0.1]


# Memory of an exploration, in a process of its own: libraries loaded by other tests would hide what it takes.
RESIDENT = Path("/proc/self/statm")

# Sine and sigmoid as published, with half the particles; prints the resident pages after 5 and 40 models.
EXPLORATION = """
import numpy as np
from gpsuite.experiments.active_learning.repetitions import ToyData, toy_repetition
from gpsuite.experiments.active_learning.exploration import oracle_of, problem_of
from gpsuite.methods.active_learning.exploration import explore
from gpsuite.methods.active_learning.inference import InferenceSettings
from gpsuite.methods.active_learning.acquisition import PIPELINES
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings

data = ToyData(seed=0, form="paper", initial=12, pool_rows=200, unequal="equal", offers="pairs")
repetition = toy_repetition(data, "partial")
explorer = explore(
    problem_of(repetition, 0.05),
    PIPELINES["AL_MOGP"],
    oracle_of(repetition),
    np.random.default_rng(0),
    40,
    InferenceSettings(smc=SMCSettings(particles=64)),
    when_nothing_is_safe="safest",
)
moves = 0
for step in explorer:
    moves += step.diagnostics["main"]["temperatures"] > 0.0
    if step.index + 1 in (5, 40):
        with open("/proc/self/statm") as pages:
            print(pages.read().split()[1])
print(moves)
"""


@pytest.mark.skipif(not RESIDENT.exists(), reason="resident memory is read from /proc")
def test_memory_is_flat() -> None:
    """Buffers are made for the last model at the start, so that only their pages' first use adds a little."""
    ended = subprocess.run([sys.executable, "-c", EXPLORATION], capture_output=True, text=True, check=True)
    early, late, moves = map(int, ended.stdout.split())
    assert moves >= 5  # predictions were computed again several times
    assert late <= 1.1 * early


# The exploration against the loop written out plainly, and against itself when it is broken off and continued.
QUICK = {
    "smc": SMALL,
    "hmc": replace(
        SMALL, kind="hmc", hmc=HMCSettings(burn_in=25, adaptation=20, step=0.1, samples=5, thinning=1, leapfrog=3)
    ),
    "map": replace(SMALL, kind="map", optimum=OptimumSettings(starts=1, evaluations=30)),
    "ml": replace(SMALL, kind="ml", optimum=OptimumSettings(starts=1, evaluations=10)),
}
VARIANTS = [
    *PIPELINES.values(),
    Pipeline("full", queries="full"),
    Pipeline("full random", queries="full", acquisition="random"),
    Pipeline("convolution", mixing="convolution"),
    Pipeline("squared exponential", kernel="squared_exponential"),
]


@pytest.mark.parametrize("pipeline", VARIANTS, ids=lambda pipeline: pipeline.name)
def test_the_exploration_is_the_loop_written_out_plainly(pipeline: Pipeline) -> None:
    check_against_naive_loop(pipeline, SMALL)


@pytest.mark.parametrize("kind", ["hmc", "map", "ml"])
def test_so_it_is_with_every_inference(kind: str) -> None:
    check_against_naive_loop(AL, QUICK[kind])


def check_against_naive_loop(pipeline: Pipeline, how: InferenceSettings) -> None:
    problem, truth = tiny()
    explorer, steps = run(problem, truth, pipeline, settings=how)
    assert explorer.status == "done"
    plain = naive_loop(problem, pipeline, truth, 7, 6, how)
    for step, naive in zip(steps, plain, strict=True):
        assert (step.row, step.p) == naive["query"]
        np.testing.assert_allclose(step.entropy, naive["entropy"], rtol=ROUNDING)
        if pipeline.safe:
            np.testing.assert_allclose(step.probabilities, naive["probabilities"], atol=ROUNDING)  # type: ignore[arg-type]
        judged = step.monitors["test"]
        np.testing.assert_allclose(judged.mean, naive["mean"], atol=ROUNDING)
        np.testing.assert_allclose(judged.variance, naive["variance"], atol=ROUNDING)
        np.testing.assert_allclose(judged.log_density, naive["log_density"], rtol=ROUNDING)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pipeline", "how"),
    [
        *(pytest.param(pipeline, SMALL, id=pipeline.name) for pipeline in VARIANTS),
        *(pytest.param(AL, how, id=kind) for kind, how in QUICK.items() if kind != "smc"),
        pytest.param(AL, replace(SMALL, pool_members=5), id="members"),
    ],
)
def test_a_saved_exploration_continues_bit_by_bit(pipeline: Pipeline, how: InferenceSettings, tmp_path: Path) -> None:
    problem, truth = tiny()
    _, whole = run(problem, truth, pipeline, settings=how)
    for after in (0, 4):
        rng = np.random.default_rng(7)
        broken = explore(problem, pipeline, truth.oracle, rng, 6, how)
        for _ in range(after):
            next(broken)
        np.savez(tmp_path / "state.npz", **broken.state())
        with np.load(tmp_path / "state.npz", allow_pickle=False) as saved:
            _, rest = run(problem, truth, pipeline, seed=99, settings=how, resume=dict(saved))
        assert len(rest) == len(whole) - after
        for first, second in zip(whole[after:], rest, strict=True):
            assert_same(first, second)


def assert_same(first: Step, second: Step) -> None:
    for name, value in vars(first).items():
        if name == "seconds":
            continue
        other = getattr(second, name)
        if name == "monitors":
            for key, judged in value.items():
                np.testing.assert_array_equal(judged.mean, other[key].mean)
                np.testing.assert_array_equal(judged.variance, other[key].variance)
                np.testing.assert_array_equal(judged.log_density, other[key].log_density)
        else:
            np.testing.assert_equal(value, other)
