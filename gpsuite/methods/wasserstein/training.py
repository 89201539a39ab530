"""Minibatch training by Adam with a validation split, early stopping, and a state from which it goes on exactly.

Everything random is derived from the seed and the epoch or step, so a training that was interrupted and continued
from its last state ends with the same numbers as one that was not.

Equation: Kingma & Ba 2015, Algorithm 1
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.seeds import derived_seed, stream

_FIRST_DECAY, _SECOND_DECAY, _TINY = 0.9, 0.999, 1e-7  # Kingma & Ba 2015


class Trainable(Protocol):
    """What is trained: variables, a loss on a batch, and a score on the validation rows."""

    @property
    def variables(self) -> list[Any]:
        """TensorFlow variables, always in the same order."""
        ...

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        """Return the scalar to be minimised for a batch [N_B, D], [N_B]; seed: two integers of this step."""
        ...

    def validation_loss(self, X: FloatArray, y: npt.NDArray[Any]) -> float:
        """Return the mean negative log predictive probability or density of held-out rows, in nats."""
        ...


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training and validation rows.

    Attributes:
        X: inputs [N, D].
        y: targets [N]: integers 0, ..., C - 1 or numbers.
        X_validation: held-out inputs [N', D].
        y_validation: their targets [N'].

    Raises:
        ValueError: if shapes do not fit, a part has no rows, or a value is not finite.
    """

    X: FloatArray
    y: npt.NDArray[Any]
    X_validation: FloatArray
    y_validation: npt.NDArray[Any]

    def __post_init__(self) -> None:
        for X, y in ((self.X, self.y), (self.X_validation, self.y_validation)):
            if X.ndim != 2 or y.shape != (len(X),) or len(X) == 0 or X.shape[1] != self.X.shape[1]:
                raise ValueError(f"inputs [N, D] and targets [N], N >= 1, are needed: {X.shape}, {y.shape}")
            if not (np.isfinite(X).all() and np.isfinite(y).all()):
                raise ValueError("inputs and targets must be finite")


def split_rows(X: FloatArray, y: npt.NDArray[Any], share: float, rng: np.random.Generator) -> TrainingRows:
    """Return a random split with about `share` of the rows for validation, at least one of both.

    Raises:
        ValueError: if there are fewer than 2 rows, or the share is not in (0, 1).
    """
    if len(X) < 2 or not 0.0 < share < 1.0:
        raise ValueError(f"{len(X)} rows, share {share}: at least 2 rows and a share in (0, 1) are needed")
    order = rng.permutation(len(X))
    held = min(max(round(share * len(X)), 1), len(X) - 1)
    return TrainingRows(X[order[held:]], y[order[held:]], X[order[:held]], y[order[:held]])


@dataclass(frozen=True)
class TrainingOptions:
    """How to train.

    Attributes:
        epochs: passes over the data at most.
        batch: rows of a step; the last batch of an epoch may be smaller.
        learning_rate: of Adam.
        patience: epochs without a better validation score after which it ends.

    Raises:
        ValueError: if a number is not positive.
    """

    epochs: int = 100
    batch: int = 1000
    learning_rate: float = 1e-2
    patience: int = 10

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch, self.patience) < 1 or not self.learning_rate > 0.0:
            raise ValueError(f"epochs, batch, patience and learning_rate must be positive: {self}")


@dataclass(frozen=True, eq=False)
class TrainingState:
    """All that the next epoch depends on.

    Attributes:
        epoch: epochs done.
        values: of the variables, in order; likewise Adam's moments `first` and `second`, and `best`.
        best: values with the best validation score so far.
        scores: validation score after each epoch.
        evaluations: steps done.
    """

    epoch: int
    values: tuple[FloatArray, ...]
    first: tuple[FloatArray, ...]
    second: tuple[FloatArray, ...]
    best: tuple[FloatArray, ...]
    scores: tuple[float, ...] = ()
    evaluations: int = 0

    @property
    def best_epoch(self) -> int:
        """Epoch, from 1, of the best score; 0 before the first, or if none was finite."""
        finite = [(score, index) for index, score in enumerate(self.scores, 1) if math.isfinite(score)]
        return min(finite)[1] if finite else 0

    @property
    def best_score(self) -> float:
        """Best validation score; infinite before the first."""
        return self.scores[self.best_epoch - 1] if self.best_epoch else math.inf


