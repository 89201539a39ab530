"""Minibatch training: Adam, early stopping, budget, divergence, and going on exactly from a kept state."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras  # type: ignore[import-untyped]

from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.fitting import TrainingOptions, TrainingRows, split_rows
from gpsuite.methods.wasserstein.training import AdamStep, StateFolder, TrainingState, train
from tests.arrays import Array

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 3))
Y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * RNG.standard_normal(50)
ROWS = split_rows(X, Y, 0.2, np.random.default_rng(1))
OPTIONS = TrainingOptions(epochs=6, batches=(16,), learning_rates=(0.05,), patience=50)


class Linear:
    """Least squares with noise on the loss that depends on the step's seed."""

    def __init__(self, noise: float = 0.0) -> None:
        self.weights = tf.Variable(np.zeros(3))
        self.variables, self.noise = [self.weights], noise

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        shift = self.noise * tf.random.stateless_normal([3], seed, dtype=tf.float64)
        return tf.reduce_mean((tf.linalg.matvec(X, self.weights + shift) - y) ** 2)

    def validation_loss(self, X: Array, y: Array) -> float:
        return float(np.mean((X @ self.weights.numpy() - y) ** 2))


def run(model: Linear, options: TrainingOptions = OPTIONS, **more: Any) -> TrainingState:
    return train(model, ROWS, options, 7, more.pop("budget", Budget()), **more).state


def test_it_learns_and_keeps_the_best() -> None:
    model = Linear()
    state = run(model, TrainingOptions(epochs=60, batches=(16,), learning_rates=(0.1,), patience=60))
    np.testing.assert_allclose(model.weights.numpy(), [1.0, -2.0, 0.5], atol=0.1)
    assert model.validation_loss(ROWS.X_validation, ROWS.y_validation) == state.best_score == min(state.scores)


def test_its_steps_are_adams() -> None:
    ours, theirs = Linear(), tf.Variable(np.zeros(3))
    run(ours, TrainingOptions(epochs=5, batches=(100,), learning_rates=(0.05,), patience=50))
    optimiser = tf_keras.optimizers.Adam(0.05)
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(ROWS.X, theirs) - ROWS.y) ** 2)
        optimiser.apply_gradients([(tape.gradient(loss, theirs), theirs)])
    np.testing.assert_allclose(ours.weights.numpy(), theirs.numpy(), rtol=1e-5)


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_going_on_from_a_kept_state_changes_nothing(stop: int) -> None:
    kept: list[TrainingState] = []
    whole = run(Linear(0.3), keep=kept.append)
    assert [state.epoch for state in kept] == [1, 2, 3, 4, 5, 6]
    again = run(Linear(0.3), start=kept[stop - 1])
    assert again.scores == whole.scores
    assert again.evaluations == whole.evaluations
    for name in ("values", "first", "second", "best"):
        np.testing.assert_array_equal(getattr(again, name)[0], getattr(whole, name)[0])


def test_the_seed_orders_rows_and_draws() -> None:
    same, other = run(Linear(0.3)), train(Linear(0.3), ROWS, OPTIONS, 8, Budget()).state
    np.testing.assert_array_equal(run(Linear(0.3)).values[0], same.values[0])
    assert (other.values[0] != same.values[0]).any()


def test_it_stops_early_and_returns_to_the_best() -> None:
    class Worsening(Linear):
        scores = iter([3.0, 2.0, 4.0, 5.0, 6.0, 1.0])

        def validation_loss(self, X: Array, y: Array) -> float:
            self.seen = [*getattr(self, "seen", []), self.weights.numpy()]
            return next(self.scores)

    model = Worsening()
    report = train(model, ROWS, TrainingOptions(epochs=6, batches=(16,), patience=3), 7, Budget())
    assert (report.status, report.reason) == ("done", "no better validation score for 3 epochs")
    assert (report.state.best_epoch, report.state.epoch, report.state.best_score) == (2, 5, 2.0)
    np.testing.assert_array_equal(model.weights.numpy(), model.seen[1])


