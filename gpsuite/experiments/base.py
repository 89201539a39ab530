"""What an experiment is: a plan of tasks, a function that runs one, and a summary of their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset
from gpsuite.errors import UserError
from gpsuite.experiments.params import Json
from gpsuite.experiments.records import (
    BUDGET,
    DIVERGED,
    DONE,
    ERROR,
    INFEASIBLE,
    SKIPPED,
    STATUSES,
    Outcome,
    Publishable,
    Record,
    every_array,
    finite_or_none,
    only_arrays,
)
from gpsuite.models.config import ModelSpec
from gpsuite.registry import Registry
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.figures import Drawing, figure
from gpsuite.reporting.metrics import headings
from gpsuite.reporting.tables import write_table

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BUDGET",
    "DIVERGED",
    "DONE",
    "ERROR",
    "EXPERIMENTS",
    "INFEASIBLE",
    "METHODS",
    "SKIPPED",
    "STATUSES",
    "Experiment",
    "Json",
    "Method",
    "MethodOptions",
    "Outcome",
    "Publishable",
    "Record",
    "Report",
    "Request",
    "SharedWork",
    "Task",
    "TooManyTasksError",
    "at_most",
    "every_array",
    "finite_or_none",
    "only_arrays",
    "require",
]

T = TypeVar("T")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True, default=Any)
P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True, default=Any)

ROUNDING = 1e-9  # relative: what other processors' last bits become in well-conditioned computations


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
class Request(Generic[S_co]):
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
    settings: S_co
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

    def require_dataset(self) -> PreparedDataset:
        """Return the dataset of an experiment that has one.

        Raises:
            ValueError: if there is none.
        """
        return _present(self.dataset, self.experiment)

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
        """Return a task of this request, on its dataset unless another is given; see `Task`."""
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


def _present(dataset: PreparedDataset | None, asking: str) -> PreparedDataset:
    if dataset is None:
        raise ValueError(f"{asking} needs a dataset")
    return dataset


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
        return _present(self.dataset, self.label)


class SharedWork:
    """Costly intermediate results that tasks of one group share (a trained model, a loaded dataset).

    Args:
        observer: for the tasks' budgets: who shows how far a running task is, or None.
    """

    def __init__(self, observer: Callable[[Budget], None] | None = None) -> None:
        self.observer = observer
        self._done: dict[str, Any] = {}

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """Return the result stored under `name`, computing it the first time."""
        if name not in self._done:
            self._done[name] = compute()
        result: T = self._done[name]
        return result


@dataclass(frozen=True)
class Report(Generic[S_co]):
    """The sheet an experiment writes its tables and figures on, from the records that may enter them.

    Attributes:
        request: what was asked for.
        planned: the plan's records, in its order.
        folder: the run's.
        note: what a reader must know of every table and figure (stand-in data, smoke scale), or None.
    """

    request: Request[S_co]
    planned: Sequence[Record]
    folder: Path
    note: str | None = None

    @property
    def settings(self) -> S_co:
        """The experiment's own settings."""
        return self.request.settings

    @property
    def titles(self) -> dict[str, str]:
        """Method name -> its title in tables and figures, in the order asked for."""
        return {name: options.title for name, options in self.request.methods.items()}

    def records(self, **axes: str | int | float) -> list[Record]:
        """Return the usable records, in the plan's order: those whose axes have these values."""
        return [
            record
            for record in self.planned
            if record.usable
            and all(name in record.axes and record.axes[name] == value for name, value in axes.items())
        ]

    def table(
        self, frame: pd.DataFrame, name: str, caption: str, labels: Mapping[str, str] | None = None
    ) -> None:
        """Write a table, the note behind its caption; columns that are metrics get their headings from the registry.

        Args:
            frame: see `write_table`.
            name: file name without ending.
            caption: one sentence, without the note.
            labels: headings of other columns, or of metrics called otherwise here.
        """
        text = f"{caption} ({self.note})" if self.note else caption
        known = headings(str(column) for column in frame.columns)
        write_table(frame, self.folder / "tables", name, text, {**known, **(labels or {})})

    def figure(self, name: str, *, remark: str = "", **options: Any) -> AbstractContextManager[Drawing]:
        """Return a figure to draw on, saved as its block ends; see `reporting.figures.figure` for the options.

        Args:
            name: file name without ending.
            remark: of its own, written below the figure before the note.
            **options: rows, columns, size and what `matplotlib.pyplot.subplots` takes.
        """
        below = "; ".join(text for text in (remark, self.note) if text)
        return figure(self.folder / "figures", name, below or None, **options)


Run = Callable[[Task[Any], SharedWork], Outcome]


@dataclass(frozen=True)
class Experiment(Generic[S]):
    """An entry of `EXPERIMENTS`.

    Attributes:
        settings: dataclass of the experiment's settings, with defaults; may have `check()`.
        plan: request -> tasks, without TensorFlow, in a second.
        runs: one task -> outcome; with several kinds of tasks, the type of their params -> such a function.
        summarise: writes tables and figures on the report; returns the statistics to compare.
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

    settings: type[S]
    plan: Callable[[Request[S]], Sequence[Task[Any]]]
    runs: Run | Mapping[type[Any], Run]
    summarise: Callable[[Report[S]], list[Statistic]]
    method_traits: tuple[str, ...] = ()
    dataset_tasks: tuple[str, ...] = ()
    several_datasets: bool = False
    parts: tuple[str, ...] = ()
    published: Publishable = every_array
    agreement: float = ROUNDING

    def run(self, task: Task[Any], shared: SharedWork) -> Outcome:
        """Run one task by the function for its kind of params."""
        run = self.runs if callable(self.runs) else self.runs[type(task.params)]
        return run(task, shared)


EXPERIMENTS: Registry[Experiment[Any]] = Registry("experiment")
METHODS: Registry[Method[Any]] = Registry("method builder")


def require(condition: bool, key: str, value: object, allowed: str) -> None:
    """Raise `UserError` naming key, value and what is allowed unless `condition` holds."""
    if not condition:
        raise UserError(f"{key}={value}: {allowed}", key=key)
