"""Training rows, test rows and trained classifiers, the same for every experiment of the family.

What a method of the family is: `ClassifierMethod`. Experiments call its functions and the trained `Classifier`, and do
not depend on its training or its number of classes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import set_aside, without_copies
from gpsuite.errors import UserError
from gpsuite.experiments.base import DIVERGED, METHODS, Method, MethodOptions, Outcome, Request, SharedWork, Task
from gpsuite.experiments.robustness.tasks import (
    AUTHORS,
    ClassifierParams,
    ClassifierSettings,
    ClassifierTask,
    MethodParams,
)
from gpsuite.experiments.tasks import take
from gpsuite.models.classification.approximation import GPCFit, NotConvergedError
from gpsuite.models.config import Hyperparameters
from gpsuite.seeds import derived_seed, stream
from gpsuite.text import list_word

MOST_CLASSES_NAMED = 12
MOST_CLASSES = 10
LEAST_ROWS = 2  # of a class: one may be a test row

Options = TypeVar("Options", bound=MethodOptions)
Params = TypeVar("Params")


@dataclass(frozen=True, eq=False)
class Problem:
    """Random rows of a dataset as a classification problem.

    Attributes:
        X: training inputs, scaled, [N, D].
        y: training labels, -1 or +1. For several classes their numbers, [N].
        X_test: test inputs, scaled, [T, D].
        y_test: test labels, [T].
        train_rows: row numbers of the training rows in the dataset, [N].
        test_rows: those of the test rows, [T].
        lower: lower ends of the perturbations' domain, [D]. Minus infinity if there is none.
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
    def classes(self) -> IntArray:
        """Numbers of the training rows' classes, from 0, [N]."""
        return self._numbered(self.y)

    @property
    def test_classes(self) -> IntArray:
        """Numbers of the test rows' classes, [T]."""
        return self._numbered(self.y_test)

    def _numbered(self, y: FloatArray) -> IntArray:
        return np.asarray(y > 0 if len(self.label_names) == 2 else y, dtype=np.int64)

    @property
    def domain(self) -> tuple[FloatArray, FloatArray]:
        """Ends of the domain, as the regions take them."""
        return self.lower, self.upper


def read_rows(dataset: PreparedDataset, model: ClassifierParams) -> Problem:
    """Return the rows that a model's parameters choose, of two classes or of up to ten. See `read_problem`."""
    data = load(dataset)
    several = data.task == "classification" and class_count(data, model.classes) > 2
    return (read_classes if several else read_problem)(dataset, model)


def read_problem(dataset: PreparedDataset, model: ClassifierParams) -> Problem:
    """Return the rows of two classes that a model's parameters choose, scaled.

    A permutation of the rows of the two classes, drawn from the model's seed. The first are the test rows, the next
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
        return UserError(f"train_rows={model.train_rows}: {fault}. Take more", key="train_rows")
    return UserError(
        f"test_rows={model.test_rows}: {fault}, which are all that are left\ntake fewer test rows, or add rows of "
        "the other classes",
        key="test_rows",
    )


def drawn_rows(
    data: Dataset, model: ClassifierParams, rows: IntArray, y: FloatArray, names: tuple[str, ...]
) -> Problem:
    """Return a random choice of rows [R] with labels y [R] as a problem, scaled. See `read_problem`.

    Raises:
        UserError: if there are too few rows, or the training rows hold one class only.
    """
    n_test, n_train = model.test_rows, model.train_rows
    if len(rows) < n_test + 2:
        fault = f"{data.name} has {len(rows)} rows of these classes. Two or more must be left for training"
        raise UserError(f"test_rows={n_test}: {fault}", key="test_rows")
    if model.protocol == AUTHORS:
        train, test = _authors_rows(data, rows, model)
    else:
        test, others = set_aside(data, rows, n_test, stream(model.draw_seed, "rows"))
        groups = None if data.groups is None else data.groups[rows]
        train = without_copies(others, test, groups)[:n_train]
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


def _authors_rows(data: Dataset, rows: IntArray, model: ClassifierParams) -> tuple[IntArray, IntArray]:
    """Return the places among the rows of the first training and test rows of the dataset's own split."""
    if data.fixed_split is None:
        raise UserError(f"protocol=authors: dataset={data.name} has no fixed training rows", key="protocol")
    train, test = (np.searchsorted(rows, part[np.isin(part, rows)]) for part in data.fixed_split)
    return train[: model.train_rows], test[: model.test_rows]


def numbers_of(input_names: Sequence[str], level_inputs: Collection[str]) -> IntArray:
    """Return the indices of the inputs that are no levels of a category."""
    return np.array([place for place, name in enumerate(input_names) if name not in level_inputs], dtype=np.int64)


