from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpsuite.data.catalogue import read_spec
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import load, prepare
from gpsuite.data.sources.gengine1 import OUTPUTS
from gpsuite.data.spec import DatasetSpec
from gpsuite.experiments.active_learning import repetitions as common
from gpsuite.experiments.active_learning.repetitions import (
    EngineData,
    GpData,
    Samples,
    ToyData,
    engine_repetition,
    gp_repetition,
    starting_rows,
    temperature,
    toy_repetition,
    training_and_test,
)
from gpsuite.plugins import shipped_conf_dir

TOY = ToyData(seed=5, form="paper", pool_rows=200, unequal="equal", initial=12, offers="pairs")
SAMPLES = Samples(seed=1, draws=3, n_train=60, n_test=20, n_outputs=4, form="code", process="lmc")
GP = GpData(seed=7, draw=1, initial=12, offers="pairs", samples=SAMPLES)
ENGINE = EngineData(seed=3, repetition=1, start_seed=123, initial=6, pool_rows=40, test_rows=10, offers="pairs")


def engine_data(rows: int = 90) -> Dataset:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    names = tuple(f"x{k}" for k in range(2))
    split = (np.arange(60), np.arange(60, rows))
    return Dataset("engine", "regression", X, rng.normal(1.0, 0.5, size=(rows, 8)), names, OUTPUTS, "hash",
                   fixed_split=split)  # fmt: skip


@given(st.integers(1, 6), st.integers(1, 5))
def test_both_kinds_of_queries_start_from_the_same_number_of_values(inputs: int, n_outputs: int) -> None:
    initial = inputs * n_outputs
    partial = common.started_outputs(initial, n_outputs, "partial")
    full = common.started_outputs(initial, n_outputs, "full")
    assert partial.sum() == full.sum() == initial
    assert (partial.sum(axis=1) == 1).all()
    assert set(partial.sum(axis=0)) == set(full.sum(axis=0)) == {inputs}  # as many values of every output


def test_what_was_given_at_the_start_is_no_longer_offered() -> None:
    given_rows, given_outputs = np.array([4, -1, 0]), np.array([[True, False], [True, False], [False, True]])
    pairs = common.without_started(common.offered(6, 2, "pairs"), given_rows, given_outputs, "pairs")
    assert np.argwhere(~pairs).tolist() == [[0, 1], [4, 0]]
    single = common.offered(6, 2, "one_output")
    assert single.sum(axis=1).tolist() == [1] * 6
    left = common.without_started(single, given_rows, given_outputs, "one_output")
    assert np.flatnonzero(~left.any(axis=1)).tolist() == [0, 4]


@given(st.lists(st.integers(0, 50), unique=True, min_size=1), st.lists(st.integers(0, 50)))
def test_positions_find_every_number_or_say_that_it_is_missing(pool: list[int], wanted: list[int]) -> None:
    found = common.positions(np.array(wanted, dtype=np.int64), np.array(pool))
    expected = [pool.index(number) if number in pool else -1 for number in wanted]
    assert found.tolist() == expected


def test_the_toy_is_the_same_for_every_pipeline_and_new_in_every_repetition() -> None:
    partial, full = toy_repetition(TOY, "partial"), toy_repetition(TOY, "full")
    np.testing.assert_array_equal(partial.pool.Y, full.pool.Y)
    np.testing.assert_array_equal(partial.start.Y[:6], full.start.Y)
    assert (partial.start_outputs.sum(), full.start_outputs.sum()) == (12, 12)
    assert (np.abs(partial.start.X) <= 0.6).all()
    assert partial.test_safe.sum() == 84
    other = toy_repetition(replace(TOY, seed=6), "partial")
    assert not np.isin(other.pool.Y, partial.pool.Y).any()
    assert not np.isin(partial.test.Y, partial.pool.Y).any()  # fresh noise
    np.testing.assert_array_equal(other.test.F, partial.test.F)  # type: ignore[arg-type]


