"""What is asked of an experiment: its settings, methods, model and data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.params import LEFT_OUT, Json, plain
from gpsuite.experiments.tasks import Task, present
from gpsuite.models.config import ModelSpec
from gpsuite.registry import Registry

P = TypeVar("P")
S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True)
class MethodOptions:
    """What every method file says; each method adds its own options in a subclass.

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
        """What decides numbers: everything but how it is called and where it is from."""
        params: dict[str, Json] = plain(self)
        return params


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


METHODS: Registry[Method[Any]] = Registry("method builder")


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
        further: datasets that its tasks work on beside these, known once they are planned.
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
