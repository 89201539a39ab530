"""Training rows, test rows and trained binary classifiers, the same for every experiment of the family."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import without_copies
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork, Task
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, ClassifierTask
from gpsuite.models.classification.approximation import BinaryProblem, NotConvergedError
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import StartOutsideBoxError, TrainedGPC, train_gpc
from gpsuite.models.config import Hyperparameters
from gpsuite.seeds import stream
from gpsuite.text import list_word

MOST_CLASSES_NAMED = 12


@dataclass(frozen=True, eq=False)
class Problem:
    """Random rows of a dataset as a classification problem.

    Attributes:
        X: training inputs, scaled, [N, D].
        y: training labels, -1 or +1; for several classes their numbers, [N].
        X_test: test inputs, scaled, [T, D].
        y_test: test labels, [T].
        train_rows: row numbers of the training rows in the dataset, [N].
        test_rows: those of the test rows, [T].
        lower: lower ends of the perturbations' domain, [D]; minus infinity where there is none.
        upper: upper ends, [D].
        input_names: D names.
        label_names: of the negative and the positive class, or of the numbered ones.
        offset: what zero of each scaled input is in the dataset's own units, [D].
        scale: what one unit of it is there, [D].
        level_inputs: `Dataset.level_inputs`.
    """

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    train_rows: IntArray
    test_rows: IntArray
    lower: FloatArray
    upper: FloatArray
    input_names: tuple[str, ...]
    label_names: tuple[str, ...]
    offset: FloatArray
    scale: FloatArray
    level_inputs: frozenset[str] = frozenset()

    @property
    def numbers(self) -> IntArray:
        """Indices of the inputs that are no levels of a category, which can move."""
        return numbers_of(self.input_names, self.level_inputs)

    @property
    def domain(self) -> tuple[FloatArray, FloatArray]:
        """Ends of the domain, as the regions take them."""
        return self.lower, self.upper


def read_problem(dataset: PreparedDataset, model: ClassifierParams) -> Problem:
    """Return the rows that a model's parameters choose, scaled.

    A permutation of the rows of the two classes, drawn from the model's seed; the first are the test rows, the next
    the training rows, so that the test rows do not depend on the number of training rows.

    Args:
        dataset: a classification dataset.
        model: what decides the classifier.

    Raises:
        UserError: if the dataset has not the two classes, too few rows, or the training rows hold one class only.
    """
    data = load(dataset)
    return drawn_rows(data, model, *_two_classes(data, model.classes))


def too_few_of_a_class(fault: str, used: int, model: ClassifierParams) -> UserError:
    """Return the refusal of training rows that lack a class, with what helps: more of them, if there are more."""
    if used >= model.train_rows:
        return UserError(f"train_rows={model.train_rows}: {fault}; take more", key="train_rows")
    return UserError(
        f"test_rows={model.test_rows}: {fault}, which are all that are left\ntake fewer test rows, or add rows of "
        "the other classes",
        key="test_rows",
    )


def drawn_rows(
    data: Dataset, model: ClassifierParams, rows: IntArray, y: FloatArray, names: tuple[str, ...]
) -> Problem:
    """Return a random choice of rows [R] with labels y [R] as a problem, scaled; see `read_problem`.

    Raises:
        UserError: if there are too few rows, or the training rows hold one class only.
    """
    order = stream(model.draw_seed, "rows").permutation(len(rows))
    n_test, n_train = model.test_rows, model.train_rows
    if len(rows) < n_test + 2:
        fault = f"{data.name} has {len(rows)} rows of these classes; two or more must be left for training"
        raise UserError(f"test_rows={n_test}: {fault}", key="test_rows")
    test = order[:n_test]
    groups = None if data.groups is None else data.groups[rows]
    train = without_copies(order[n_test:], test, groups)[:n_train]
    if not len(train):
        raise UserError(f"test_rows={n_test}: every other row is a copy of a test row", key="test_rows")
    if len(np.unique(y[train])) < 2:
        only = names[int(y[train[0]] > 0) if len(names) == 2 else int(y[train[0]])]
        fault = f"the {len(train)} training rows of {data.name} are all of class {only}"
        raise too_few_of_a_class(fault, len(train), model)
    X = data.X[rows]
    centre, scale = _affine_map(X, train, model.scaling)
    X = (X - centre) / scale
    inside = model.scaling == "pixels"
    return Problem(
        X=X[train],
        y=y[train],
        X_test=X[test],
        y_test=y[test],
        train_rows=rows[train],
        test_rows=rows[test],
        lower=np.full(X.shape[1], 0.0 if inside else -np.inf),
        upper=np.full(X.shape[1], 1.0 if inside else np.inf),
        input_names=data.input_names,
        label_names=names,
        offset=centre,
        scale=scale,
        level_inputs=data.level_inputs,
    )


def numbers_of(input_names: Sequence[str], level_inputs: Collection[str]) -> IntArray:
    """Return the indices of the inputs that are no levels of a category."""
    return np.array(
        [place for place, name in enumerate(input_names) if name not in level_inputs], dtype=np.int64
    )


def _two_classes(data: Dataset, classes: Sequence[str]) -> tuple[IntArray, FloatArray, tuple[str, str]]:
    """Return the rows of the two classes [R], their labels -1 or +1 [R], and the classes' names."""
    if data.task != "classification":
        raise UserError(f"dataset={data.name}: a classification dataset is needed", key="dataset")
    known, labels, present = present_classes(data)
    shown = shown_names(present)
    check_names(data, classes, present)
    if not classes and len(present) != 2:
        advice = "only one" if len(present) == 1 else f"name two of them: {list_word('classes', present[:2])}"
        fault = f"{data.name} has {len(present)} classes ({shown}), a binary classifier needs two"
        raise UserError(f"classes: {fault}; {advice}", key="classes")
    negative, positive = classes or present
    rows = np.flatnonzero(np.isin(labels, [known.index(negative), known.index(positive)]))
    y = np.where(labels[rows] == known.index(positive), 1.0, -1.0)
    return rows, y, (negative, positive)


