"""Settings of the image experiments: digits, mnist, fashion_mnist."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import train_test_indices, without_copies
from gpsuite.errors import DataError
from gpsuite.experiments.base import (
    BUDGET,
    DIVERGED,
    DONE,
    MethodOptions,
    Outcome,
    Request,
    SharedWork,
    Task,
    finite_or_none,
    require,
)
from gpsuite.experiments.settings import Count, Positive, Rule, Share, at_least, filled, not_negative, one_of, unique
from gpsuite.experiments.tasks import LEFT_OUT, left_out_as, take
from gpsuite.experiments.wasserstein.fitting import TrainingParams, TrainingSettings
from gpsuite.experiments.wasserstein.methods import classifier_method
from gpsuite.methods.wasserstein import scoring as scores
from gpsuite.methods.wasserstein.fitting import FewDifferentRowsError, TrainingRows, split_rows
from gpsuite.methods.wasserstein.scoring import auroc, average_precision, false_positives_at_95
from gpsuite.models.network_spec import ARCHITECTURES, PLAIN, NetworkSpec
from gpsuite.seeds import derived_seed, stream

if TYPE_CHECKING:
    from gpsuite.methods.wasserstein.classifiers import FittedClassifier
    from gpsuite.models.random_elements.likelihoods import ClassPrediction


below_one = Rule(lambda share: 0.0 <= share < 1.0, "must be 0 or more and below 1")


@dataclass
class ImageSettings(TrainingSettings):
    """Settings of classification of images. The first dataset is learned, the others are out of distribution.

    Attributes:
        repetitions: random splits, or random choices of training rows and seeds where the dataset has its split.
        test_share: share of rows kept for testing if the dataset has no fixed split.
        train_rows: training rows, validation rows among them, 0 takes all.
        test_rows: test rows at most.
        outside_rows: rows of each other dataset at most.
        convolution: whether the network's hidden layers are convolutions.
        architecture: plain, with layers of `widths`, or 3c3d, with three convolutions of `widths` and two dense layers.
        inducing_tried: multiples of sqrt(N) that GWI tries instead of `inducing`. Each is trained, and the one with
            the best validation score is kept.
        tempered: whether GWI fits a temperature per class on the validation rows.
        epsilon: epsilon of robust max.
        dropout: probability of leaving a unit out.
        members: networks of the ensemble.
        draws: number of draws of weights or dropout in a prediction.
        bins: number of bins of the calibration error.
        shifts: standard deviations of noise added to the test images, in units of the largest grey level.
        label_noise: shares of training labels replaced by another class, 0 first.
        noise_methods: methods that learn from noisy labels too.
    """

    repetitions: Count
    test_share: Share
    train_rows: Annotated[int, at_least(0)]
    test_rows: Count
    outside_rows: Count
    convolution: bool
    architecture: Annotated[str, one_of(ARCHITECTURES)]
    inducing_tried: Annotated[list[Positive], unique]
    tempered: bool
    epsilon: Share
    dropout: Annotated[float, not_negative]
    members: Annotated[int, at_least(2)]
    draws: Count
    bins: Count
    shifts: Annotated[list[Annotated[float, not_negative]], unique]
    label_noise: Annotated[list[Annotated[float, below_one]], filled, unique]
    noise_methods: Annotated[list[str], unique]

    def check(self) -> None:
        """Refuse noise levels that leave out clean labels, dropout of everything, and widths that do not fit 3c3d."""
        require(self.label_noise[0] == 0.0, "label_noise", self.label_noise, "the first level must be 0")
        require(self.dropout < 1.0, "dropout", self.dropout, "must be below 1")
        fits = self.architecture == PLAIN or (self.convolution and len(self.widths) == 3)
        require(fits, "architecture", self.architecture, "needs convolution=true and three widths")


@dataclass(frozen=True, kw_only=True)
class Outside:
    """A dataset whose images the classifier has never seen.

    Attributes:
        name: of the dataset.
        content: hash of what it holds.
        prepared: folder of the prepared data.
    """

    name: str
    content: str
    prepared: PreparedDataset = field(metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class ImageTask:
    """A classifier trained and tested once. Settings as `ImageSettings`.

    Attributes:
        method: which classifier.
        training: how.
        seed: of rows, noise and training: the same for every method of a repetition.
        label_noise: share of training labels replaced.
        outside: other datasets.
    """

    method: MethodOptions
    training: TrainingParams
    seed: int
    label_noise: float
    test_share: float
    train_rows: int
    test_rows: int
    outside_rows: int
    convolution: bool
    epsilon: float
    dropout: float
    members: int
    draws: int
    bins: int
    shifts: tuple[float, ...]
    outside: tuple[Outside, ...]
    kind: str = "wasserstein_image"
    architecture: str = field(default=PLAIN, metadata=left_out_as(PLAIN))
    inducing_tried: tuple[float, ...] = field(default=(), metadata=left_out_as(()))
    tempered: bool = field(default=False, metadata=left_out_as(False))


_KEPT_IMAGES = 1  # added to the method's version where images are kept. Raised when others are
_WITHOUT_COPIES = 2  # added where rows have copies: none is trained on and validates
_CONVOLUTION = 3.5  # times the seconds of a dense network, forward and back
# Convolutions with more multiplications than that cost so many seconds more for each million, 10,000 rows times epochs.
_SMALL, _SECONDS_PER_MILLION = 1.5e6, 1.5


def plan(request: Request[ImageSettings]) -> list[Task[ImageTask]]:
    """Return one task per repetition, share of noisy labels and method."""
    settings = request.settings
    for name in settings.noise_methods:
        allowed = f"not a method of this run\nvalid: noise_methods=[], or any of {', '.join(request.methods)}"
        require(name in request.methods or len(settings.label_noise) == 1, "noise_methods", name, allowed)
    tasks = list(_tasks(request))
    data, *others = request.prepared
    check_images(data, others, list({(t.params.seed, t.params.label_noise): t.params for t in tasks}.values()))
    rows = round((1.0 - settings.test_share) * data.rows)
    most = replace(settings, inducing=max([settings.inducing, *settings.inducing_tried]))
    most.check_inducing(min(settings.train_rows or rows, rows))
    return tasks


def _tasks(request: Request[ImageSettings]) -> Iterator[Task[ImageTask]]:
    settings = request.settings
    data, *others = request.prepared
    outside = tuple(Outside(name=o.name, content=o.content_hash, prepared=o) for o in others)
    rows = min(settings.train_rows or data.rows, data.rows)
    added = _added_version(data)
    for repetition in range(settings.repetitions):
        for noise in settings.label_noise:
            for name, options in request.methods.items():
                if noise > 0.0 and name not in settings.noise_methods:
                    continue
                yield request.task(
                    take(
                        ImageTask,
                        settings,
                        method=options,
                        training=settings.work,
                        seed=derived_seed(request.seed, "images", repetition),
                        label_noise=noise,
                        outside=outside,
                    ),
                    label=f"{options.title}  repetition {repetition}"
                    + (f"  {100 * noise:g} % noisy labels" if noise else ""),
                    axes={"method": name, "label_noise": noise, "repetition": repetition},
                    version=options.method.version + added,
                    cost=2.0 + 1e-4 * rows * settings.epochs * _seconds(settings, options, data),
                    dataset=data,
                )


def _seconds(settings: ImageSettings, options: MethodOptions, data: PreparedDataset) -> float:
    """Return rough CPU seconds of 10,000 rows times epochs."""
    method = classifier_method(options)
    trainings = method.trainings(options, 1, len(settings.inducing_tried) or 1)
    if not settings.convolution:
        return trainings * method.seconds(options)
    side = math.isqrt(_pixels(data))
    image = (side, side, 1)
    network = NetworkSpec(tuple(settings.widths), settings.activation, image, settings.architecture)
    more = network.multiplications(side * side, data.spec.get("n_classes") or 10) - _SMALL
    return trainings * (_CONVOLUTION * method.seconds(options) + _SECONDS_PER_MILLION * max(more, 0.0) / 1e6)


def _added_version(data: PreparedDataset) -> int:
    """Return what is added to a method's version: for datasets that keep more, or train on other rows."""
    copies = data.spec["loader"] == "csv" and load(data).groups is not None
    return (_KEPT_IMAGES if keeps_images(data) else 0) + (_WITHOUT_COPIES if copies else 0)


