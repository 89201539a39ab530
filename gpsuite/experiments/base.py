"""Interface of an experiment: a plan of tasks, a function that runs one, and a summary of their records."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gpsuite import plugins
from gpsuite.errors import UserError
from gpsuite.experiments.report import (
    BUDGET,
    DIVERGED,
    DONE,
    ERROR,
    INFEASIBLE,
    SKIPPED,
    STATUSES,
    WARNINGS_APART,
    Outcome,
    Publishable,
    Record,
    Report,
    every_array,
    finite_or_none,
    frame_of,
    no_array,
    only_arrays,
)
from gpsuite.experiments.tasks import (
    METHODS,
    Json,
    Method,
    MethodOptions,
    Request,
    SharedWork,
    Task,
    TooManyTasksError,
    at_most,
)
from gpsuite.models.config import KERNEL_NAMES
from gpsuite.registry import Registry
from gpsuite.reporting.comparison import Statistic

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
    "WARNINGS_APART",
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
    "every_task",
    "finite_or_none",
    "frame_of",
    "import_family",
    "no_array",
    "no_task",
    "only_arrays",
    "require",
]

S = TypeVar("S")

ROUNDING = 1e-9  # relative: what other processors' last bits become in well-conditioned computations


Run = Callable[[Task[Any], SharedWork], Outcome]


def no_task(task: Task[Any]) -> bool:
    """Return False, for `Experiment.chaotic`."""
    return False


def every_task(task: Task[Any]) -> bool:
    """Return True, for `Experiment.chaotic`."""
    return True


@dataclass(frozen=True)
class Experiment(Generic[S]):
    """An entry of `EXPERIMENTS`.

    Attributes:
        settings: dataclass of the experiment's settings, with defaults. May have `check()`.
        plan: request -> tasks, without TensorFlow, in a second.
        runs: one task -> outcome. With several kinds of tasks, the type of their params -> such a function.
        summarise: writes tables and figures on the report. Returns the statistics to compare.
        method_traits: traits that a method must have, besides being of a family of the methods in its file. Empty if
            it takes no methods.
        any_trait: whether one of these traits is enough.
        methodless: kinds of dataset for which it needs no method.
        model_keys: keys of the chosen model that it reads. Another key is refused, so that no choice is ignored.
        kernels: kernels of a model that it takes.
        dataset_tasks: kinds of dataset the user may swap in. Empty when the dataset is fixed.
        new_rows: whether it predicts the rows of `dataset.new`.
        variants: other preparations of a fixed dataset's files, which the user may choose.
        several_datasets: whether it runs over a list, `datasets=[A,B]`. Its statistics then carry the dataset's name,
            so that a run on other datasets is never compared with numbers of the shipped ones.
        single_dataset: whether an experiment on several datasets also runs on one that the user names, `dataset=NAME`
            or a table.
        only_datasets: the datasets that it has a protocol for. Empty when it takes all of its kinds.
        parts: settings (numbers, lists, or `methods`) that a run may reduce, to fewer or some of the shipped values,
            and still be compared with the paper: it answers the same question from less evidence.
        published: arrays that leave the machine with published records. They are what tables and figures need, and
            never rows of a dataset. Empty by default.
        agreement: relative difference up to which a result computed again on another machine agrees. Larger than
            rounding where a search over an ill-conditioned objective magnifies it, or where seconds decide.
        chaotic: tasks whose result depends on the last bits: the path of a sampler and the choices after it, or the
            training of a network. On a processor with other arithmetic their numbers need not agree.
    """

    settings: type[S]
    plan: Callable[[Request[S]], Sequence[Task[Any]]]
    runs: Run | Mapping[type[Any], Run]
    summarise: Callable[[Report[S]], list[Statistic]]
    method_traits: tuple[str, ...] = ()
    any_trait: bool = False
    methodless: tuple[str, ...] = ()
    model_keys: tuple[str, ...] = ("kernel", "ard")
    kernels: tuple[str, ...] = KERNEL_NAMES
    dataset_tasks: tuple[str, ...] = ()
    new_rows: bool = False
    variants: tuple[str, ...] = ()
    several_datasets: bool = False
    single_dataset: bool = False
    only_datasets: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    published: Publishable = no_array
    agreement: float = ROUNDING
    chaotic: Callable[[Task[Any]], bool] = no_task

    def takes(self, traits: frozenset[str]) -> bool:
        """Return whether a method with these traits has those that it requests."""
        wanted = set(self.method_traits)
        return bool(wanted & traits) if self.any_trait else wanted <= traits

    def run(self, task: Task[Any], shared: SharedWork) -> Outcome:
        """Run one task by the function for its kind of params."""
        run = self.runs if callable(self.runs) else self.runs[type(task.params)]
        return run(task, shared)


EXPERIMENTS: Registry[Experiment[Any]] = Registry("experiment", plugins.EXPERIMENTS, Experiment)


def import_family(experiment: str) -> None:
    """Import our modules that register the experiment's family, if any. A plug-in registers its experiment."""
    module = f"gpsuite.experiments.{experiment.split('/')[0]}"
    if experiment not in EXPERIMENTS and importlib.util.find_spec(module) is not None:
        importlib.import_module(module)


def require(condition: bool, key: str, value: object, allowed: str) -> None:
    """Raise `UserError` naming key, value and what is allowed unless `condition` holds."""
    if not condition:
        raise UserError(f"{key}={value}: {allowed}", key=key)