@dataclass(frozen=True, eq=False)
class TrainingReport:
    """How a training ended; the model holds the values with the best validation score.

    Attributes:
        status: done (all epochs, or stopped early), budget, or diverged (the loss or every score was not finite).
        reason: why it ended, in words.
        state: as it ended; continue from it with a larger budget or more epochs.
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

    Args:
        model: changed in place.
        rows: training and validation rows.
        options: how.
        seed: of the order of rows and of what the loss samples.
        budget: each step is one evaluation; when it ends within an epoch, that epoch is scored as it stands. At
            least one step is done.
        start: a state of an earlier training with the same seed; None begins with the variables as they are.
        keep: told the state after every epoch.

    Raises:
        ValueError: if the state's arrays do not fit the variables.
    """
    adam = AdamStep(model, options.learning_rate, start)
    state = start or adam.state(0, adam.values(), (), 0)
    reason, ended = "", ""
    while not (reason := _finished(state, options)):
        steps, ended = _epoch(adam, rows, options, seed, budget, state)
        score = model.validation_loss(rows.X_validation, rows.y_validation) if ended != "nan" else math.nan
        better = score < state.best_score
        scores = (*state.scores, float(score))
        best = adam.values() if better else state.best
        state = adam.state(state.epoch + 1, best, scores, state.evaluations + steps)
        if keep is not None and not ended:
            keep(state)
        if ended:
            break
    _assign(model.variables, state.best)
    if ended == "nan" or state.best_epoch == 0:
        return TrainingReport("diverged", f"the loss is not finite in epoch {state.epoch}", state)
    if ended:
        return TrainingReport("budget", budget.reason, state)
    return TrainingReport("done", reason, state)


def _finished(state: TrainingState, options: TrainingOptions) -> str:
    if state.epoch >= options.epochs:
        return f"{options.epochs} epochs done"
    if state.epoch and state.epoch - state.best_epoch >= options.patience:
        return f"no better validation score for {options.patience} epochs"
    return ""


def _epoch(
    adam: AdamStep,
    rows: TrainingRows,
    options: TrainingOptions,
    seed: int,
    budget: Budget,
    state: TrainingState,
) -> tuple[int, str]:
    """Do one pass; return the steps done and what ended it early: `nan`, `budget` or nothing."""
    order = stream(seed, "epoch", state.epoch).permutation(len(rows.X))
    steps = 0
    for at in range(0, len(order), options.batch):
        if budget.exhausted and state.evaluations + steps > 0:
            return steps, "budget"
        chosen = order[at : at + options.batch]
        step_seed = derived_seed(seed, "step", state.evaluations + steps) % 2**31
        loss = adam.step(rows.X[chosen], rows.y[chosen], step_seed)
        steps += 1
        budget.spend(evaluations=1, best=state.best_score)
        if not math.isfinite(loss):
            return steps, "nan"
    return steps, ""


class AdamStep:
    """Adam's step as one compiled function (Kingma & Ba 2015, Algorithm 1)."""

    def __init__(self, model: Trainable, learning_rate: float, start: TrainingState | None) -> None:
        self._model, self._rate = model, learning_rate
        self._first, self._second = (
            [tf.Variable(tf.zeros_like(v)) for v in model.variables] for _ in range(2)
        )
        self._count = tf.Variable(0.0, dtype=tf.float64)
        if start is not None:
            _assign(model.variables, start.values)
            _assign(self._first, start.first)
            _assign(self._second, start.second)
            self._count.assign(float(start.evaluations))
        self._compiled: Any = None

    def values(self) -> tuple[FloatArray, ...]:
        """Return the variables' values."""
        return tuple(variable.numpy() for variable in self._model.variables)

    def state(
        self, epoch: int, best: tuple[FloatArray, ...], scores: tuple[float, ...], evaluations: int
    ) -> TrainingState:
        """Return the state as it stands."""
        first, second = (tuple(v.numpy() for v in part) for part in (self._first, self._second))
        return TrainingState(epoch, self.values(), first, second, best, scores, evaluations)

    def step(self, X: FloatArray, y: npt.NDArray[Any], seed: int) -> float:
        """Take one step on a batch and return its loss before the step."""
        if self._compiled is None:
            kind = tf.int64 if np.issubdtype(y.dtype, np.integer) else tf.float64
            signature = [
                tf.TensorSpec([None, X.shape[1]], tf.float64),
                tf.TensorSpec([None], kind),
                tf.TensorSpec([2], tf.int32),
            ]
            self._compiled = tf.function(self._step, input_signature=signature)
        return float(self._compiled(X, y, np.array([seed, 0], np.int32)).numpy())

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


def _assign(variables: list[Any], values: tuple[FloatArray, ...]) -> None:
    if [tuple(v.shape) for v in variables] != [value.shape for value in values]:
        raise ValueError("the state's arrays do not fit the model's variables")
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