ROWS_PER_CLASS = 50  # with more of them than that, a class of a shipped dataset is never missing


@dataclass(frozen=True, eq=False)
class Images:
    """Rows of one repetition, grey levels from 0 to 1.

    Attributes:
        X: training inputs, validation rows among them [N, D].
        y: their labels as the learner sees them [N].
        X_test: test inputs [N', D].
        y_test: their labels [N'].
        n_classes: C.
        side: height and width.
        largest: grey level that became 1.
        groups: equal for training rows that are copies of each other [N], or None.
    """

    X: FloatArray
    y: IntArray
    X_test: FloatArray
    y_test: IntArray
    n_classes: int
    side: int
    largest: float
    groups: IntArray | None


def read_images(data: Dataset, params: ImageTask) -> Images:
    """Choose, scale and, where asked, spoil the rows of a repetition."""
    rng = stream(params.seed, "rows")
    if data.fixed_split is not None:
        train, test = data.fixed_split
        train, test = rng.permutation(train), rng.permutation(test)
    else:
        train, test = train_test_indices(len(data.X), params.test_share, params.seed)
        train = without_copies(train, test, data.groups)
    train, test = train[: params.train_rows or None], test[: params.test_rows]
    side = int(np.sqrt(data.X.shape[1]))
    if side * side != data.X.shape[1]:
        raise ValueError(f"{data.X.shape[1]} inputs are no square image")
    y = data.y[:, 0].astype(np.int64)
    # values below 0 are no grey levels, but keep their order
    largest = float(np.abs(data.X[train]).max()) or 1.0
    noisy = with_noise(y[train], data.n_classes, params.label_noise, stream(params.seed, "labels"))
    groups = None if data.groups is None else data.groups[train]
    return Images(
        data.X[train] / largest, noisy, data.X[test] / largest, y[test], data.n_classes, side, largest, groups
    )