def test_a_budget_ends_it_within_an_epoch() -> None:
    heard: list[float] = []
    budget = Budget(evaluations=4, observer=lambda b: heard.append(b.share))
    model = Linear()
    report = train(model, ROWS, OPTIONS, 7, budget)
    assert (report.status, report.reason) == ("budget", "4 evaluations used up")
    assert report.state.evaluations == 4
    assert len(report.state.scores) == 2  # three steps make an epoch
    assert heard == [0.25, 0.5, 0.75, 1.0]
    assert (model.weights.numpy() != 0.0).any()
    assert train(Linear(), ROWS, OPTIONS, 7, Budget(evaluations=0)).state.evaluations == 1


def test_a_loss_that_is_not_finite_is_said_and_the_best_kept() -> None:
    class Bursting(Linear):
        def loss(self, X: Any, y: Any, seed: Any) -> Any:
            value = super().loss(X, y, seed)
            return tf.where(tf.abs(self.weights[1]) > 0.4, tf.constant(np.nan, tf.float64), value)

    model = Bursting()
    report = train(model, ROWS, OPTIONS, 7, Budget())
    assert report.status == "diverged"
    assert "not finite in epoch" in report.reason
    assert math.isnan(report.state.scores[-1])
    assert np.isfinite(model.weights.numpy()).all()
    assert report.state.best_epoch >= 1


def test_the_leader_of_the_trial_goes_on_as_if_it_had_been_alone() -> None:
    one = {"epochs": 6, "patience": 50}
    several = TrainingOptions(batches=(16, 40), learning_rates=(1e-4, 0.05), trial_epochs=2, **one)
    kept: list[TrainingState] = []
    state = run(Linear(0.3), several, keep=kept.append)
    alone = run(Linear(0.3), TrainingOptions(batches=(16,), learning_rates=(0.05,), **one))
    assert (state.batch, state.learning_rate) == (16, 0.05)
    assert state.scores == alone.scores
    np.testing.assert_array_equal(state.values[0], alone.values[0])
    assert [one.epoch for one in kept] == [3, 4, 5, 6]
    budget = Budget()
    train(Linear(0.3), ROWS, several, 7, budget)
    assert budget.spent_evaluations == 2 * 2 * (3 + 1) + 4 * 3 <= several.steps(len(ROWS.X))


def test_a_rate_that_bursts_loses_the_trial() -> None:
    class Bursting(Linear):
        def loss(self, X: Any, y: Any, seed: Any) -> Any:
            value = super().loss(X, y, seed)
            return tf.where(tf.abs(self.weights[1]) > 3.0, tf.constant(np.nan, tf.float64), value)

    options = TrainingOptions(epochs=3, batches=(16,), learning_rates=(5.0, 0.01), trial_epochs=2)
    report = train(Bursting(), ROWS, options, 7, Budget())
    assert (report.status, report.state.learning_rate, report.state.epoch) == ("done", 0.01, 3)
    alone = train(Bursting(), ROWS, replace(options, learning_rates=(5.0,)), 7, Budget())
    assert alone.status == "diverged"


def test_a_budget_ends_the_trial_with_the_best_so_far() -> None:
    options = TrainingOptions(epochs=3, batches=(16,), learning_rates=(0.05, 1e-4), trial_epochs=2)
    report = train(Linear(), ROWS, options, 7, Budget(evaluations=8))  # the second rate's first step but one
    assert (report.status, report.state.learning_rate, report.state.epoch) == ("budget", 0.05, 2)


def test_it_is_compiled_once() -> None:
    traced = []

    class Counting(Linear):
        def loss(self, X: Any, y: Any, seed: Any) -> Any:
            traced.append(1)
            return super().loss(X, y, seed)

    run(Counting())  # the last batch of an epoch is smaller
    assert len(traced) == 1


class Graphed(Linear):
    """The same, with a score that TensorFlow computes: whole epochs run as one graph."""

    def graph_score(self, X: Any, y: Any) -> Any:
        return tf.reduce_mean((tf.linalg.matvec(X, self.weights) - y) ** 2)


class GraphedBursting(Graphed):
    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        lost = tf.abs(self.weights[1]) > 0.4
        return tf.where(lost, tf.constant(np.nan, tf.float64), super().loss(X, y, seed))


