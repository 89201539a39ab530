"""Training rows, test rows and trained softmax classifiers of three to ten classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.robustness.shared.classifiers import (
    Problem,
    check_names,
    drawn_rows,
    present_classes,
    scaling_named,
    shown_names,
    start_of,
    too_few_of_a_class,
)
from gpsuite.experiments.robustness.shared.minibatch_classifiers import train_minibatch
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, MinibatchParams
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.softmax_laplace import MultiClassProblem
from gpsuite.models.classification.training import train_multiclass_gpc
from gpsuite.text import list_word

MOST_CLASSES = 10
LEAST_ROWS = 2  # of a class: one may be a test row


@dataclass(frozen=True, eq=False)
class SeveralClasses:
    """A trained classifier of several classes.

    Attributes:
        problem: the rows; its labels are the numbers of `problem.label_names`.
        posterior: at the hyperparameters that were found.
    """

    problem: Problem
    posterior: MultiClassPosterior


def class_count(data: Dataset, classes: Sequence[str]) -> int:
    """Return how many classes are asked for: those named, else those that the dataset's rows have."""
    return len(classes) or len(present_classes(data)[2])


def read_classes(dataset: PreparedDataset, model: ClassifierParams) -> Problem:
    """Return the rows that a model's parameters choose, scaled; labels are numbers in the order of the names.

    Args:
        dataset: a classification dataset.
        model: what decides the classifier; `classes` names three to ten labels, or none for all.

    Raises:
        UserError: if the dataset has not the classes, too many of them, too few rows of one, or the training rows
            lack one.
    """
    data = load(dataset)
    known, labels, present = present_classes(data)
    check_names(data, model.classes, present)
    names = tuple(model.classes or present)
    if len(names) > MOST_CLASSES:
        fault = f"{data.name} has {len(names)} classes ({shown_names(names)}), at most {MOST_CLASSES} are compared"
        text = f"classes: {fault}; name some: {list_word('classes', names[:3])}"
        if all(name.removeprefix("-").isdecimal() for name in names):
            raise UserError(
                f"{text}\nif these are amounts:", key="classes", fix={"experiment": "robustness/regression"}
            )
        raise UserError(text, key="classes")
    numbers = [known.index(name) for name in names]
    counts = np.array([int((labels == number).sum()) for number in numbers])
    if counts.min() < LEAST_ROWS:
        rare = names[int(np.argmin(counts))]
        left = [name for name, count in zip(names, counts, strict=True) if count >= LEAST_ROWS]
        fault = f"{data.name} has one row of class {rare}, a class needs {LEAST_ROWS}"
        raise UserError(f"classes: {fault}; leave it out: {list_word('classes', left)}", key="classes")
    rows = np.flatnonzero(np.isin(labels, numbers))
    y = np.array([numbers.index(label) for label in labels[rows]], dtype=np.float64)
    problem = drawn_rows(data, model, rows, y, names)
    missing = sorted(set(range(len(names))) - set(problem.y.astype(int).tolist()))
    if missing:
        fault = f"no training row of {data.name} is of class {names[missing[0]]}"
        raise too_few_of_a_class(fault, len(problem.y), model)
    return problem


def trained_classes(
    dataset: PreparedDataset, model: ClassifierParams, shared: SharedWork, seconds: float | None = None
) -> SeveralClasses:
    """Return problem, classifier and posterior; the tasks of one group train it once.

    Raises:
        NotConvergedError: if there is no converged approximation at the start.
    """

    def attempt() -> SeveralClasses | NotConvergedError:
        problem = read_classes(dataset, model)
        budget = Budget(seconds=seconds, evaluations=model.evaluations, observer=shared.observer)
        if isinstance(model.method, MinibatchParams):
            return _by_minibatches(problem, model, seconds, shared)
        data = MultiClassProblem(problem.X, problem.y.astype(np.int64), len(problem.label_names), model.spec)
        try:
            with scaling_named():
                trained = train_multiclass_gpc(data, start_of(problem, model), budget, model.largest_variance)
        except NotConvergedError as error:
            return error
        return SeveralClasses(problem, trained.fit.require_converged())

    found = shared.once(f"classes {model.name}", attempt)
    if isinstance(found, NotConvergedError):
        raise found
    return found


def _by_minibatches(
    problem: Problem, model: ClassifierParams, seconds: float | None, shared: SharedWork
) -> SeveralClasses | NotConvergedError:
    try:
        posterior = train_minibatch(problem, model, Budget(seconds=seconds, observer=shared.observer))
    except NotConvergedError as error:
        return error
    assert isinstance(posterior, MultiClassPosterior)
    return SeveralClasses(problem, posterior)