def with_noise(y: IntArray, n_classes: int, share: float, rng: np.random.Generator) -> IntArray:
    """Return labels with a share, rounded, replaced by another class, uniformly."""
    changed = rng.permutation(len(y))[: round(share * len(y))]
    noisy = y.copy()
    noisy[changed] = (y[changed] + rng.integers(1, n_classes, len(changed))) % n_classes
    return noisy


def learned_rows(images: Images, params: ImageTask) -> TrainingRows:
    """Return the repetition's training rows, validation rows split off."""
    share = params.training.validation_share
    return split_rows(images.X, images.y, share, stream(params.seed, "validation"), images.groups)


def keeps_images(data: PreparedDataset) -> bool:
    """Return whether records may hold some of a dataset's images: only where the data are embedded."""
    return bool(data.spec.get("embedded"))


def check_images(data: PreparedDataset, others: Iterable[PreparedDataset], tasks: Sequence[ImageTask]) -> None:
    """Refuse images that are not square or of different sizes, and repetitions that never see a class.

    Only data whose description leaves it open, or few rows, are loaded.

    Args:
        data: what is learned.
        others: what is shown next to it.
        tasks: one for each repetition and share of noisy labels.

    Raises:
        DataError: naming the key.
    """
    pixels = _pixels(data)
    if math.isqrt(pixels) ** 2 != pixels:
        columns = "choose images of k x k pixels, one column per pixel, by dataset.inputs"
        advice = columns if data.name == "csv" else "choose a dataset of images: gpsuite list datasets"
        raise DataError(f"{data.name}: {pixels} inputs are no square image\n{advice}", key="dataset")
    for other in others:
        if _pixels(other) != pixels:
            raise DataError(
                f"datasets: {other.name} has {_pixels(other)} pixels, {data.name}, which is learned, {pixels}\n"
                "name datasets with images of one size",
                key="datasets",
            )
    n_classes = data.spec.get("n_classes")
    if n_classes is None or min(t.train_rows or data.rows for t in tasks) < ROWS_PER_CLASS * int(n_classes):
        loaded = load(data)
        for params in tasks:
            _check_classes(loaded, params)


def _check_classes(data: Dataset, params: ImageTask) -> None:
    try:
        learned = learned_rows(read_images(data, params), params)
    except FewDifferentRowsError as error:
        raise DataError(f"dataset={data.name}: {error}\nadd different rows", key="dataset") from error
    missing = np.setdiff1d(np.arange(data.n_classes), learned.y)
    if missing.size:
        more = "more rows (0 takes all), " if 0 < params.train_rows < len(data.X) else ""
        names = data.label_names or tuple(map(str, range(data.n_classes)))
        raise DataError(
            f"train_rows={params.train_rows}: none of the {len(learned.y)} training rows of a repetition is of class "
            f"{', '.join(names[label] for label in missing[:5])}\n"
            f"take {more}a smaller test_share, or leave rare classes out of the file",
            key="train_rows",
        )


def _pixels(data: PreparedDataset) -> int:
    return int(data.spec.get("n_inputs") or load(data).X.shape[1])


SHUFFLED = "shuffled pixels"
SHOWN = 6  # most and least certain images that are kept
ENTROPY_BINS = 30
COVERAGES = np.linspace(0.02, 1.0, 50)
TRAINED = 0.6  # share of a budget's seconds in which the training ends
LEAST_SCORED = 100  # test rows that are scored regardless of time
_STATUS = {"done": DONE, "budget": BUDGET, "diverged": DIVERGED}


