"""Minibatch training by Adam with a validation split, early stopping, and a state from which it continues exactly.

All random numbers are derived from the seed and the epoch or step. So a training that was interrupted and continued
from its last state ends with the same numbers as one without interruption.

Equation: Kingma & Ba 2015, Algorithm 1
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.atomic import write_atomically
from gpsuite.budget import Budget
from gpsuite.methods.wasserstein.fitting import TrainingOptions, TrainingRows
from gpsuite.seeds import derived_seed, stream

_FIRST_DECAY, _SECOND_DECAY, _TINY = 0.9, 0.999, 1e-7  # Kingma & Ba 2015
SAVE_SECONDS = 10.0  # seconds between states, the most work that an interruption can lose
TOGETHER_SECONDS = 1.0  # seconds of epochs that run as one graph, the longest delay of a budget's end
_ARRAYS = ("values", "first", "second", "best")


class Trainable(Protocol):
    """A trainable model: variables, a loss on a batch, and a score on the validation rows.

    A model may also have `graph_score`: `validation_loss` as a tensor of tensors, NaN if it is not finite. Whole epochs
    then run as one graph.
    """

    @property
    def variables(self) -> list[Any]: ...

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the scalar to minimise for a batch [N_B, D], [N_B]. `seed` holds two integers of this step."""

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        """Return the mean negative log predictive probability or density of held-out rows, in nats."""


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Everything that the next epoch depends on.

    Attributes:
        values: values of the variables, in order. Adam's moments `first` and `second`, and `best`, have the same order.
        best: values with the best validation score so far.
    """

    epoch: int
    values: tuple[FloatArray, ...]
    first: tuple[FloatArray, ...]
    second: tuple[FloatArray, ...]
    best: tuple[FloatArray, ...]
    learning_rate: float
    batch: int
    scores: tuple[float, ...] = ()
    evaluations: int = 0

    @property
    def best_epoch(self) -> int:
        """Epoch, from 1, of the best score, 0 before the first, or if none was finite."""
        finite = [(score, index) for index, score in enumerate(self.scores, 1) if math.isfinite(score)]
        return min(finite)[1] if finite else 0

    @property
    def best_score(self) -> float:
        """Best validation score. Infinite before the first."""
        return self.scores[self.best_epoch - 1] if self.best_epoch else math.inf


@dataclass(frozen=True, eq=False)
class TrainingReport:
    """Result of a training. The model holds the values with the best validation score.

    Attributes:
        status: done (all epochs, or stopped early), budget, or diverged (the loss or every score was not finite).
        state: state at the end. Continue from it with a larger budget or more epochs.
    """

    status: Literal["done", "budget", "diverged"]
    reason: str
    state: TrainingState = field(repr=False)


def train(
    model: Trainable,
    rows: TrainingRows,
    options: TrainingOptions,
    seed: int,
    budget: Budget,
    start: TrainingState | None = None,
    keep: Callable[[TrainingState], None] | None = None,
) -> TrainingReport:
    """Train and leave the model at the values with the best validation score.

    Every pair of batch and learning rate begins with the same values and order of rows. The best pair after the trial
    continues, so its trial is no extra work.

    Args:
        budget: limit, each step is one evaluation. If it ends within an epoch, that epoch is scored as it is. At least
            one step is done.
        start: state of an earlier training with the same seed and a decided trial. None: begin with the current
            variables.
        keep: function of the state. It is called after every epoch that follows the trial, or after several that ran as
            one graph.

    Raises:
        ValueError: if the state's arrays do not fit the variables.
    """
    training = _Training(AdamStep(model), rows, options, seed, budget)
    state, ended = (start, "") if start is not None else training.leader()
    if not ended:
        state, ended = training.continue_training(state, options.epochs, keep)
    _assign(model.variables, state.best)
    if ended == "nan" or state.best_epoch == 0:
        return TrainingReport("diverged", f"the loss is not finite in epoch {state.epoch}", state)
    if ended:
        return TrainingReport("budget", budget.reason, state)
    return TrainingReport("done", _finished(state, options.epochs, options.patience), state)


@dataclass(frozen=True, eq=False)
class _Training:
    adam: AdamStep
    rows: TrainingRows
    options: TrainingOptions
    seed: int
    budget: Budget

    def leader(self) -> tuple[TrainingState, str]:
        """Return the state with which training continues, and the reason of an early end: `nan`, `budget` or none."""
        values = self.adam.values()
        zeros = tuple(np.zeros_like(value) for value in values)
        pairs = itertools.product(self.options.batches, self.options.learning_rates)
        starts = [TrainingState(0, values, zeros, zeros, values, rate, batch) for batch, rate in pairs]
        if len(starts) == 1:
            return starts[0], ""
        ends = []
        for start in starts:
            ends.append(self.continue_training(start, min(self.options.trial_epochs, self.options.epochs), None))
            if ends[-1][1] == "budget":
                break
        # a pair that diverged ranks last, even if one of its epochs was the best
        state, ended = min(ends, key=lambda end: (end[1] == "nan", end[0].best_score))
        return state, "budget" if ends[-1][1] == "budget" else ended

    def continue_training(
        self, state: TrainingState, epochs: int, keep: Callable[[TrainingState], None] | None
    ) -> tuple[TrainingState, str]:
        """Train until `epochs` epochs are done. Return the state and the reason of an early end, as `leader`."""
        self.adam.restart(state)
        ended, together = "", 1
        while not ended and not _finished(state, epochs, self.options.patience):
            together = self._affordable(state, min(together, epochs - state.epoch))
            began = time.monotonic()
            state, ended = self._whole_epochs(state, together) if together else self._epoch(state)
            together = max(1, min(2 * together, int(together * TOGETHER_SECONDS / (time.monotonic() - began + 1e-9))))
            if keep is not None and not ended:
                keep(state)
        return state, ended

    def _affordable(self, state: TrainingState, epochs: int) -> int:
        """Return how many whole epochs may run as one graph: 0 if the model has no score as a tensor."""
        if self.adam.graph_score is None or (self.budget.exhausted and state.evaluations):
            return 0
        if self.budget.evaluations is None:
            return epochs
        left = self.budget.evaluations - self.budget.spent_evaluations
        return min(epochs, left // math.ceil(len(self.rows.X) / state.batch))

    def _whole_epochs(self, state: TrainingState, epochs: int) -> tuple[TrainingState, str]:
        """Run several epochs as one graph, fewer if patience or a loss ends them. Return the same as `_epoch`."""
        steps = math.ceil(len(self.rows.X) / state.batch)
        orders = [self._order(state.epoch + each) for each in range(epochs)]
        seeds = [self._step_seed(state.evaluations + each) for each in range(epochs * steps)]
        after, finite = self.adam.epochs(
            self.rows, state, np.stack(orders), np.array(seeds, np.int32).reshape(epochs, steps), self.options.patience
        )
        self.budget.spend(evaluations=after.evaluations - state.evaluations, best=after.best_score)
        return after, "" if finite else "nan"

    def _order(self, epoch: int) -> npt.NDArray[np.int64]:
        # drawn per epoch, not in sequence: a resumed training has the same order
        return stream(self.seed, "epoch", epoch).permutation(len(self.rows.X))

    def _step_seed(self, step: int) -> int:
        # TensorFlow's seeds have 32 bits
        return derived_seed(self.seed, "step", step) % 2**31

    def _epoch(self, state: TrainingState) -> tuple[TrainingState, str]:
        """Run one pass, step by step, and score it. Return the state and the reason of an early end."""
        steps, ended = self._steps(state)
        score = math.nan if ended == "nan" else self.adam.score(self.rows)
        return self.adam.state(state, score, steps), ended

    def _steps(self, state: TrainingState) -> tuple[int, str]:
        """Run one pass. Return the number of steps and the reason of an early end."""
        order = self._order(state.epoch)
        steps = 0
        for at in range(0, len(order), state.batch):
            if self.budget.exhausted and state.evaluations + steps > 0:
                return steps, "budget"
            chosen = order[at : at + state.batch]
            loss = self.adam.step(self.rows.X[chosen], self.rows.y[chosen], self._step_seed(state.evaluations + steps))
            steps += 1
            self.budget.spend(evaluations=1, best=state.best_score)
            if not math.isfinite(loss):
                return steps, "nan"
        return steps, ""


def _finished(state: TrainingState, epochs: int, patience: int) -> str:
    if state.epoch >= epochs:
        return f"{epochs} epochs done"
    if state.epoch and state.epoch - state.best_epoch >= patience:
        return f"no better validation score for {patience} epochs"
    return ""


class AdamStep:
    """Adam's step, and whole epochs of steps, as compiled functions (Kingma & Ba 2015, Algorithm 1).

    Attributes:
        graph_score: the model's validation score as a tensor, or None.
    """

    def __init__(self, model: Trainable, learning_rate: float = 1e-2) -> None:
        self._model = model
        self._rate = tf.Variable(learning_rate, dtype=tf.float64)
        self._first, self._second = ([tf.Variable(tf.zeros_like(v)) for v in model.variables] for _ in range(2))
        self._count = tf.Variable(0.0, dtype=tf.float64)
        self._best: list[Any] = []
        self._compiled: Any = None
        self._compiled_epochs: Any = None
        self.graph_score: Callable[[Any, Any], Any] | None = getattr(model, "graph_score", None)

    def restart(self, state: TrainingState) -> None:
        """Set the variables to a state's values, moments and learning rate.

        Raises:
            ValueError: if its arrays do not fit the variables.
        """
        _assign(self._model.variables, state.values)
        _assign(self._first, state.first)
        _assign(self._second, state.second)
        self._rate.assign(state.learning_rate)
        self._count.assign(float(state.evaluations))

    def values(self) -> tuple[FloatArray, ...]:
        return tuple(variable.numpy() for variable in self._model.variables)

    def score(self, rows: TrainingRows) -> float:
        return float(self._model.validation_loss(rows.X_validation, rows.y_validation))

    def state(self, before: TrainingState, score: float, steps: int) -> TrainingState:
        """Return the state after an epoch of `steps` steps with a validation score."""
        values = self.values()
        first, second = (tuple(v.numpy() for v in part) for part in (self._first, self._second))
        return replace(
            before,
            epoch=before.epoch + 1,
            values=values,
            first=first,
            second=second,
            best=values if score < before.best_score else before.best,
            scores=(*before.scores, score),
            evaluations=before.evaluations + steps,
        )

    def step(self, X: FloatArray, y: npt.NDArray[Any], seed: int) -> float:
        if self._compiled is None:
            signature = [*_signature(X, y), tf.TensorSpec([2], tf.int32)]
            self._compiled = tf.function(self._step, input_signature=signature, autograph=False)
        return float(self._compiled(X, y, np.array([seed, 0], np.int32)).numpy())

    def epochs(
        self,
        rows: TrainingRows,
        before: TrainingState,
        orders: npt.NDArray[np.int64],
        seeds: npt.NDArray[np.int32],
        patience: int,
    ) -> tuple[TrainingState, bool]:
        """Run epochs with row orders [E, N] and the steps' seeds [E, S], starting at the state `before`.

        Returns:
            The state, and whether every loss was finite. The first one that is not finite ends the run.
        """
        if self._compiled_epochs is None:
            self._best = [tf.Variable(v) for v in self._model.variables]
            signature = [*_signature(rows.X, rows.y), *_signature(rows.X, rows.y)]
            signature += [tf.TensorSpec([None, None], kind) for kind in (tf.int64, tf.int32)]
            signature += [tf.TensorSpec([], kind) for kind in (tf.int32, tf.float64, tf.int32, tf.int32)]
            self._compiled_epochs = tf.function(self._epochs, input_signature=signature, autograph=False)
        _assign(self._best, before.best)
        data = (rows.X, rows.y, rows.X_validation, rows.y_validation, orders, seeds)
        waited = before.epoch - before.best_epoch
        found = self._compiled_epochs(*data, before.batch, before.best_score, waited, patience)
        scores, last, finite = (each.numpy() for each in found)
        first, second, best = (tuple(v.numpy() for v in part) for part in (self._first, self._second, self._best))
        after = replace(
            before,
            epoch=before.epoch + len(scores),
            values=self.values(),
            first=first,
            second=second,
            best=best,
            scores=(*before.scores, *map(float, scores)),
            evaluations=before.evaluations + (len(scores) - 1) * seeds.shape[1] + int(last),
        )
        return after, bool(finite)

    def _epochs(
        self,
        X: Any,
        y: Any,
        X_held: Any,
        y_held: Any,
        orders: Any,
        seeds: Any,
        batch: Any,
        best: Any,
        waited: Any,
        patience: Any,
    ) -> tuple[Any, Any, Any]:
        """Return the scores, the steps of the last epoch, and whether all losses were finite."""
        assert self.graph_score is not None
        score = self.graph_score
        count, steps = tf.unstack(tf.shape(seeds))
        scores = tf.TensorArray(tf.float64, size=0, dynamic_size=True, element_shape=[])

        def one_step(epoch: Any, step: Any, finite: Any) -> Any:
            chosen = orders[epoch, step * batch : (step + 1) * batch]
            loss = self._step(tf.gather(X, chosen), tf.gather(y, chosen), tf.stack([seeds[epoch, step], 0]))
            return epoch, step + 1, tf.math.is_finite(loss)

        def unfinished(epoch: Any, step: Any, finite: Any) -> Any:
            return finite & (step < steps)

        def one_epoch(epoch: Any, last: Any, finite: Any, best: Any, waited: Any, scores: Any) -> Any:
            _, last, finite = tf.while_loop(unfinished, one_step, [epoch, 0, True], parallel_iterations=1)
            found = tf.cond(finite, lambda: score(X_held, y_held), lambda: tf.constant(math.nan, tf.float64))
            better = found < best
            tf.cond(better, self._keep_best, lambda: tf.constant(False))
            waited = tf.where(better, 0, waited + 1)
            return epoch + 1, last, finite, tf.where(better, found, best), waited, scores.write(epoch, found)

        def goes_on(epoch: Any, last: Any, finite: Any, best: Any, waited: Any, scores: Any) -> Any:
            return finite & (epoch < count) & (waited < patience)

        start = [0, 0, True, best, waited, scores]
        _, last, finite, _, _, scores = tf.while_loop(goes_on, one_epoch, start, parallel_iterations=1)
        return scores.stack(), last, finite

    def _keep_best(self) -> Any:
        for best, variable in zip(self._best, self._model.variables, strict=True):
            best.assign(variable)
        return tf.constant(True)

    def _step(self, X: Any, y: Any, seed: Any) -> Any:
        variables = self._model.variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = self._model.loss(X, y, seed)
        gradients = tape.gradient(loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        count = self._count.assign_add(1.0)
        rate = self._rate * tf.sqrt(1.0 - _SECOND_DECAY**count) / (1.0 - _FIRST_DECAY**count)
        for variable, gradient, m, v in zip(variables, gradients, self._first, self._second, strict=True):
            m.assign(_FIRST_DECAY * m + (1.0 - _FIRST_DECAY) * gradient)
            v.assign(_SECOND_DECAY * v + (1.0 - _SECOND_DECAY) * gradient * gradient)
            variable.assign_sub(tf.cast(rate, variable.dtype) * m / (tf.sqrt(v) + _TINY))
        return loss


def _signature(X: FloatArray, y: npt.NDArray[Any]) -> list[Any]:
    kind = tf.int64 if np.issubdtype(y.dtype, np.integer) else tf.float64
    return [tf.TensorSpec([None, X.shape[1]], tf.float64), tf.TensorSpec([None], kind)]


def _assign(variables: list[Any], values: tuple[FloatArray, ...]) -> None:
    if [tuple(v.shape) for v in variables] != [value.shape for value in values]:
        raise ValueError("the state's arrays do not fit the model's variables")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


class StateFolder:
    """One file per training in a folder, written whole or not at all, at most once in `seconds`.

    If a state cannot be written or read, only the epochs since the previous state are repeated.
    """

    def __init__(self, folder: Path, seconds: float = SAVE_SECONDS) -> None:
        self._folder, self._seconds = folder, seconds
        self._saved = time.monotonic()

    def load(self, part: str) -> TrainingState | None:
        """Return the last state of a training, or None if no state can be read."""
        try:
            with self._path(part).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                epoch, batch, evaluations = (int(number) for number in stored["counts"])
                values, first, second, best = [
                    tuple(stored[f"{name}{index}"] for index in range(int(stored["variables"]))) for name in _ARRAYS
                ]
                scores = tuple(float(score) for score in stored["scores"])
                rate = float(stored["learning_rate"])
        except Exception:  # zipfile raises many kinds of errors for a damaged file
            return None
        return TrainingState(epoch, values, first, second, best, rate, batch, scores, evaluations)

    def save(self, part: str, state: TrainingState) -> None:
        if time.monotonic() - self._saved < self._seconds:
            return
        arrays = {f"{name}{index}": value for name in _ARRAYS for index, value in enumerate(getattr(state, name))}
        numbers = {
            "counts": np.array([state.epoch, state.batch, state.evaluations]),
            "variables": np.array(len(state.values)),
            "scores": np.array(state.scores),
            "learning_rate": np.array(state.learning_rate),
        }
        with contextlib.suppress(OSError):
            write_atomically(self._path(part), lambda stream: np.savez(stream, **arrays, **numbers))
        self._saved = time.monotonic()

    def _path(self, part: str) -> Path:
        return self._folder / f"{part}.npz"
