"""What an experiment is: a plan of tasks, a function that runs one, and a summary of their records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset
from gpsuite.errors import UserError
from gpsuite.models.config import ModelSpec
from gpsuite.registry import Registry
from gpsuite.reporting.comparison import Statistic

Json = Any  # None, bool, int, float, str, list or dict of the same

DONE, BUDGET, INFEASIBLE, DIVERGED, ERROR, SKIPPED = (
    "done",
    "budget",
    "infeasible",
    "diverged",
    "error",
    "skipped",
)
STATUSES = (DONE, BUDGET, INFEASIBLE, DIVERGED, ERROR, SKIPPED)
ROUNDING = 1e-9  # relative: what other processors' last bits become in well-conditioned computations
USABLE = (DONE, BUDGET)  # records whose metrics enter tables and figures


@dataclass(frozen=True)
class MethodOptions:
    """What every method file says; each method adds its own options in a subclass.

    Attributes:
        builder: name of the `Method` in `METHODS` whose options these are.
        title: the method's name in tables and figures.
        reference: paper and equation.
    """

    builder: str
    title: str
    reference: str

    def check(self) -> None:
        """Raise `UserError` for values that are of the right type but impossible."""

    @property
    def method(self) -> Method[Any]:
        """The method whose options these are."""
        return METHODS.get(self.builder)

    @property
    def params(self) -> dict[str, Json]:
        """What decides numbers: everything but how it is called and where it is from."""
        return {name: value for name, value in asdict(self).items() if name not in ("title", "reference")}


Options = TypeVar("Options", bound=MethodOptions)


@dataclass(frozen=True)
class Method(Generic[Options]):
    """An entry of `METHODS`, registered beside its options; a family adds in a subclass how its methods work.

    Attributes:
        options: dataclass of the method's options, a subclass of `MethodOptions`.
        dataset_tasks: kinds of dataset it can learn from.
        traits: what experiments ask for: what it offers and is made of, in words of its family.
        version: raised when the method's numbers change, so that stored records are computed anew.
    """

    options: type[Options]
    dataset_tasks: tuple[str, ...]
    traits: frozenset[str]
    version: int = 1


@dataclass(frozen=True)
class Request:
    """A validated request to run one experiment: everything science needs, nothing of comfort.

    Attributes:
        experiment: `family/name`.
        scale: smoke, quick or paper.
        seed: the experiment's seed.
        settings: the experiment's own settings (an instance of its settings dataclass).
        methods: method name -> options, in the order asked for.
        model: kernel choice.
        dataset: verified dataset, or None for experiments without one, or with several.
        datasets: name -> verified dataset of an experiment over several, in the order asked for; else empty.
        dataset_options: the dataset's file as configured, for the record.
        budget_seconds: wall-clock limit per task, or None.
        options: the composed configuration as plain values, as written to config.yaml.
    """

    experiment: str
    scale: str
    seed: int
    settings: Any
    methods: Mapping[str, MethodOptions]
    model: ModelSpec
    dataset: PreparedDataset | None = None
    datasets: Mapping[str, PreparedDataset] = field(default_factory=dict)
    budget_seconds: float | None = None
    options: Mapping[str, Json] = field(default_factory=dict)

    @property
    def prepared(self) -> tuple[PreparedDataset, ...]:
        """Every dataset of the request: none, the one, or several."""
        return tuple(self.datasets.values()) if self.dataset is None else (self.dataset,)

    @property
    def family(self) -> str:
        """The part of the experiment's name before the slash."""
        return self.experiment.split("/")[0]


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
class Task:
    """The smallest unit worth repeating: one split x one method x one parameter value.

    Attributes:
        experiment: `family/name`; its `run` function executes the task.
        label: for people.
        axes: what distinguishes the task within its plan; columns of records.csv.
        params: science parameters, hashed into the key; plain JSON values.
        dataset: the prepared dataset, or None.
        version: the method's version number, hashed.
        group: tasks of one group run in order in one worker and may share costly work.
        cost: estimated CPU seconds, to choose a backend.
        budget_seconds: wall-clock limit; not hashed, but a limited record is redone when it grows.
    """

    experiment: str
    label: str
    axes: Mapping[str, str | int | float]
    params: Mapping[str, Json]
    dataset: PreparedDataset | None = None
    version: int = 1
    group: str = ""
    cost: float = 1.0
    budget_seconds: float | None = None

    def __post_init__(self) -> None:
        allowed = _ALLOWED.get()
        if allowed is not None and next(allowed, None) is None:
            raise TooManyTasksError


