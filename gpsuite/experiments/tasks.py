"""The unit of work: one task of a plan, and what the tasks of a group share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset

T = TypeVar("T")
P_co = TypeVar("P_co", covariant=True)


_ALLOWED: ContextVar[Iterator[int] | None] = ContextVar("tasks still allowed", default=None)


class TooManyTasksError(Exception):
    """A plan has more tasks than it may have."""


@contextmanager
def at_most(tasks: int) -> Iterator[None]:
    """Allow so many tasks to be made inside: a plan that asks for more must not fill the memory first.

    Raises:
        TooManyTasksError: from the task that is one too many.
    """
    token = _ALLOWED.set(iter(range(tasks)))
    try:
        yield
    finally:
        _ALLOWED.reset(token)


@dataclass(frozen=True)
class Task(Generic[P_co]):
    """The smallest unit worth repeating: one split x one method x one parameter value.

    Attributes:
        experiment: `family/name`; its `run` function executes the task.
        label: for people.
        axes: what distinguishes the task within its plan; columns of records.csv.
        params: science parameters, hashed into the key: a frozen dataclass, one for each kind of task, see
            `experiments.params`.
        dataset: the prepared dataset, or None.
        version: the method's version number, hashed.
        group: tasks of one group run in order in one worker and may share costly work.
        cost: estimated CPU seconds, to choose a backend.
        budget_seconds: wall-clock limit; not hashed, but a limited record is redone when it grows.
    """

    experiment: str
    label: str
    axes: Mapping[str, str | int | float]
    params: P_co
    dataset: PreparedDataset | None = None
    version: int = 1
    group: str = ""
    cost: float = 1.0
    budget_seconds: float | None = None

    def __post_init__(self) -> None:
        allowed = _ALLOWED.get()
        if allowed is not None and next(allowed, None) is None:
            raise TooManyTasksError

    def require_dataset(self) -> PreparedDataset:
        """Return the dataset of a task that has one.

        Raises:
            ValueError: if there is none.
        """
        return present(self.dataset, self.label)


class SharedWork:
    """Costly intermediate results that tasks of one group share (a trained model, a loaded dataset).

    Args:
        observer: for the tasks' budgets: who shows how far a running task is, or None.

    Attributes:
        states: a folder of the running task's own, where it may leave from what to go on after an interruption, or
            None where nothing is kept. It is removed when the task has ended,
            unless its budget ended it.
    """

    def __init__(self, observer: Callable[[Budget], None] | None = None) -> None:
        self.observer = observer
        self.states: Path | None = None
        self._done: dict[str, Any] = {}

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return the result stored under `name`, computing it the first time."""
        if name not in self._done:
            self._done[name] = compute()
        result: T = self._done[name]
        return result


def present(dataset: PreparedDataset | None, asking: str) -> PreparedDataset:
    """Return a dataset that must be there.

    Raises:
        ValueError: naming who asks, if it is not.
    """
    if dataset is None:
        raise ValueError(f"{asking} needs a dataset")
    return dataset