def assert_same(found: TrainingState, other: TrainingState) -> None:
    assert (found.epoch, found.evaluations, found.best_epoch) == (other.epoch, other.evaluations, other.best_epoch)
    np.testing.assert_allclose(found.scores, other.scores, rtol=1e-10)
    for name in ("values", "first", "second", "best"):
        for ours, theirs in zip(getattr(found, name), getattr(other, name), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "rate", "patience", "evaluations"),
    [
        (Graphed, 0.05, 50, None),
        (Graphed, 0.05, 50, 38),
        (Graphed, 3.0, 3, None),
        (Graphed, 3.0, 50, 1),
        (GraphedBursting, 0.05, 50, None),
    ],
)
def test_whole_epochs_as_one_graph_are_the_same_as_one_step_at_a_time(
    kind: type[Graphed], rate: float, patience: int, evaluations: int | None
) -> None:
    options = TrainingOptions(epochs=20, batches=(16,), learning_rates=(rate,), patience=patience)
    stepwise = kind(0.3)
    stepwise.graph_score = None  # type: ignore[assignment]
    models = kind(0.3), stepwise
    budgets = [Budget(evaluations=evaluations) for _ in models]
    found, other = (train(m, ROWS, options, 7, b) for m, b in zip(models, budgets, strict=True))
    assert_same(found.state, other.state)
    assert (found.status, found.reason) == (other.status, other.reason)
    assert budgets[0].spent_evaluations == budgets[1].spent_evaluations
    np.testing.assert_allclose(models[0].weights.numpy(), models[1].weights.numpy(), rtol=1e-10)


def test_going_on_within_what_ran_as_one_graph_changes_nothing() -> None:
    options = TrainingOptions(epochs=40, batches=(16,), learning_rates=(0.05,), patience=50)
    kept: list[TrainingState] = []
    whole = run(Graphed(0.3), options, keep=kept.append)
    assert 1 < len(kept) < 40
    early = run(Graphed(0.3), replace(options, epochs=kept[2].epoch + 1))
    assert_same(run(Graphed(0.3), options, start=early), whole)


def test_a_split_holds_every_row_once() -> None:
    rows = split_rows(X, np.arange(50.0), 0.1, np.random.default_rng(2))
    assert len(rows.X_validation) == 5
    np.testing.assert_array_equal(np.sort(np.concatenate([rows.y, rows.y_validation])), np.arange(50.0))
    tiny = split_rows(X[:2], Y[:2], 0.01, np.random.default_rng(2))
    assert len(tiny.X) == len(tiny.X_validation) == 1


def test_no_copy_of_a_validation_row_is_trained_on() -> None:
    groups = np.arange(50) % 10
    plain, rows = (split_rows(X, np.arange(50.0), 0.1, np.random.default_rng(2), g) for g in (None, groups))
    np.testing.assert_array_equal(rows.y_validation, plain.y_validation)
    held = np.isin(plain.y.astype(int) % 10, rows.y_validation.astype(int) % 10)
    assert held.any() and not held.all()
    np.testing.assert_array_equal(rows.y, plain.y[~held])
    with pytest.raises(ValueError, match="copies of the 5 validation rows"):
        split_rows(X, Y, 0.1, np.random.default_rng(2), np.zeros(50, int))


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 rows"):
        split_rows(X[:1], Y[:1], 0.1, RNG)
    with pytest.raises(ValueError, match="share in"):
        split_rows(X, Y, 1.0, RNG)
    with pytest.raises(ValueError, match="must be positive"):
        TrainingOptions(epochs=0)
    with pytest.raises(ValueError, match="must be finite"):
        TrainingRows(X, Y, X * np.nan, Y)
    with pytest.raises(ValueError, match="are needed"):
        TrainingRows(X, Y[:-1], X, Y)
    state = run(Linear())
    with pytest.raises(ValueError, match="do not fit"):
        run(Linear(), start=replace(state, epoch=1, values=(np.zeros(2),)))


