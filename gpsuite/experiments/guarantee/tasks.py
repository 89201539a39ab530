"""The kinds of tasks of guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BOUNDED, JUDGED, ROWS, BAND = "bounded", "judged", "rows", "band"  # parts of a run
BAND_GROUP = "signs"  # noise may differ from row to row


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What decides the two models of a table: the one that is kept, and the one that test rows judge.

    Attributes:
        seed: of the order of the rows.
        goal: the error that matters: own units if `own`, else standard deviations.
        own: see `goal`.
        delta: as every other field, of `GuaranteeSettings`.
    """

    seed: int
    goal: float
    own: bool
    delta: float
    coverage: float
    test_share: float
    preparation: float
    most_rows: int
    max_evaluations: int


@dataclass(frozen=True, kw_only=True)
class BoundedTask:
    """The kept regression and its PAC-Bayes bounds at every error."""

    learning: Learning
    widths: Sequence[float]
    kind: str = "guarantee_bounded"


@dataclass(frozen=True, kw_only=True)
class JudgedTask(BoundedTask):
    """The judged regression: bounds and intervals from its test rows, and checks of what they assume."""

    kind: str = "guarantee_judged"


@dataclass(frozen=True, kw_only=True)
class RowsTask:
    """Predictions, intervals and proved ranges of new rows.

    Attributes:
        new: hash of their file; empty for the first test rows.
        tolerances: as every other field, of `GuaranteeSettings`.
    """

    learning: Learning
    new: str
    tolerances: Sequence[float]
    count: int
    boxes: int
    tolerance: float
    kind: str = "guarantee_rows"


@dataclass(frozen=True, kw_only=True)
class JudgedClassesTask:
    """The judged classifier: bounds on its error rate and certified accuracies, and checks.

    Attributes:
        tolerances: as every other field, of `GuaranteeSettings`.
    """

    learning: Learning
    tolerances: Sequence[float]
    points: int
    boxes: int
    kind: str = "guarantee_judged_classes"


@dataclass(frozen=True, kw_only=True)
class ClassRowsTask(RowsTask):
    """Classes, proved probability ranges and decisive inputs of new rows."""

    kind: str = "guarantee_class_rows"