def _two_classes(data: Dataset, classes: Sequence[str]) -> tuple[IntArray, FloatArray, tuple[str, str]]:
    """Return the rows of the two classes [R], their labels -1 or +1 [R], and the classes' names."""
    if data.task != "classification":
        raise UserError(f"dataset={data.name}: a classification dataset is needed", key="dataset")
    known, labels, present = present_classes(data)
    shown = shown_names(present)
    check_names(data, classes, present)
    if not classes and len(present) != 2:
        advice = "only one" if len(present) == 1 else f"name two: {list_word('classes', present[:2])}"
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
    """Return centre and scale [D] of the inputs. The deviation's divisor is N - 1, as in the paper's data."""
    if scaling == "none":
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    if scaling == "pixels":
        span = float(X.max() - X.min())
        return np.full(X.shape[1], X.min()), np.full(X.shape[1], span if span > 0.0 else 1.0)
    rows = X if scaling == "all" else X[train]
    constant = rows.max(axis=0) == rows.min(axis=0)
    return rows.mean(axis=0), np.where(constant, 1.0, rows.std(axis=0, ddof=1))


def median_distance(X: FloatArray) -> float:
    """Return the median Euclidean distance of pairs of different rows of X [N, D], 1 if it is 0."""
    from scipy.spatial.distance import pdist

    distance = float(np.median(pdist(X)))
    return distance if distance > 0.0 else 1.0


def class_count(data: Dataset, classes: Sequence[str]) -> int:
    """Return how many classes are requested: those named, otherwise those that the dataset's rows have."""
    return len(classes) or len(present_classes(data)[2])


def read_classes(dataset: PreparedDataset, model: ClassifierParams) -> Problem:
    """Return the rows that a model's parameters choose, scaled. Labels are numbers in the order of the names.

    Args:
        dataset: a classification dataset.
        model: what decides the classifier. `classes` names three to ten labels, or none for all.

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
        text = f"classes: {fault}. Name some: {list_word('classes', names[:3])}"
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
        raise UserError(f"classes: {fault}. Leave it out: {list_word('classes', left)}", key="classes")
    rows = np.flatnonzero(np.isin(labels, numbers))
    y = np.array([numbers.index(label) for label in labels[rows]], dtype=np.float64)
    problem = drawn_rows(data, model, rows, y, names)
    if missing := missing_class(problem, problem.y):
        fault = f"no training row of {data.name} is of class {missing}"
        raise too_few_of_a_class(fault, len(problem.y), model)
    return problem


def missing_class(problem: Problem, y: FloatArray | IntArray) -> str:
    """Return the name of the first class that none of the numbered labels has, or nothing."""
    present = set(np.asarray(y).astype(int).tolist())
    return next((name for place, name in enumerate(problem.label_names) if place not in present), "")


@dataclass(frozen=True, eq=False)
class Trained:
    """Result of a method's training.

    Attributes:
        posterior: of the second of two classes, a `GPCPosterior`. Of several a `MultiClassPosterior`.
        hyperparameters: that it was approximated at. None if training gives nothing but the posterior.
        evidence: log marginal likelihood, or the bound of it. None if there is none.
        evaluations: of it.
        cut_short: why seconds ended the training before the asked number of evaluations. Empty otherwise.
        inference: how a certificate names it. A checker derives "laplace" and "ep" again from the stored rows. Of
            "minibatch" it knows that training may have ended before an optimum.
        sites: of EP, [2, N]; [2, 0] of the others.
        uncertified: why `gpsuite verify` has no bound for it, empty if it has.
    """

    posterior: Any
    hyperparameters: Hyperparameters | None = None
    evidence: float | None = None
    evaluations: int = 0
    cut_short: str = ""
    inference: str = "minibatch"
    sites: FloatArray = field(default_factory=lambda: np.empty((2, 0)))
    uncertified: str = ""


@dataclass(frozen=True, eq=False)
class Classifier:
    """A trained classifier of C classes and its rows."""

    problem: Problem
    model: ClassifierParams
    trained: Trained

    @property
    def posterior(self) -> Any:
        """See `Trained.posterior`."""
        return self.trained.posterior

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the probabilities."""
        return self.problem.label_names

    @property
    def stored_inputs(self) -> FloatArray:
        """Training inputs [N, D] that a certificate stores if it cannot derive the posterior, otherwise [0, D]."""
        X = self.problem.X
        return X if self.trained.inference == "minibatch" else np.empty((0, X.shape[1]))

    def scaled(self, X: FloatArray) -> FloatArray:
        """Return inputs [B, D] in original units as the classifier takes them."""
        return np.asarray((X - self.problem.offset) / self.problem.scale)

    def at(self, hyperparameters: Hyperparameters, rows: int) -> GPCFit:
        """Return the approximation of the first rows at other hyperparameters. See `ClassifierMethod.refit`."""
        refit = classifier_method(self.model.method).refit
        assert refit is not None, f"{self.model.method.builder} has no approximation at given hyperparameters"
        return refit(self.problem, self.model, hyperparameters, rows)


@dataclass(frozen=True)
class TrainingCost:
    """Cost of a classifier.

    Attributes:
        seconds: of its training.
        held: rows that its posterior holds. A prediction or a box costs the square of it.
    """

    seconds: float
    held: float


def options_themselves(options: Any) -> Any:
    """Return the options: they decide a method's numbers as they are."""
    return options


def no_further_rule(problem: Problem, model: ClassifierParams) -> None:
    """Accept every problem."""


