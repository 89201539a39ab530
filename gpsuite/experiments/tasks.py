"""Task params: frozen dataclasses, one for each kind of task, and the plain JSON that their keys are hashed from.

A field may say in its metadata how the JSON holds it::

    problem: Problem = field(metadata=INLINE)  # the problem's own fields, not an object of them
    limit: float | None = field(default=None, metadata=OPTIONAL)  # left out when it is None
    broken: str = field(metadata=named("break"))
    search: str = field(default="published", metadata=left_out_as("published"))  # keys older than it stay
    title: str = field(metadata=LEFT_OUT)  # for people: it changes no number
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from gpsuite import plugins
from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset
from gpsuite.models.config import ModelSpec
from gpsuite.registry import Registry

Json = Any  # None, bool, int, float, str, list or dict of the same

Name = TypeVar("Name", bound=str)
Kind = TypeVar("Kind")

INLINE = {"inline": True}
OPTIONAL = {"optional": True}
LEFT_OUT = {"left_out": True}


def named(name: str) -> dict[str, str]:
    """Return the metadata of a field that has another name in the JSON."""
    return {"json": name}


def left_out_as(value: Json) -> dict[str, Json]:
    """Return the metadata of a field that is left out of the JSON when it has this value."""
    return {"left_out_as": value}


def choice(value: str, valid: Iterable[Name]) -> Name:
    """Return a word of the settings as what it is known to be: one of the valid ones.

    Raises:
        ValueError: if it is none of them.
    """
    for known in valid:
        if known == value:
            return known
    raise ValueError(f"{value}: must be one of {', '.join(valid)}")


def take(kind: Callable[..., Kind], settings: object, **own: Any) -> Kind:
    """Return the params of a task: its fields are read from the settings of the same name, except those given.

    A setting is so said once, in the settings. A list becomes a tuple, because params are frozen.

    Raises:
        TypeError: if a field without a default is not given and no setting, or a given name is no field.
    """
    named_fields = [each.name for each in fields(cast("type[Any]", kind)) if each.init]
    found = {name: getattr(settings, name) for name in named_fields if name not in own and hasattr(settings, name)}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}, **own)


def plain(value: object) -> Json:
    """Return params as plain JSON values: a dataclass as an object of its fields, a tuple as a list.

    Raises:
        ValueError: if two fields of a dataclass, those of inlined ones included, have the same name.
    """
    if is_dataclass(value):
        pairs = [pair for field in fields(value) for pair in _members(field, getattr(value, field.name))]
        if len(dict(pairs)) < len(pairs):
            raise ValueError(f"{type(value).__name__}: two fields have the same name in the JSON")
        return dict(pairs)
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    return value


def _members(field: Field[Any], value: object) -> Iterator[tuple[str, Json]]:
    """Yield what a field adds to its object: nothing, one member, or its value's own members."""
    if field.metadata.get("inline"):
        yield from plain(value).items()
    elif field.metadata.get("left_out") or (value is None and field.metadata.get("optional")):
        return
    elif "left_out_as" not in field.metadata or value != field.metadata["left_out_as"]:
        yield field.metadata.get("json", field.name), plain(value)


# The unit of work: one task of a plan, and what the tasks of a group share.


T = TypeVar("T")
P_co = TypeVar("P_co", covariant=True)
_ALLOWED: ContextVar[Iterator[int] | None] = ContextVar("tasks still allowed", default=None)


class TooManyTasksError(Exception):
    """A plan has more tasks than it may have."""


@contextmanager
def at_most(tasks: int) -> Iterator[None]:
    """Allow so many tasks to be made inside: a plan that requests more must not fill the memory first.

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
        experiment: `family/name`. Its `run` function executes the task.
        label: for people.
        axes: what distinguishes the task within its plan. Columns of records.csv.
        params: science parameters, hashed into the key: a frozen dataclass, one for each kind of task, see
            `experiments.params`.
        dataset: the prepared dataset, or None.
        version: the method's version number, hashed.
        group: tasks of one group run in order in one worker and may share costly work.
        cost: estimated CPU seconds, to choose a backend.
        budget_seconds: wall-clock limit. Not hashed, but a limited record is redone when it grows.
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
        began: when the running task began, by `time.monotonic`. The first one begins with the command.
        states: a folder of only the running task, for the state from which to continue after an interruption, or
            None if nothing is kept. It is removed when the task has ended,
            unless its budget ended it.
    """

    def __init__(self, observer: Callable[[Budget], None] | None = None) -> None:
        self.observer = observer
        self.began = time.monotonic()
        self.states: Path | None = None
        self._done: dict[str, Any] = {}

    def budget(self, seconds: float | None, *, evaluations: int | None = None, boxes: int | None = None) -> Budget:
        """Return a budget whose seconds began with the running task, and which its observer sees."""
        return Budget(seconds, evaluations, boxes, started=self.began, observer=self.observer)

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


