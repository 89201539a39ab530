"""Training states on disk: a training that was killed goes on from its last one.

Equation: none, storage
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import numpy as np

from gpsuite.atomic import write_atomically
from gpsuite.methods.wasserstein.training import TrainingState

SAVE_SECONDS = 10.0  # between states: at most so much work is lost
_ARRAYS = ("values", "first", "second", "best")


class StateFolder:
    """One file per training in a folder, written whole or not at all, at most once in `seconds`.

    A state that cannot be written or read only costs the epochs since the one before.

    Args:
        folder: made with the first state.
        seconds: between two states.
    """

    def __init__(self, folder: Path, seconds: float = SAVE_SECONDS) -> None:
        self._folder, self._seconds = folder, seconds
        self._saved = time.monotonic()

    def load(self, part: str) -> TrainingState | None:
        """Return the last state of a training, or None when there is none that can be read."""
        try:
            with (
                self._path(part).open("rb") as stream,
                np.load(stream, allow_pickle=False) as stored,
            ):
                epoch, batch, evaluations = (int(number) for number in stored["counts"])
                values, first, second, best = [
                    tuple(stored[f"{name}{index}"] for index in range(int(stored["variables"])))
                    for name in _ARRAYS
                ]
                scores = tuple(float(score) for score in stored["scores"])
                rate = float(stored["learning_rate"])
        except Exception:  # zipfile answers damage with many kinds
            return None
        return TrainingState(epoch, values, first, second, best, rate, batch, scores, evaluations)

    def save(self, part: str, state: TrainingState) -> None:
        """Keep a state, if it is time."""
        if time.monotonic() - self._saved < self._seconds:
            return
        arrays = {
            f"{name}{index}": value for name in _ARRAYS for index, value in enumerate(getattr(state, name))
        }
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
