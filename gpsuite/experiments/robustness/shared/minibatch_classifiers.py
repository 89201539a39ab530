"""Classifiers trained by minibatches whose Gaussian posterior the family certifies: GWI and SVGP."""

from __future__ import annotations

import numpy as np

from gpsuite.budget import Budget
from gpsuite.errors import UserError
from gpsuite.experiments.robustness.shared.classifiers import Problem, too_few_of_a_class
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams, MinibatchParams
from gpsuite.methods.wasserstein.rows import TrainingRows, split_rows
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.seeds import derived_seed, stream


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
    from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS, Fit
    from gpsuite.methods.wasserstein.options import ClassifierOptions, TrainingOptions
    from gpsuite.models.classification.links import PROBIT
    from gpsuite.models.classification.multiclass_variational import softmax_posterior
    from gpsuite.models.random_elements.certifiable import certifiable_posterior, certifiable_robust_max

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
    found = CLASSIFIERS.get(name)(Fit(training_rows(problem, model), C, options, seed, budget))
    if found.report.status == "diverged":
        raise NotConvergedError(f"{method.inference}: {found.report.reason}")
    if name == "svgp_softmax":
        several = softmax_posterior(found.model.model)
        return several.difference(1, 0) if C == 2 else several
    if C == 2:
        return certifiable_posterior(found.model.element, PROBIT)
    return certifiable_robust_max(found.model.element, options.epsilon)