@pytest.mark.parametrize(("which", "noise", "variance"), [("noise", 10.0, 1.0), ("variance", 1.0, 10.0)])
def test_unequal_outputs_differ_by_the_stated_variance(which: str, noise: float, variance: float) -> None:
    plain, changed = (toy_repetition(TOY, "partial").pool, toy_repetition(replace(TOY, unequal=which), "partial").pool)
    np.testing.assert_array_equal(plain.Y[:, 1], changed.Y[:, 1])
    np.testing.assert_allclose(changed.F[:, 0] ** 2, variance * plain.F[:, 0] ** 2)
    np.testing.assert_allclose((changed.Y - changed.F)[:, 0] ** 2, noise * (plain.Y - plain.F)[:, 0] ** 2)


def test_a_draw_starts_from_safe_rows_that_leave_the_pool() -> None:
    made = gp_repetition(GP, "partial")
    assert made.limit.holds(made.start.z).all()
    gone = np.argwhere(~made.available)
    assert len(gone) == 12
    rows = [int(np.flatnonzero((x == made.pool.X).all(axis=1))[0]) for x in made.start.X]
    assert {tuple(pair) for pair in gone.tolist()} == {(row, k % 4) for k, row in enumerate(rows)}
    second = gp_repetition(replace(GP, draw=2), "partial")
    np.testing.assert_array_equal(second.pool.X, made.pool.X)
    assert not np.isin(second.pool.Y, made.pool.Y).any()
    assert made.limit == second.limit
    full = gp_repetition(GP, "full")
    np.testing.assert_array_equal(full.start.X, made.start.X[:3])
    assert (~full.available).sum() == 12
    shares = [gp_repetition(replace(GP, draw=e), "partial") for e in range(3)]
    z = np.concatenate([np.append(each.pool.z, each.test.z) for each in shares])
    assert (z > made.limit.value).mean() == pytest.approx(0.8)


def test_too_few_safe_rows_are_an_error() -> None:
    with pytest.raises(ValueError, match="needed to start"):
        gp_repetition(replace(GP, initial=80), "partial")


def test_the_engines_pool_keeps_unsafe_rows_and_its_start_is_safe() -> None:
    data = engine_data()
    made = engine_repetition(data, ENGINE, "partial")
    train = data.y[:60, OUTPUTS.index("T_EXM")]
    assert 0 < made.limit.holds(made.pool.z).sum() < 40
    assert made.limit.holds(made.start.z).all()
    assert np.isin(made.pool.z, train).all()
    assert not np.isin(made.test.z, train).any()
    np.testing.assert_array_equal(made.test_safe, made.test.z <= 1.0)
    rows = [int(np.flatnonzero(data.y[:, OUTPUTS.index("T_EXM")] == z)[0]) for z in made.pool.z]
    np.testing.assert_array_equal(made.pool.Y, data.y[rows][:, [OUTPUTS.index("HC"), OUTPUTS.index("O2")]])
    started = [np.flatnonzero((x == made.pool.X).all(axis=1)) for x in made.start.X]
    expected = {(int(rows[0]), k % 2) for k, rows in enumerate(started) if len(rows)}
    assert {tuple(pair) for pair in np.argwhere(~made.available).tolist()} == expected


def test_starting_sets_are_consecutive_draws_of_the_legacy_generator() -> None:
    np.random.seed(123)  # noqa: NPY002 - what the authors call
    sets = [np.random.choice(np.arange(500), 48, replace=False) for _ in range(3)]  # noqa: NPY002
    for number, expected in enumerate(sets):
        np.testing.assert_array_equal(starting_rows(np.arange(500), 48, 123, number), expected)


@pytest.mark.skipif("GPSUITE_DATA_PATH" not in os.environ, reason="GPSUITE_DATA_PATH is not set")
def test_the_authors_first_starting_set_on_the_engine_data_is_drawn_again(tmp_path: Path) -> None:
    spec = read_spec(shipped_conf_dir(), "gengine1")
    assert isinstance(spec, DatasetSpec)
    prepared = prepare(spec, cache_dir=tmp_path, allow_stand_in=True)
    if prepared.stand_in:
        pytest.skip("the engine's files are not in GPSUITE_DATA_PATH")
    data = load(prepared)
    train, _ = training_and_test(data)
    safe = train[temperature(data)[train] <= 1.0]
    first = starting_rows(safe, 48, 123, 0)
    assert first[:6].tolist() == [132463, 21389, 66885, 23156, 231692, 135769]
    assert first.sum() == 5366022
    assert starting_rows(safe, 48, 123, 1).sum() == 6553021