def run(task: Task[ImageTask], shared: SharedWork) -> Outcome:
    """Train one classifier and return its scores."""
    params = task.params
    data = load(task.require_dataset())
    images, budget = read_images(data, params), shared.budget(task.budget_seconds)
    found = fit(task, images, shared, budget)
    images, unscored = affordable(images, params, found, budget)
    prediction = found.predict(images.X_test)
    metrics: dict[str, Any] = test_scores(prediction, images.y_test, params.bins)
    arrays = _curves(prediction, images.y_test, params.bins)
    top = np.log(images.n_classes)
    others = replace(params, outside_rows=min(params.outside_rows, len(images.y_test)))
    for name, X in _outside(others, images).items():
        other = found.predict(X)
        metrics |= detection_scores(name, prediction, other)
        arrays[f"entropy {name}"] = np.histogram(other.total_uncertainty, ENTROPY_BINS, (0.0, top))[0]
    for shift in params.shifts:
        noise = stream(params.seed, "shift", shift).standard_normal(images.X_test.shape)
        moved = found.predict(images.X_test + shift * noise)
        for name in ("accuracy", "nll", "ece"):
            metrics[f"{name} shift {shift:g}"] = test_scores(moved, images.y_test, params.bins)[name]
    if keeps_images(task.require_dataset()):
        kept = most_and_least_certain(prediction.total_uncertainty)
        arrays |= {"certain images": images.X_test[kept], "certain entropies": prediction.total_uncertainty[kept]}
    metrics |= {f"chosen {name}": value for name, value in found.chosen.items()}
    metrics |= member_scores(found, images) | found.errors(images.X_test, images.y_test)
    state = found.report.state
    metrics |= {"epochs": state.best_epoch, "validation_nll": state.best_score}
    metrics |= {"chosen batch": state.batch, "chosen learning_rate": state.learning_rate}
    headline = f"accuracy {metrics['accuracy']:.3f}, NLL {metrics['nll']:.3f}, ECE {metrics['ece']:.3f}"
    status = _STATUS[found.report.status]
    reason = "" if status == DONE else found.report.reason
    if unscored:
        status, reason = BUDGET, f"{reason or budget.reason}; {unscored}".removeprefix("; ")
    clean = {k: finite_or_none(v) if isinstance(v, float) else v for k, v in metrics.items()}
    return Outcome(clean, status, reason, arrays, headline)


def affordable(images: Images, params: ImageTask, found: FittedClassifier, budget: Budget) -> tuple[Images, str]:
    """Return the images with the first test rows whose scores fit into the seconds left, and what was left out."""
    rows = len(images.y_test)
    if budget.left is None or rows <= LEAST_SCORED:
        return images, ""
    few = images.X_test[:LEAST_SCORED], images.y_test[:LEAST_SCORED]
    found.predict(few[0])  # what is compiled at the first call is no cost of a row
    begin = time.monotonic()
    found.predict(few[0])
    single = time.monotonic() - begin
    found.errors(*few)
    passes = (len(params.outside) + len(params.shifts) + 2) * single + (time.monotonic() - begin - single)
    fit = max(LEAST_SCORED, int(LEAST_SCORED * budget.left / passes))
    if fit >= rows:
        return images, ""
    return replace(images, X_test=images.X_test[:fit], y_test=images.y_test[:fit]), f"{fit} of {rows} test rows scored"


def fit(task: Task[ImageTask], images: Images, shared: SharedWork, whole: Budget) -> FittedClassifier:
    """Train the task's classifier on the repetition's rows. Of a budget's seconds a share is left for its scores."""
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.methods.wasserstein.classifiers import ClassifierFit, NoKeeper
    from gpsuite.methods.wasserstein.fitting import ClassifierOptions
    from gpsuite.methods.wasserstein.training import StateFolder

    params, t = task.params, task.params.training
    image = (images.side, images.side, 1) if params.convolution else None
    options = ClassifierOptions(
        training=t.training,
        network=NetworkSpec(t.widths, t.activation, image, params.architecture),
        prior=t.prior,
        prior_mean=t.prior_mean,
        prior_evaluations=t.prior_evaluations,
        inducing=t.inducing,
        chosen=t.chosen,
        epsilon=params.epsilon,
        dropout=params.dropout,
        members=params.members,
        draws=params.draws,
        inducing_tried=params.inducing_tried,
        tempered=params.tempered,
    )
    rows = learned_rows(images, params)
    method = classifier_method(params.method)
    tried = max(len(params.inducing_tried), 1)
    steps = t.training.steps(len(rows.X)) * method.trainings(params.method, params.members, tried)
    budget = whole if whole.seconds is None else replace(whole, seconds=TRAINED * whole.seconds, stated=whole.seconds)
    budget.evaluations = steps
    keeper = NoKeeper() if shared.states is None else StateFolder(shared.states)
    work = ClassifierFit(rows, images.n_classes, options, params.seed, budget, keeper)
    return method.train(params.method, work)