def present_classes(data: Dataset) -> tuple[list[str], IntArray, list[str]]:
    """Return the names of a dataset's classes, every row's number, and the names that rows have."""
    known = list(data.label_names or (f"{number}" for number in range(data.n_classes)))
    labels = data.y[:, 0].astype(np.int64)
    return known, labels, [name for number, name in enumerate(known) if (labels == number).any()]


def shown_names(present: Sequence[str]) -> str:
    """Return the first names, for a message."""
    return ", ".join(present[:MOST_CLASSES_NAMED]) + (", ..." if len(present) > MOST_CLASSES_NAMED else "")


def check_names(data: Dataset, classes: Sequence[str], present: Sequence[str]) -> None:
    """Refuse labels that no row has.

    Raises:
        UserError: naming the label.
    """
    for name in classes:
        if name not in present:
            fault = f"{data.name} has no label {name}\nvalid: {shown_names(present)}"
            raise UserError(f"classes={list(classes)}: {fault}", key="classes")


def _affine_map(X: FloatArray, train: IntArray, scaling: str) -> tuple[FloatArray, FloatArray]:
    """Return centre and scale [D] of the inputs; the deviation's divisor is N - 1, as in the paper's data."""
    if scaling == "none":
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    if scaling == "pixels":
        span = float(X.max() - X.min())
        return np.full(X.shape[1], X.min()), np.full(X.shape[1], span if span > 0.0 else 1.0)
    rows = X if scaling == "all" else X[train]
    constant = rows.max(axis=0) == rows.min(axis=0)
    return rows.mean(axis=0), np.where(constant, 1.0, rows.std(axis=0, ddof=1))


def start_of(problem: Problem, model: ClassifierParams) -> Hyperparameters:
    """Return where training starts: the stated variance, and a lengthscale in median distances of the inputs."""
    return Hyperparameters(
        variance=model.start_variance,
        lengthscales=(model.start_lengthscale * median_distance(problem.X),),
    )


def median_distance(X: FloatArray) -> float:
    """Return the median Euclidean distance of pairs of different rows of X [N, D]; 1 if it is 0."""
    from scipy.spatial.distance import pdist

    distance = float(np.median(pdist(X)))
    return distance if distance > 0.0 else 1.0


def train(problem: Problem, model: ClassifierParams, budget: Budget) -> TrainedGPC:
    """Train a classifier on the problem's training rows within a budget.

    Raises:
        NotConvergedError: if there is no converged approximation at the start.
        UserError: if the start is outside the search's box.
    """
    with scaling_named():
        return train_gpc(
            BinaryProblem(problem.X, problem.y, model.spec, LINKS.get(model.method.link)),
            model.method.inference,
            start_of(problem, model),
            budget,
            model.largest_variance,
        )


@contextmanager
def scaling_named() -> Iterator[None]:
    """Tell of a start outside the search's box which setting mends it: starts are in units of the inputs.

    Raises:
        UserError: instead of StartOutsideBoxError.
    """
    try:
        yield
    except StartOutsideBoxError as error:
        fault = f"scaling: {error}\ninputs of such a scale need scaling=train"
        raise UserError(fault, key="scaling") from error


def trained_classifier(
    dataset: PreparedDataset, model: ClassifierParams, shared: SharedWork, seconds: float | None = None
) -> tuple[Problem, TrainedGPC]:
    """Return problem and classifier; the tasks of one group that name the same model train it once.

    Args:
        dataset: a classification dataset.
        model: what decides the classifier.
        shared: of the group.
        seconds: wall-clock limit of the training.

    Raises:
        NotConvergedError: if there is no converged approximation at the start.
    """

    def attempt() -> tuple[Problem, TrainedGPC | NotConvergedError]:
        problem = read_problem(dataset, model)
        budget = Budget(seconds=seconds, evaluations=model.evaluations, observer=shared.observer)
        try:
            return problem, train(problem, model, budget)
        except NotConvergedError as error:
            return problem, error

    problem, found = shared.once(f"classifier {model.name}", attempt)
    if isinstance(found, NotConvergedError):
        raise found
    return problem, found


def task_classifier(task: Task[ClassifierTask], shared: SharedWork) -> tuple[Problem, TrainedGPC]:
    """Return problem and classifier of a task.

    Raises:
        NotConvergedError: if there is no converged approximation at the start.
    """
    return trained_classifier(task.require_dataset(), task.params.model, shared, task.budget_seconds)


def model_metrics(problem: Problem, trained: TrainedGPC) -> dict[str, float | int | bool]:
    """Return what a record says about its classifier, whose variance may lie at the end of the search."""
    probability = trained.fit.posterior.probability(problem.X_test)
    return {
        "variance": trained.hyperparameters.variance,
        "shortest_lengthscale": min(trained.hyperparameters.lengthscales),
        "longest_lengthscale": max(trained.hyperparameters.lengthscales),
        "log_marginal_likelihood": trained.fit.log_marginal_likelihood,
        "evaluations_used": trained.evaluations,
        "test_accuracy": float(np.mean((probability > 0.5) == (problem.y_test > 0))),
    }


def cut_short(trained: TrainedGPC, model: ClassifierParams) -> bool:
    """Tell whether seconds, not the asked number of evaluations, ended the training."""
    return trained.status == "budget" and trained.evaluations < model.evaluations
