"""A classifier that PAC-Bayes certifies, next to the one that test rows judge: which bound is smaller.

delta is split before any row is seen: half of it for the binomial bound of the test rows, half for the certificates,
which share theirs equally. So the smallest bound of all holds with probability 1 - delta.

Equation: Catoni 2007, Theorem 1.2.6
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.certificates.class_risk import INFORMED, MOST_CLASSES, STANDARDISED
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import DifferentRows
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.experiments.guarantee.certificates import Arrays, error_rate_certificate
from gpsuite.experiments.guarantee.checks import Metrics
from gpsuite.experiments.guarantee.classification import class_probabilities, judged_classifier
from gpsuite.experiments.guarantee.tasks import ClassRiskTask, Learning
from gpsuite.experiments.pac_bayes.mnist import Certified, Chosen, ClassTask, Parts, certify, parts_of, raw_features
from gpsuite.experiments.robustness.classifiers import unconverged_is_diverged
from gpsuite.methods.pac_bayes.bounds import catoni_bound
from gpsuite.methods.pac_bayes.classification import InformedPrior, PriorSettings, gibbs_errors
from gpsuite.methods.pac_bayes.evaluation import cautious_upper_bound
from gpsuite.models.linalg import NotPositiveDefiniteError
from gpsuite.seeds import derived_seed

# share of the rows that makes the prior, and directions in which the others move it, fixed for every table
SPLITS = ((0.5, 0), (0.1, 50))
HALF = 0.5  # of delta is for the test rows
PRIOR = PriorSettings(gamma=0.3, noise=0.01, temper=0.001)
MOST_INDUCING = 500
LEAST_ROWS = 40
HELD = 5  # one of so many rows of the prior tells the error rate that Catoni's constant is made for
LEAST_CONSTANT, MOST_CONSTANT = 0.02, 4.0


def certifies(data: Dataset) -> bool:
    """Return whether the rows may be independent draws of so many classes: no groups, no order in time."""
    independent = data.clusters is None and data.order != "time"
    return independent and data.n_classes <= MOST_CLASSES and len(data.X) >= LEAST_ROWS


@unconverged_is_diverged
def run_class_risk(task: Task[ClassRiskTask], shared: SharedWork) -> Outcome:
    """Certify a classifier for each split, and keep the one with the smallest bound.

    Metrics: bound, of that one; bound_tests, of the judged classifier from the test rows. Arrays: its certificate.
    """
    dataset, learning = task.require_dataset(), task.params.learning
    data = load(dataset)
    found: list[tuple[float, Certified, Parts]] = []
    for share, directions in SPLITS:
        params = class_task(learning, data, share, directions)
        budget = shared.budget(task.budget_seconds, evaluations=learning.max_evaluations)
        try:
            made, parts = certified_split(dataset, params, budget)
        except NotPositiveDefiniteError:
            continue
        found.append((cautious_bound(made, params, data, parts), made, parts))
    metrics: Metrics = {"bound": 1.0, "bound_tests": bound_of_test_rows(dataset, learning, shared)}
    arrays: Arrays = {}
    if found:
        bound, made, parts = min(found, key=lambda each: each[0])
        moved = len(made.posterior.ratio)
        metrics |= {"bound": bound, "kl": made.bounds.kl, "gibbs_risk": made.bounds.gibbs, "moved": moved}
        metrics |= {"n_prior": len(parts.prior), "n_bound": len(parts.bound)}
        arrays = error_rate_certificate(made)
    headline = f"bound {metrics['bound']:.3f}, of test rows {metrics['bound_tests']:.3f}"
    return Outcome(metrics, arrays=arrays, headline=headline)


def class_task(learning: Learning, data: Dataset, share: float, directions: int) -> ClassTask:
    """Return what decides the certified classifier of a split, but for Catoni's constant."""
    kept = len(data.X) if data.fixed_split is None else len(data.fixed_split[0])
    return ClassTask(
        prior=INFORMED,
        chosen=Chosen(STANDARDISED, PRIOR, MOST_CONSTANT),
        inducing=min(MOST_INDUCING, int(kept * share)),
        directions=directions,
        delta=(1.0 - HALF) * learning.delta,
        choices=len(SPLITS),
        prior_share=share,
        test_share=0.0,
        max_evaluations=learning.max_evaluations,
        seed=derived_seed(learning.seed, "class risk"),
    )


def certified_split(dataset: PreparedDataset, params: ClassTask, budget: Budget) -> tuple[Certified, Parts]:
    """Return the certified classifier of a split, at the constant that the prior's rows choose.

    Raises:
        NotPositiveDefiniteError: if the prior cannot be computed.
    """
    data = load(dataset)
    parts, raw = parts_of(data, params), raw_features(data, STANDARDISED)
    labels = data.y[parts.prior, 0].astype(np.int64)
    constant = constant_of(raw[parts.prior], labels, data.n_classes, len(parts.bound), params)
    own = replace(params, chosen=replace(params.chosen, constant=constant))
    return certify(dataset, own, parts, raw, budget), parts


def constant_of(raw: FloatArray, labels: IntArray, classes: int, n: int, params: ClassTask) -> float:
    """Return Catoni's C for n rows by only the prior's rows: sqrt(2 ln(1 / delta) / (n r)), about the best at risk r.

    r is the error rate of some of these rows under the prior of the others.
    """
    held = max(len(labels) // HELD, 1)
    deviation = raw.std(axis=0)
    features = ((raw - raw.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)).astype(np.float32)
    inducing = np.arange(min(params.inducing, len(labels) - held))
    prior = InformedPrior.fit(features[held:], labels[held:], classes, inducing, params.chosen.prior)
    wrong = int((prior.moments(features[:held])[0].argmax(axis=1) != labels[:held]).sum())
    pays = math.log(params.choices / params.delta)
    return float(np.clip(math.sqrt(2.0 * pays * (held + 2) / (n * (wrong + 1))), LEAST_CONSTANT, MOST_CONSTANT))


def cautious_bound(made: Certified, params: ClassTask, data: Dataset, parts: Parts) -> float:
    """Return Catoni's bound, whether rows that repeat others are draws or copies: the larger one of both.

    Counted once, a row whose copy the prior saw is wrong.
    """
    tests = DifferentRows.of(parts.bound, parts.prior, data.groups)
    if tests is None:
        return made.bounds.bound_catoni
    if not len(tests.places):
        return 1.0
    at = tests.places
    errors = gibbs_errors(made.mean[at], made.variance[at], data.y[parts.bound[at], 0].astype(np.int64))[1]
    risk = min(float(np.where(tests.seen, 1.0, errors).mean()) + made.confidence.slack, 1.0)
    pays = (made.bounds.kl + math.log(params.choices / params.delta)) / len(at)
    return max(made.bounds.bound_catoni, min(catoni_bound(risk, pays, made.confidence.constant)[0], 1.0))


def bound_of_test_rows(dataset: PreparedDataset, learning: Learning, shared: SharedWork) -> float:
    """Return the binomial bound on the judged classifier's error rate, at its share of delta."""
    model = judged_classifier(dataset, learning, shared)
    problem = model.problem
    wrong = np.argmax(class_probabilities(model, problem.X_test), axis=1) != problem.test_classes
    tests = DifferentRows.of(problem.test_rows, problem.train_rows, load(dataset).groups)
    return cautious_upper_bound(wrong, tests, HALF * learning.delta)