@dataclass(frozen=True)
class Outcome:
    """What running a task gives: numbers, arrays and how it ended.

    Attributes:
        metrics: named numbers or words; columns of records.csv.
        status: one of `STATUSES` except error, which the engine sets.
        reason: why, when the status is not done.
        arrays: larger results, kept as npz.
        headline: the main number in a few words, for the progress line.
    """

    metrics: Mapping[str, float | int | str | bool | None]
    status: str = DONE
    reason: str = ""
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    headline: str = ""


@dataclass(frozen=True)
class Record:
    """A stored outcome.

    `timing` is measured (seconds, MB) and outside every promise of equality; `origin` says which commit, versions and
    machine computed it.
    """

    key: str
    experiment: str
    label: str
    axes: Mapping[str, str | int | float]
    status: str
    reason: str
    metrics: Mapping[str, float | int | str | bool | None]
    timing: Mapping[str, float]
    budget_seconds: float | None = None
    headline: str = ""
    traceback: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether its metrics may enter tables: done, or the best valid answer within a budget."""
        return self.status in USABLE

    def number(self, name: str) -> float:
        """Return a metric as float; NaN when it is missing."""
        value = self.metrics.get(name)
        return float(value) if isinstance(value, int | float) else math.nan


Publishable = Callable[[Sequence[Record]], Sequence[frozenset[str]]]
"""Records of a run -> for each, the names of the arrays that are published with it."""


def every_array(records: Sequence[Record]) -> list[frozenset[str]]:
    """Publish all arrays: they hold no rows of a dataset."""
    return [frozenset(record.arrays) for record in records]


def only_arrays(*patterns: str) -> Publishable:
    """Publish the arrays whose names match a pattern: the others hold rows of a dataset, or are not drawn from."""

    def names(records: Sequence[Record]) -> list[frozenset[str]]:
        return [
            frozenset(name for name in record.arrays if any(fnmatchcase(name, each) for each in patterns))
            for record in records
        ]

    return names


S = TypeVar("S")


class SharedWork:
    """Costly intermediate results that tasks of one group share (a trained model, a loaded dataset).

    Args:
        observer: for the tasks' budgets: who shows how far a running task is, or None.
    """

    def __init__(self, observer: Callable[[Budget], None] | None = None) -> None:
        self.observer = observer
        self._done: dict[str, Any] = {}

    def once(self, name: str, compute: Callable[[], S]) -> S:
        """Return the result stored under `name`, computing it the first time."""
        if name not in self._done:
            self._done[name] = compute()
        result: S = self._done[name]
        return result


@dataclass(frozen=True)
class Experiment:
    """An entry of `EXPERIMENTS`.

    Attributes:
        settings: dataclass of the experiment's settings, with defaults; may have `check()`.
        plan: request -> tasks, without TensorFlow, in a second.
        run: one task -> outcome.
        summarise: writes tables and figures from the records; returns the statistics to compare.
        method_traits: which methods of its family it accepts: those that have all of these; empty when it has none.
        dataset_tasks: kinds of dataset the user may swap in; empty when the dataset is fixed.
        several_datasets: whether it runs over a list, `datasets=[A,B]`. Its statistics then carry the dataset's name,
            so that a run on other datasets is never held against numbers of these.
        parts: settings (numbers, lists, or `methods`) of which a run may take a part, fewer or some of the shipped,
            and still be held against the paper: it answers the same question from less evidence.
        published: which arrays leave the machine with published records: what tables and figures need, and never rows
            of a dataset.
        agreement: relative difference up to which a result computed again on another machine agrees; larger than
            rounding where a search over an ill-conditioned objective magnifies it, or where seconds decide.
    """

    settings: type
    plan: Callable[[Request], list[Task]]
    run: Callable[[Task, SharedWork], Outcome]
    summarise: Callable[[Request, Sequence[Record], Path, str | None], list[Statistic]]
    method_traits: tuple[str, ...] = ()
    dataset_tasks: tuple[str, ...] = ()
    several_datasets: bool = False
    parts: tuple[str, ...] = ()
    published: Publishable = every_array
    agreement: float = ROUNDING


EXPERIMENTS: Registry[Experiment] = Registry("experiment")
METHODS: Registry[Method[Any]] = Registry("method builder")


def require(condition: bool, key: str, value: object, allowed: str) -> None:
    """Raise `UserError` naming key, value and what is allowed unless `condition` holds."""
    if not condition:
        raise UserError(f"{key}={value}: {allowed}", key=key)


def finite_or_none(value: float) -> float | None:
    """Return the float, or None when it is not finite (records hold no NaN)."""
    number = float(value)
    return number if np.isfinite(number) else None
