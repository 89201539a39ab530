"""Settings of guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from gpsuite.data.dataset import Dataset
from gpsuite.experiments.pac_bayes.tasks import LEAST_TRAINING_ROWS
from gpsuite.experiments.perturbation.linear_models import check_levels
from gpsuite.experiments.robustness.classifiers import numbers_of
from gpsuite.experiments.robustness.methods import gpc
from gpsuite.experiments.robustness.tasks import MethodParams
from gpsuite.experiments.settings import Count, Positive, Share, at_least, filled, increasing, unique
from gpsuite.experiments.tasks import OPTIONAL

BOUNDED, JUDGED, ROWS, CONFORMAL, BAND = "bounded", "judged", "rows", "conformal", "band"  # parts of a run
CLASS_RISK = "class risk"  # another part
ERROR_RATE, HELD_OUT = "error rate", "held-out rows, binomial"  # in the tables of league
BAND_GROUP = "signs"  # noise may differ from row to row
METHOD = gpc("laplace", "probit")


@dataclass
class GuaranteeSettings:
    """Settings of every guarantee that applies to a table.

    Attributes:
        accuracy: an error that matters, in the target's units. Null: `epsilon` standard deviations.
        epsilon: an error that matters, in standard deviations of the target.
        widths: further errors at which the share of worse predictions is bounded, in standard deviations.
        delta: allowed probability that a bound fails. Each bound is accounted for all errors together.
        coverage: coverage of the intervals.
        test_share: share of rows that test bounds, intervals and checks are taken on.
        preparation: share of rows that only choose scale, centre and each input's lengthscale of a certified
            regression. At least 30 rows, up to a third of a small table. More until they hold two targets, up to twice
            as many until all numbers vary.
        most_rows: largest number of training rows, shared among the classes if there are three or more. Further rows
            are test rows.
        max_evaluations: largest number of evaluations of a training's objective.
        tolerances: errors of each input that is a number, in standard deviations, for proved ranges and certified
            accuracies.
        count: number of test rows whose predictions are bounded if there are no new rows, and of rows whose deciding
            inputs are searched.
        proved_rows: number of new rows, from the first, whose predictions are bounded.
        points: test rows on which a classifier's certified accuracies are taken.
        boxes: limit for the searches of one row.
        tolerance: largest gap between attained and proved value: standard deviations of a target, or probability.
        m: compared values behind the band of the function.
        excluded: q of the band. Its confidence is 1 - q/m.
        centres: basis functions of the band's kernel model.
        band_rows: most rows behind a band, at random.
    """

    accuracy: Positive | None
    epsilon: Positive
    widths: Annotated[list[Positive], filled, unique, increasing]
    delta: Share
    coverage: Share
    test_share: Share
    preparation: Share
    most_rows: Annotated[int, at_least(LEAST_TRAINING_ROWS)]
    max_evaluations: Count
    tolerances: Annotated[list[Positive], filled, unique, increasing]
    count: Count
    proved_rows: Count
    points: Count
    boxes: Count
    tolerance: Positive
    m: Annotated[int, at_least(2)]
    excluded: Count
    centres: Count
    band_rows: Annotated[int, at_least(10)]

    def check(self) -> None:
        """Refuse a q that is not below m."""
        check_levels(self.m, [self.excluded], "excluded")


def tolerances_of(data: Dataset, settings: GuaranteeSettings) -> Sequence[float]:
    """Return how far numbers may be off, in standard deviations. None if no input is a number."""
    return settings.tolerances if len(numbers_of(data.input_names, data.level_inputs)) else ()


def middle(tolerances: Sequence[float]) -> float:
    """Return the tolerance that answers tell of and certificates are about, 0 where no input is a number."""
    return float(tolerances[len(tolerances) // 2]) if tolerances else 0.0


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Parameters that decide the two models of a table: the one that is kept, and the one that test rows judge.

    Attributes:
        seed: of the order of the rows.
        goal: the error that matters: original units if `own`, otherwise standard deviations.
        own: see `goal`. Further fields as in `GuaranteeSettings`.
        method: what decides a classifier besides. None for `METHOD`, which keys older than the choice do not name.
        method_version: of it.
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
    method: MethodParams | None = field(default=None, metadata=OPTIONAL)
    method_version: int | None = field(default=None, metadata=OPTIONAL)


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
    """Predictions, intervals and proved ranges of new rows: the hash of their file, empty for the first test rows."""

    learning: Learning
    new: str
    tolerances: Sequence[float]
    count: int
    boxes: int
    tolerance: float
    kind: str = "guarantee_rows"
    effects: int | None = field(default=None, metadata=OPTIONAL)  # rows whose deciding inputs are searched. None: count


@dataclass(frozen=True, kw_only=True)
class ConformalTask:
    """Intervals that follow the judged regression's spread."""

    learning: Learning
    kind: str = "guarantee_conformal"


@dataclass(frozen=True, kw_only=True)
class ClassSetsTask:
    """Sets of classes by the judged classifier."""

    learning: Learning
    kind: str = "guarantee_class_sets"


@dataclass(frozen=True, kw_only=True)
class JudgedClassesTask:
    """The judged classifier: bounds on its error rate and certified accuracies, and checks."""

    learning: Learning
    tolerances: Sequence[float]
    points: int
    boxes: int
    kind: str = "guarantee_judged_classes"


@dataclass(frozen=True, kw_only=True)
class ClassRiskTask:
    """Classifiers certified by PAC-Bayes, and the test rows' bound at its share of delta."""

    learning: Learning
    kind: str = "guarantee_class_risk"


@dataclass(frozen=True, kw_only=True)
class ClassRowsTask(RowsTask):
    """Classes, proved probability ranges and decisive inputs of new rows."""

    kind: str = "guarantee_class_rows"
