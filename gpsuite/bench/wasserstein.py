"""A training step of GWI against GPflow's SVGP step on the same batch, and only the robust-max expectation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gpsuite.bench.timing import BenchCase, Work
from gpsuite.seeds import stream

ROWS, BATCH, INPUTS, CLASSES = 60_000, 1000, 784, 10  # as MNIST
INDUCING = 245  # sqrt(N)
STEP_GOAL = 1.5
EXPECTATION_GOAL = 8.0  # GPflow's 20 Gauss-Hermite nodes are not accurate where variances differ. About 90 nodes are


def cases() -> list[BenchCase]:
    """Return the step with a kernel mean and with a network's, and the expectation with its slopes."""
    size = f"batch {BATCH}, M={INDUCING}, C={CLASSES}, D={INPUTS}"
    reference = "GPflow SVGP step, robust max"
    steps = [
        BenchCase(f"GWI training step, {title} mean, {size}", reference, partial(_step, mean), STEP_GOAL)
        for mean, title in (("kernel", "kernel"), ("network", "network"))
    ]
    expectation = BenchCase(
        f"robust-max expectation and slopes, {BATCH} points, C={CLASSES}",
        "GPflow MultiClass variational expectations and slopes",
        _expectation,
        EXPECTATION_GOAL,
    )
    return [*steps, expectation]


def _data() -> tuple[Any, Any, Any]:
    rng = stream(0, "bench", "wasserstein")
    X = rng.uniform(size=(BATCH, INPUTS))
    return X, rng.integers(0, CLASSES, BATCH), rng.uniform(size=(INDUCING, INPUTS))


def _step(mean: str) -> tuple[Work, Work]:
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    import gpflow

    from gpsuite.methods.wasserstein.gwi import GWIClassifier, WassersteinObjective
    from gpsuite.methods.wasserstein.training import AdamStep
    from gpsuite.models.network_spec import NetworkSpec
    from gpsuite.models.networks import Network
    from gpsuite.models.random_elements.elements import (
        GaussianElement,
        InducingBasis,
        KernelMean,
        NetworkMean,
        SparseKernel,
    )
    from gpsuite.models.random_elements.likelihoods import RobustMax

    X, y, Z = _data()
    kernel = gpflow.kernels.SquaredExponential(1.0, np.full(INPUTS, 11.0))
    gpflow.set_trainable(kernel, False)
    basis, rng = InducingBasis(kernel, Z), stream(0, "start")
    function = (
        KernelMean(0.1, 0.01 * rng.standard_normal((INDUCING, CLASSES)))
        if mean == "kernel"
        else NetworkMean(0.1, Network(NetworkSpec((100,)), INPUTS, CLASSES), rng)
    )
    sparse = SparseKernel.from_covariance(basis, 0.1 * np.eye(INDUCING), CLASSES)
    element, likelihood = GaussianElement(0.1, kernel, function, sparse, basis, INPUTS), RobustMax(CLASSES)
    model = GWIClassifier(element, likelihood, WassersteinObjective(element, likelihood.expected_log, ROWS))
    ours, theirs = AdamStep(model, 1e-3), AdamStep(_GPflow(Z), 1e-3)
    return partial(ours.step, X, y, 0), partial(theirs.step, X, y, 0)


class _GPflow:
    """GPflow's SVGP with its own robust max, as a model of our training loop."""

    def __init__(self, Z: Any) -> None:
        import gpflow

        self.model = gpflow.models.SVGP(
            gpflow.kernels.SquaredExponential(1.0, np.full(INPUTS, 11.0)),
            gpflow.likelihoods.MultiClass(CLASSES),
            Z.copy(),
            num_latent_gps=CLASSES,
            num_data=ROWS,
        )

    @property
    def variables(self) -> list[Any]:
        return list(self.model.trainable_variables)

    def loss(self, X: Any, y: Any, seed: Any) -> Any:
        return self.model.training_loss((X, y[:, None]))

    def validation_loss(self, X: Any, y: Any) -> float:
        return 0.0


def _expectation() -> tuple[Work, Work]:
    from gpsuite.models.tensorflow_setup import configure

    configure()
    import gpflow
    import tensorflow as tf

    from gpsuite.models.classification.robust_max import label_probability

    rng = stream(0, "bench", "robust max")
    mean, variance = rng.standard_normal((BATCH, CLASSES)), rng.uniform(0.2, 1.0, (BATCH, CLASSES))
    y = rng.integers(0, CLASSES, BATCH)
    likelihood, inputs = gpflow.likelihoods.MultiClass(CLASSES), tf.zeros((BATCH, 1), tf.float64)

    @tf.function  # type: ignore[untyped-decorator]
    def theirs(m: Any, v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch((m, v))
            value = tf.reduce_sum(likelihood.variational_expectations(inputs, m, v, y[:, None]))
        return tape.gradient(value, (m, v))

    tensors = tf.constant(mean), tf.constant(variance)
    return partial(label_probability, mean, variance, y), partial(theirs, *tensors)
