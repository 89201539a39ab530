"""One classifier trained, tested, and shown images of another kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.loading import load
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task, finite_or_none
from gpsuite.experiments.wasserstein.images.rows import Images, keeps_images, learned_rows, read_images
from gpsuite.experiments.wasserstein.images.tasks import ImageTask
from gpsuite.experiments.wasserstein.methods import ClassifierMethod
from gpsuite.methods.wasserstein.scoring import classification as scores
from gpsuite.methods.wasserstein.scoring.detection import auroc, average_precision, false_positives_at_95
from gpsuite.models.classification import robust_max
from gpsuite.seeds import stream

if TYPE_CHECKING:
    from gpsuite.methods.wasserstein.classifiers import FittedClassifier
    from gpsuite.models.random_elements.likelihoods import ClassPrediction

SHUFFLED = "shuffled pixels"
SHOWN = 6  # most and least certain images that are kept
ENTROPY_BINS = 30
COVERAGES = np.linspace(0.02, 1.0, 50)
_STATUS = {"done": DONE, "budget": BUDGET, "diverged": DIVERGED}


def run(task: Task[ImageTask], shared: SharedWork) -> Outcome:
    """Train one classifier and return its scores."""
    params = task.params
    data = load(task.require_dataset())
    images = read_images(data, params)
    found = fit(task, images, shared)
    prediction = found.predict(images.X_test)
    metrics: dict[str, Any] = test_scores(prediction, images.y_test, params.bins)
    arrays = _curves(prediction, images.y_test, params.bins)
    top = np.log(images.n_classes)
    for name, X in _outside(params, images).items():
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
        arrays |= {
            "certain images": images.X_test[kept],
            "certain entropies": prediction.total_uncertainty[kept],
        }
    metrics |= {f"chosen {name}": value for name, value in found.chosen.items()}
    metrics |= member_scores(found, images) | formula_errors(found, images, params)
    state = found.report.state
    metrics |= {"epochs": state.best_epoch, "validation_nll": state.best_score}
    metrics |= {"chosen batch": state.batch, "chosen learning_rate": state.learning_rate}
    headline = f"accuracy {metrics['accuracy']:.3f}, NLL {metrics['nll']:.3f}, ECE {metrics['ece']:.3f}"
    status = _STATUS[found.report.status]
    reason = "" if status == DONE else found.report.reason
    clean = {k: finite_or_none(v) if isinstance(v, float) else v for k, v in metrics.items()}
    return Outcome(clean, status, reason, arrays, headline)


def fit(task: Task[ImageTask], images: Images, shared: SharedWork) -> FittedClassifier:
    """Train the task's classifier on the repetition's rows."""
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.budget import Budget
    from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS, Fit, NoKeeper
    from gpsuite.methods.wasserstein.options import ClassifierOptions
    from gpsuite.methods.wasserstein.states import StateFolder
    from gpsuite.models.networks.spec import NetworkSpec

    params, t = task.params, task.params.training
    image = (images.side, images.side, 1) if params.convolution else None
    options = ClassifierOptions(
        training=t.training,
        network=NetworkSpec(t.widths, t.activation, image),
        prior=t.prior,
        prior_mean=t.prior_mean,
        prior_evaluations=t.prior_evaluations,
        inducing=t.inducing,
        chosen=t.chosen,
        epsilon=params.epsilon,
        dropout=params.dropout,
        members=params.members,
        draws=params.draws,
    )
    rows = learned_rows(images, params)
    assert isinstance(params.method, ClassifierMethod)
    name = params.method.classifier
    steps = t.training.steps(len(rows.X)) * (params.members if name == "ensemble" else 1)
    budget = Budget(task.budget_seconds, evaluations=steps, observer=shared.observer)
    keeper = NoKeeper() if shared.states is None else StateFolder(shared.states)
    return CLASSIFIERS.get(name)(Fit(rows, images.n_classes, options, params.seed, budget, keeper))


def test_scores(prediction: ClassPrediction, y: IntArray, bins: int) -> dict[str, float]:
    """Return the scores on test rows."""
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
    # a constant of every point apart, the two rank alike; rounding must not order what is equal
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
    """Return the mean accuracy and NLL of an ensemble's members; nothing for others."""
    if not isinstance(found.model, list):
        return {}
    members = [model.predict(images.X_test).probabilities for model in found.model]
    return {
        "member_accuracy": float(np.mean([scores.accuracy(p, images.y_test) for p in members])),
        "member_nll": float(np.mean([scores.negative_log_likelihood(p, images.y_test) for p in members])),
    }


def formula_errors(found: FittedClassifier, images: Images, params: ImageTask) -> dict[str, float]:
    """Return how far training's and prediction's numbers are from the notes' formulas, for GWI with robust max."""
    from gpsuite.methods.wasserstein.gwi import GWIClassifier
    from gpsuite.models.random_elements.likelihoods import RobustMax

    if not isinstance(found.model, GWIClassifier) or not isinstance(found.model.likelihood, RobustMax):
        return {}
    mean, variance = found.model.element.predict(images.X_test)
    S = robust_max.largest_probabilities(mean, variance)
    wrong = params.epsilon / (images.n_classes - 1)
    p = found.predict(images.X_test).probabilities
    rows = np.arange(len(S))
    trained = found.model.likelihood.expected_log(mean, variance, images.y_test, None).numpy()
    own = S[rows, images.y_test]
    formula = np.log(1.0 - params.epsilon) * own + np.log(wrong) * (1.0 - own)
    return {
        "expected_log_likelihood_error": float(np.abs(trained - formula).max()),
        "class_probability_error": float(np.abs(p - (1.0 - params.epsilon) * S - wrong * (1.0 - S)).max()),
        "class_probability_sum_error": float(np.abs(p.sum(axis=1) - 1.0).max()),
        "probability_sum_error": robust_max.sum_error(S),
        "hermite_sum_error": robust_max.sum_error(robust_max.gauss_hermite_probabilities(mean, variance, 50)),
        "prediction_is_argmax": float(np.mean(p.argmax(axis=1) == S.argmax(axis=1))),
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