def test_scores(prediction: ClassPrediction, y: IntArray, bins: int) -> dict[str, float]:
    p = prediction.probabilities
    wrong = p.argmax(axis=1) != y
    return {
        "accuracy": scores.accuracy(p, y),
        "nll": scores.negative_log_likelihood(p, y),
        "brier": scores.brier_score(p, y),
        "ece": scores.calibration_error(p, y, bins),
        "confidence_excess": scores.overconfidence(p, y),
        "aurc": scores.risk_coverage(prediction.total_uncertainty, wrong).area,
        "total_uncertainty": float(prediction.total_uncertainty.mean()),
        "data_uncertainty": float(prediction.data_uncertainty.mean()),
        "knowledge_uncertainty": float(prediction.knowledge_uncertainty.mean()),
    }


def detection_scores(name: str, inside: ClassPrediction, outside: ClassPrediction) -> dict[str, float]:
    """Return how well entropy and mutual information tell outside images from test images."""
    total = inside.total_uncertainty, outside.total_uncertainty
    # a constant of every point apart, the two rank alike. Rounding must not order what is equal
    knowledge = tuple(np.round(one.knowledge_uncertainty, 12) for one in (inside, outside))
    return {
        f"auroc {name}": auroc(*(np.round(one, 12) for one in total)),
        f"auroc_knowledge {name}": auroc(*knowledge),
        f"aupr {name}": average_precision(*total),
        f"fpr95 {name}": false_positives_at_95(*total),
    }


def most_and_least_certain(uncertainty: FloatArray) -> IntArray:
    """Return the rows of the `SHOWN` smallest and the `SHOWN` largest uncertainties [2 `SHOWN`], in rising order.

    What is equal up to rounding keeps the order of rows: robust max is equally certain of many images, and last bits,
    which differ from processor to processor, must not choose among them.

    Args:
        uncertainty: in nats [N].
    """
    order = np.argsort(np.round(uncertainty, 12), kind="stable")
    return np.concatenate([order[:SHOWN], order[-SHOWN:]])


def member_scores(found: FittedClassifier, images: Images) -> dict[str, float]:
    """Return the mean accuracy and NLL of an ensemble's members. Nothing for others."""
    members = [model.predict(images.X_test).probabilities for model in found.members]
    if not members:
        return {}
    return {
        "member_accuracy": float(np.mean([scores.accuracy(p, images.y_test) for p in members])),
        "member_nll": float(np.mean([scores.negative_log_likelihood(p, images.y_test) for p in members])),
    }


def _outside(params: ImageTask, images: Images) -> dict[str, FloatArray]:
    """Return images of each other dataset, in grey levels from 0 to 1, and test images with their pixels shuffled."""
    found = {}
    for other in params.outside:
        data = load(other.prepared)
        test = np.arange(len(data.X)) if data.fixed_split is None else data.fixed_split[1]
        rows = stream(params.seed, "outside", other.name).permutation(test)[: params.outside_rows]
        found[other.name] = data.X[rows] / (float(data.X[rows].max()) or 1.0)
    order = stream(params.seed, "shuffle")
    found[SHUFFLED] = order.permuted(images.X_test[: params.outside_rows], axis=1)
    return found


def _curves(prediction: ClassPrediction, y: IntArray, bins: int) -> dict[str, Any]:
    p = prediction.probabilities
    diagram = scores.reliability(p, y, bins)
    curve = scores.risk_coverage(prediction.total_uncertainty, p.argmax(axis=1) != y)
    top = np.log(p.shape[1])
    return {
        "bin counts": diagram.counts.astype(np.float64),
        "bin confidence": np.nan_to_num(diagram.confidence),
        "bin accuracy": np.nan_to_num(diagram.accuracy),
        "risk": np.interp(COVERAGES, curve.coverage, curve.risk),
        "entropy test": np.histogram(prediction.total_uncertainty, ENTROPY_BINS, (0.0, top))[0],
    }