def test_every_step_samples_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    step = AdamStep.step

    def noted(self: AdamStep, X: Any, y: Any, seed: int) -> Any:
        seeds.append(seed)
        return step(self, X, y, seed)

    monkeypatch.setattr(AdamStep, "step", noted)
    state = run(Linear())
    assert len(seeds) == len(set(seeds)) == state.evaluations


class Fragile(Linear):
    """A large rate has the best first score, then no loss."""

    def validation_loss(self, X: Array, y: Array) -> float:
        moved = float(abs(self.weights.numpy()).max())
        return math.nan if moved > 1e3 else -moved

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        lost = tf.reduce_max(tf.abs(self.weights)) > 5.0
        return tf.where(lost, tf.constant(math.nan, tf.float64), super().loss(X, y, seed))


def test_a_trial_that_diverges_does_not_lead_by_an_early_score() -> None:
    options = TrainingOptions(epochs=3, batches=(100,), learning_rates=(0.05, 10.0), patience=9, trial_epochs=2)
    report = train(Fragile(), ROWS, options, 7, Budget())
    assert report.status == "done"
    assert report.state.learning_rate == 0.05


# States on disk: what is read is what was written, and a killed training ends as one that was not.
ARRAYS = (np.ones(3), np.zeros((2, 2)))
STATE = TrainingState(
    epoch=2,
    values=(np.arange(3.0), np.eye(2, dtype=np.float32)),
    first=ARRAYS,
    second=ARRAYS,
    best=ARRAYS,
    learning_rate=0.01,
    batch=64,
    scores=(1.5, 0.7),
    evaluations=9,
)
KILLED = """
import os, signal, sys
from pathlib import Path
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.training import StateFolder
from gpsuite.methods.wasserstein.training import train
from tests.methods.wasserstein.test_training import OPTIONS, ROWS, Linear
folder = StateFolder(Path(sys.argv[1]), seconds=0.0)
def keep(state):
    folder.save("model", state)
    if state.epoch == 3:
        os.kill(os.getpid(), signal.SIGKILL)
train(Linear(0.3), ROWS, OPTIONS, 7, Budget(), keep=keep)
"""


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    StateFolder(tmp_path, seconds=0.0).save("member-1", STATE)
    found = StateFolder(tmp_path).load("member-1")
    assert found is not None
    assert (found.epoch, found.learning_rate, found.batch, found.scores, found.evaluations) == (
        2,
        0.01,
        64,
        (1.5, 0.7),
        9,
    )
    for name in ("values", "first", "second", "best"):
        for ours, theirs in zip(getattr(found, name), getattr(STATE, name), strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype
    assert StateFolder(tmp_path).load("member-0") is None


def test_states_are_not_written_all_the_time_and_damaged_ones_not_believed(tmp_path: Path) -> None:
    StateFolder(tmp_path, seconds=60.0).save("model", STATE)
    assert not list(tmp_path.iterdir())
    StateFolder(tmp_path, seconds=0.0).save("model", STATE)
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:200])
    assert StateFolder(tmp_path).load("model") is None
    StateFolder(path / "no folder", seconds=0.0).save("model", STATE)  # refused by the system: no matter


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_end(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    start = StateFolder(tmp_path).load("model")
    assert start is not None
    assert start.epoch == 3
    again = train(Linear(0.3), ROWS, OPTIONS, 7, Budget(), start=start).state
    whole = train(Linear(0.3), ROWS, OPTIONS, 7, Budget()).state
    assert again.scores == whole.scores
    np.testing.assert_array_equal(again.values[0], whole.values[0])


def test_a_state_with_a_flipped_bit_is_none_or_read(tmp_path: Path) -> None:
    arrays = (np.ones((2, 2)),)
    states = StateFolder(tmp_path, 0)
    states.save("part", TrainingState(1, arrays, arrays, arrays, arrays, 0.1, 8, (1.0, 2.0), 3))
    whole = (tmp_path / "part.npz").read_bytes()
    central = whole.index(b"PK\x01\x02")
    for bit in range(8 * central, 8 * (central + 46)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "part.npz").write_bytes(damaged)
        states.load("part")
