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
from gpsuite.experiments.robustness.tasks import ClassifierParams, ClassifierTask, MinibatchParams
from gpsuite.methods.wasserstein.fitting import TrainingRows, split_rows
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior, NotConvergedError
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.softmax_laplace import MultiClassProblem
from gpsuite.models.classification.training import (
    StartOutsideBoxError,
    TrainedGPC,
    train_gpc,
    train_multiclass_gpc,
)
from gpsuite.models.config import Hyperparameters
from gpsuite.seeds import derived_seed, stream
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


# Classifiers trained by minibatches whose Gaussian posterior the family certifies: GWI and SVGP.


def training_rows(problem: Problem, model: ClassifierParams) -> TrainingRows:
    """Return training and validation rows, labels 0, ..., C - 1.

    Raises:
        UserError: if the kernel is another than the squared exponential, the validation rows take every row of a class,
            or there are more inducing inputs than rows.
    """
    method = model.method
    assert isinstance(method, MinibatchParams)
    if model.kernel != "squared_exponential":
        fault = f"model: {method.inference} has the squared exponential only; use model=se or model=se_ard"
        raise UserError(fault, key="model")
    C = len(problem.label_names)
    y = (problem.y > 0 if C == 2 else problem.y).astype(np.int64)
    rows = split_rows(problem.X, y, method.training.validation_share, stream(model.draw_seed, "validation"))
    missing = sorted(set(range(C)) - set(rows.y.tolist()))
    if missing:
        fault = f"the validation rows take all training rows of class {problem.label_names[missing[0]]}"
        raise too_few_of_a_class(fault, len(problem.y), model)
    return rows


def train_minibatch(
    problem: Problem, model: ClassifierParams, budget: Budget
) -> GPCPosterior | MultiClassPosterior:
    """Train a classifier and return its posterior: of the positive class for two classes.

    Raises:
        NotConvergedError: if the training diverged.
        UserError: as `training_rows`.
    """
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS, ClassifierFit
    from gpsuite.methods.wasserstein.fitting import ClassifierOptions, TrainingOptions
    from gpsuite.models.classification.links import PROBIT
    from gpsuite.models.classification.variational import softmax_posterior
    from gpsuite.models.random_elements.elements import certifiable_posterior, certifiable_robust_max

    method, C = model.method, len(problem.label_names)
    assert isinstance(method, MinibatchParams)
    t = method.training
    options = ClassifierOptions(
        training=TrainingOptions(t.epochs, (t.batch,), (t.learning_rate,), t.patience),
        prior="se_ard" if model.ard else "se",
        prior_evaluations=t.prior_evaluations,
        inducing=t.inducing,
    )
    name = "svgp_softmax" if method.inference == "svgp" else "gwi_bernoulli" if C == 2 else "gwi_kernel"
    seed = derived_seed(model.draw_seed, "minibatches")
    found = CLASSIFIERS.get(name)(ClassifierFit(training_rows(problem, model), C, options, seed, budget))
    if found.report.status == "diverged":
        raise NotConvergedError(f"{method.inference}: {found.report.reason}")
    if name == "svgp_softmax":
        several = softmax_posterior(found.model.model)
        return several.difference(1, 0) if C == 2 else several
    if C == 2:
        return certifiable_posterior(found.model.element, PROBIT)
    return certifiable_robust_max(found.model.element, options.epsilon)


# Training rows, test rows and trained softmax classifiers of three to ten classes.


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