# The request to an experiment: its settings, methods, model and data.


P = TypeVar("P")
S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True)
class MethodOptions:
    """Options that every method file has. Each method adds its own options in a subclass.

    Attributes:
        builder: name of the `Method` in `METHODS` whose options these are.
        title: the method's name.
        reference: paper and equation.
    """

    builder: str
    title: str = field(metadata=LEFT_OUT)
    reference: str = field(metadata=LEFT_OUT)

    @property
    def method(self) -> Method[Any]:
        """The method whose options these are."""
        return METHODS.get(self.builder)

    @property
    def heading(self) -> str:
        """The method's name in tables and figures, with what sets it apart from the method as published."""
        return self.title

    @property
    def params(self) -> dict[str, Json]:
        """Parameters that decide numbers: everything but title and reference."""
        params: dict[str, Json] = plain(self)
        return params


Options = TypeVar("Options", bound=MethodOptions)


@dataclass(frozen=True)
class Method(Generic[Options]):
    """An entry of `METHODS`, registered next to its options. A family adds in a subclass how its methods work.

    Attributes:
        options: dataclass of the method's options, a subclass of `MethodOptions`.
        dataset_tasks: kinds of dataset it can learn from.
        traits: properties that experiments require: what it offers and is made of, in words of its family.
        version: raised when the method's numbers change, so that stored records are computed again.
    """

    options: type[Options]
    dataset_tasks: tuple[str, ...]
    traits: frozenset[str]
    version: int = 1


METHODS: Registry[Method[Any]] = Registry("method builder", plugins.METHODS, Method)


@dataclass(frozen=True)
class Request(Generic[S_co]):
    """A validated request to run one experiment: everything that decides numbers, no option of how to run.

    Attributes:
        experiment: `family/name`.
        scale: smoke, quick or paper.
        seed: the experiment's seed.
        settings: the experiment's own settings (an instance of its settings dataclass).
        methods: method name -> options, in the order requested.
        model: kernel choice.
        dataset: verified dataset, or None for experiments without one, or with several.
        datasets: name -> verified dataset of an experiment over several, in the order requested. Else empty.
        further: datasets that its tasks work on next to these, known once they are planned.
        budget_seconds: wall-clock limit per task, or None.
        options: the composed configuration as plain values, as written to config.yaml.
    """

    experiment: str
    scale: str
    seed: int
    settings: S_co
    methods: Mapping[str, MethodOptions]
    model: ModelSpec
    dataset: PreparedDataset | None = None
    datasets: Mapping[str, PreparedDataset] = field(default_factory=dict)
    further: tuple[PreparedDataset, ...] = ()
    budget_seconds: float | None = None
    options: Mapping[str, Json] = field(default_factory=dict)

    @property
    def prepared(self) -> tuple[PreparedDataset, ...]:
        """Every dataset of the request: none, the one, or several, and the further ones."""
        return (*self.datasets.values(), *([] if self.dataset is None else [self.dataset]), *self.further)

    @property
    def doubts(self) -> list[str]:
        """Doubts about how the tables were read."""
        return [f"Check the table: {doubt}" for data in self.prepared for doubt in data.warnings]

    @property
    def family(self) -> str:
        """The part of the experiment's name before the slash."""
        return self.experiment.split("/")[0]

    def require_dataset(self) -> PreparedDataset:
        """Return the dataset of an experiment that has one.

        Raises:
            ValueError: if there is none.
        """
        return present(self.dataset, self.experiment)

    def task(
        self,
        params: P,
        *,
        label: str,
        axes: Mapping[str, str | int | float],
        version: int = 1,
        cost: float = 1.0,
        group: str = "",
        dataset: PreparedDataset | None = None,
    ) -> Task[P]:
        """Return a task of this request, on its dataset unless another is given. See `Task`."""
        return Task(
            experiment=self.experiment,
            label=label,
            axes=axes,
            params=params,
            dataset=self.dataset if dataset is None else dataset,
            version=version,
            group=group,
            cost=cost,
            budget_seconds=self.budget_seconds,
        )
