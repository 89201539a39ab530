"""Settings of every experiment that fits and certifies GPs on splits of a dataset."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from gpsuite.experiments.base import MethodOptions
from gpsuite.experiments.settings import Count, Share, one_of
from gpsuite.experiments.tasks import OPTIONAL
from gpsuite.methods.pac_bayes.losses import LOSSES, Loss

SCALINGS = ("all", "train")
LEAST_TRAINING_ROWS = 8  # Maurer's theorem, behind the bounds' ln(2 sqrt(n)/delta), is stated for n >= 8


@dataclass
class SplitSettings:
    """Settings of experiments on repeated random splits.

    Attributes:
        repetitions: number of random train-test splits.
        delta: allowed probability that the bound fails.
        test_share: share of rows kept for testing.
        scaling: mean and standard deviation taken over all rows (the published protocol) or the training rows.
        max_evaluations: limit on objective evaluations per training.
    """

    repetitions: Count
    delta: Share
    test_share: Share
    scaling: Annotated[str, one_of(SCALINGS)]
    max_evaluations: Count


@dataclass(frozen=True)
class Goal:
    """A loss and its width: the accuracy goal, in standard deviations of the target or in the target's own units.

    Attributes:
        name: of the loss, in `LOSSES`.
        epsilon: in standard deviations. None if it is given in original units.
        accuracy: in the target's own units. None if it is given in standard deviations.
    """

    name: str = "band01"
    epsilon: float | None = field(default=None, metadata=OPTIONAL)
    accuracy: float | None = field(default=None, metadata=OPTIONAL)

    @property
    def axes(self) -> dict[str, str | int | float]:
        """The goal by the name of its unit, as records.csv has it."""
        return {"accuracy": self.given} if self.epsilon is None else {"epsilon": self.given}

    @property
    def given(self) -> float:
        """The goal, in the unit it is given in."""
        value = self.accuracy if self.epsilon is None else self.epsilon
        if value is None:
            raise ValueError("a goal needs epsilon or accuracy")
        return value

    def width(self, scale: float) -> float:
        """Return the goal in standard deviations. `scale` is one of them in the target's own units."""
        return self.given if self.epsilon is not None else self.given / scale


def loss_of(name: str, width: float) -> Loss:
    """Return a loss of this width, in standard deviations."""
    return LOSSES.get(name)(width)


@dataclass(frozen=True, kw_only=True)
class TrainingTask:
    """Parameters of every training.

    Attributes:
        method: options of the method.
        ard: one lengthscale per input, or a single one.
        delta: allowed probability that the bound fails.
        max_evaluations: limit on objective evaluations per start.
        split_seed: of the split or the data, the inducing inputs and further starts.
    """

    method: MethodOptions
    ard: bool
    delta: float
    max_evaluations: int
    split_seed: int


@dataclass(frozen=True, kw_only=True)
class FitTask(TrainingTask):
    """A training with its certificate on one split of a dataset.

    Attributes:
        loss: that is bounded, and its width. PAC-GPs are trained on its bound.
        also: further losses, of the same width, under which the trained posterior is certified too.
        test_share: share of rows kept for testing.
        scaling: mean and standard deviation taken over all rows or the training rows.
    """

    loss: Goal
    also: tuple[str, ...] = ()
    test_share: float
    scaling: str
    kind: str = "certified_fit"