def up_to_most(options: Any) -> int:
    """Return the largest number of classes that is ever compared."""
    return MOST_CLASSES


def all_rows(model: ClassifierParams, rows: int, classes: int) -> TrainingCost:
    """Return the cost of a training on dense matrices, roughly."""
    return TrainingCost((2.0 if classes == 2 else 30.0) * (rows / 300) ** 2, float(rows))


@dataclass(frozen=True, kw_only=True)
class ClassifierMethod(Method[Options]):
    """A method of this family: a classifier with a Gaussian latent posterior, however it is trained.

    Attributes:
        train: the rows, what decides the classifier, and a budget -> the trained classifier. Raises NotConvergedError.
        decides: options -> what decides numbers, hashed into the keys of the tasks.
        check: refuses rows that it cannot be trained on, before any work.
        most_classes: options -> how many classes it takes.
        cost: function from inputs of the cost, rows and classes to the rough cost.
        refit: the approximation of the first rows at given hyperparameters, of two classes. None if there is none.
            The paper's statements about the hyperparameters are checked with it.
    """

    train: Callable[[Problem, ClassifierParams, Budget], Trained]
    decides: Callable[[Options], Any] = options_themselves
    check: Callable[[Problem, ClassifierParams], None] = no_further_rule
    most_classes: Callable[[Options], int] = up_to_most
    cost: Callable[[ClassifierParams, int, int], TrainingCost] = all_rows
    refit: Callable[[Problem, ClassifierParams, Hyperparameters, int], GPCFit] | None = None


def classifier_method(named: MethodParams) -> ClassifierMethod[Any]:
    """Return the method of options, or of what they decide.

    Raises:
        TypeError: if it is another family's.
    """
    method = METHODS.get(named.builder)
    if not isinstance(method, ClassifierMethod):
        raise TypeError(f"{named.builder} is no Gaussian process classifier")
    return method


def classifier_params(
    request: Request[Any], settings: ClassifierSettings, options: MethodOptions, draw: int, evaluations: int
) -> ClassifierParams:
    """Return the parameters of a trained classifier.

    Args:
        request: the validated request.
        settings: its classifier settings.
        options: of the method.
        draw: number of the random choice of rows.
        evaluations: of the marginal likelihood in training, at most.
    """
    return take(
        ClassifierParams,
        settings,
        method=classifier_method(options).decides(options),
        version=options.method.version,
        kernel=request.model.kernel,
        ard=request.model.ard,
        draw_seed=derived_seed(request.seed, "draw", draw),
        evaluations=evaluations,
        prior=settings.prior_for(request.dataset),
    )


def trained_classifier(
    dataset: PreparedDataset,
    model: ClassifierParams,
    shared: SharedWork,
    seconds: float | None = None,
    read: Callable[[PreparedDataset, ClassifierParams], Problem] = read_rows,
) -> Classifier:
    """Return a trained classifier. The tasks of one group that name the same one train it once.

    Args:
        dataset: a classification dataset.
        model: what decides the classifier.
        shared: of the group.
        seconds: wall-clock limit of the training.
        read: the rows. `read_problem` where there must be two classes.

    Raises:
        NotConvergedError: if there is no converged approximation at the start.
    """

    def attempt() -> Classifier | NotConvergedError:
        problem = read(dataset, model)
        budget = shared.budget(seconds, evaluations=model.evaluations)
        try:
            return Classifier(problem, model, classifier_method(model.method).train(problem, model, budget))
        except NotConvergedError as error:
            return error

    found = shared.once(f"classifier {model.name}", attempt)
    if isinstance(found, NotConvergedError):
        raise found
    return found


def task_classifier(task: Task[ClassifierTask], shared: SharedWork) -> Classifier:
    """Return the classifier of a task on two classes.

    Raises:
        NotConvergedError: if there is no converged approximation at the start.
    """
    return trained_classifier(task.require_dataset(), task.params.model, shared, task.budget_seconds, read_problem)


def unconverged_is_diverged(
    run: Callable[[Task[Params], SharedWork], Outcome],
) -> Callable[[Task[Params], SharedWork], Outcome]:
    """Return the run of a task, which ends as diverged if its classifier has no converged posterior."""

    @wraps(run)
    def guarded(task: Task[Params], shared: SharedWork) -> Outcome:
        try:
            return run(task, shared)
        except NotConvergedError as error:
            return Outcome({}, DIVERGED, str(error))

    return guarded


def model_metrics(classifier: Classifier) -> dict[str, float | int | None]:
    """Return what a record says about its classifier, whose variance may lie at the end of the search."""
    problem, posterior, trained = classifier.problem, classifier.posterior, classifier.trained
    return {
        "variance": float(posterior.variance),
        "shortest_lengthscale": float(np.min(posterior.lengthscales)),
        "longest_lengthscale": float(np.max(posterior.lengthscales)),
        "log_marginal_likelihood": trained.evidence,
        "evaluations_used": trained.evaluations,
        "test_accuracy": float(np.mean((posterior.probability(problem.X_test) > 0.5) == (problem.y_test > 0))),
    }
