"""GPflow models that `gpsuite.certify` takes and refuses, and models of gpsuite's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpsuite
from gpsuite.budget import Budget
from gpsuite.commands import verify
from gpsuite.data.loading import load
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.classification import kept_classifier
from gpsuite.experiments.guarantee.saved import FOLDER, SavedClassifier, write_model
from gpsuite.methods.robustness import LINKS, BinaryProblem, Hyperparameters, ModelSpec, train_gpc
from gpsuite.models.tensorflow_setup import configure
from tests.experiments.guarantee.test_classification_guarantee import LEARNING, table

configure()
import gpflow  # noqa: E402
import tensorflow as tf  # noqa: E402

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(8, 2))
X, Y = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 1))
SE, BERNOULLI = gpflow.kernels.SquaredExponential, gpflow.likelihoods.Bernoulli
SECONDS = 5.0


def svgp(likelihood: Any, kernel: Any = None, classes: int = 1, **more: Any) -> Any:
    model = gpflow.models.SVGP(SE(2.0) if kernel is None else kernel, likelihood, Z, num_latent_gps=classes, **more)
    rng = np.random.default_rng(1)
    model.q_mu.assign(rng.normal(size=model.q_mu.shape))
    model.q_sqrt.assign(0.5 * model.q_sqrt.numpy())
    return model


def test_a_shared_kernel_is_one_kernel() -> None:
    likelihood = gpflow.likelihoods.Softmax(3)
    plain, shared = svgp(likelihood, SE(2.0), 3), svgp(likelihood, SE(2.0), 3)
    shared.kernel = gpflow.kernels.SharedIndependent(SE(2.0), output_dim=3)
    shared.inducing_variable = gpflow.inducing_variables.SharedIndependentInducingVariables(plain.inducing_variable)
    found = [gpsuite.certify(model, [0.1, 0.2], radius=0.05, boxes=60) for model in (plain, shared)]
    assert found[0].range == found[1].range and found[0].verdict == found[1].verdict


def test_inputs_that_the_kernel_does_not_read_do_not_matter() -> None:
    model = svgp(BERNOULLI(), SE(2.0, active_dims=[1]))
    found = gpsuite.certify(model, [0.1, 0.2], radius=0.3)
    apart = gpsuite.certify(model, [99.0, 0.2], within={1: 0.3})
    assert found.range == apart.range
    still = gpsuite.certify(model, [0.1, 0.2], within={0: 5.0})
    assert still.range[1] - still.range[0] < 1e-6  # of rounding only


def test_a_sum_reads_the_inputs_of_its_terms() -> None:
    rng = np.random.default_rng(3)
    inputs = rng.normal(size=(12, 4))
    kernel = SE(2.0, active_dims=[3]) + gpflow.kernels.Matern32(1.0, active_dims=[1])
    model = gpflow.models.GPR((inputs, Y), kernel)
    found, apart = (gpsuite.certify(model, [place, 0.2, place, 0.1], within={1: 0.3, 3: 0.3}) for place in (0.0, 9.0))
    assert found.range == apart.range
    near = np.array([0.0, 0.2, 0.0, 0.1]) + rng.uniform(-0.3, 0.3, (200, 4))
    means = model.predict_f(near)[0].numpy()
    assert found.range[0] <= means.min() and means.max() <= found.range[1]


def test_a_product_of_squared_exponentials_is_one() -> None:
    one, two = svgp(BERNOULLI(), SE(2.0, 0.5**0.5)), svgp(BERNOULLI(), SE(2.0) * SE())
    ranges = [gpsuite.certify(model, [0.1, 0.2], radius=0.1).range for model in (one, two)]
    assert ranges[0] == pytest.approx(ranges[1], abs=2e-3)


def test_a_given_mean_of_all_classes_changes_nothing() -> None:
    likelihood = gpflow.likelihoods.MultiClass(3)
    one = svgp(likelihood, SE(2.0), 3)
    other = svgp(likelihood, SE(2.0), 3, mean_function=gpflow.functions.Constant(5.0))
    ranges = [gpsuite.certify(model, [0.1, 0.2], radius=0.05, boxes=60).range for model in (one, other)]
    assert ranges[0] == ranges[1]


@pytest.mark.parametrize("likelihood", [BERNOULLI(), BERNOULLI(invlink=tf.sigmoid), gpflow.likelihoods.Softmax(3)])
def test_verify_accepts_the_certificate(likelihood: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = svgp(likelihood, classes=3 if isinstance(likelihood, gpflow.likelihoods.Softmax) else 1)
    found = gpsuite.certify(model, [0.1, 0.2], radius=0.05, seconds=SECONDS)
    assert verify.main([str(found.certificate.save(tmp_path / "point"))]) == 0
    assert "confirmed" in capsys.readouterr().out


def test_verify_accepts_the_certificate_of_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = gpflow.models.GPR((X, Y), SE(), gpflow.functions.Constant(3.0), noise_variance=0.1)
    found = gpsuite.certify(model, X[0], radius=0.2)
    mean = float(model.predict_f(X[:1])[0].numpy()[0, 0])
    assert found.range[0] <= mean <= found.range[1] and found.value == pytest.approx(mean)
    assert verify.main([str(found.certificate.save(tmp_path / "mean"))]) == 0
    assert "confirmed" in capsys.readouterr().out


def test_no_certificate_is_a_sentence() -> None:
    white = SE(2.0) + gpflow.kernels.White(0.1)
    cases = [
        (svgp(gpflow.likelihoods.MultiClass(3), classes=3), "no certificate format for the robust maximum"),
        (svgp(BERNOULLI(), white), "no certificate format for a classifier with a constant mean function or"),
    ]
    summed = svgp(BERNOULLI(), SE() + gpflow.kernels.Matern32())
    cases.append((summed, r"kernel squared_exponential \+ matern32: a certificate takes a single kernel only"))
    for model, said in cases:
        found = gpsuite.certify(model, [0.1, 0.2], radius=0.02, boxes=40)
        with pytest.raises(UserError, match=said):
            _ = found.certificate


REFUSED: list[tuple[Any, str]] = [
    (lambda: svgp(BERNOULLI(), gpflow.kernels.RationalQuadratic()), "kernel RationalQuadratic: certify knows"),
    (lambda: svgp(BERNOULLI(), SE() + gpflow.kernels.Cosine()), "kernel Cosine: certify knows"),
    (lambda: svgp(BERNOULLI(), gpflow.kernels.White()), "kernel White: it reads no input; certify knows"),
    (
        lambda: svgp(gpflow.likelihoods.Softmax(3), SE() + gpflow.kernels.Matern32(), 3),
        "kernel squared_exponential + matern32: a classifier of several classes takes a single kernel only",
    ),
    (
        lambda: svgp(gpflow.likelihoods.MultiClass(3), SE() * gpflow.kernels.Matern32(), 3),
        "kernel matern32 * squared_exponential: a classifier of several classes takes a single kernel only",
    ),
    (lambda: svgp(BERNOULLI(invlink=tf.math.softplus)), "a Bernoulli likelihood of another link"),
    (lambda: svgp(BERNOULLI(), classes=2), "2 latent functions: a Bernoulli likelihood has one"),
    (lambda: svgp(gpflow.likelihoods.StudentT()), "likelihood StudentT: certify knows Gaussian, Bernoulli"),
    (
        lambda: svgp(BERNOULLI(), mean_function=gpflow.functions.Linear(np.ones((2, 1)))),
        "mean function Linear: certify",
    ),
    (lambda: gpflow.models.GPRFITC((X, Y), SE(), Z), "model GPRFITC: certify takes GPflow's GPR, SGPR, VGP, SVGP"),
    (lambda: gpflow.models.GPR((X, X), SE()), "2 outputs: certify takes a regression with one"),
    (
        lambda: svgp(gpflow.likelihoods.Softmax(2), classes=2, mean_function=gpflow.functions.Constant([0.0, 1.0])),
        "several classes with different constant means",
    ),
]


@pytest.mark.parametrize(("build", "said"), REFUSED, ids=[said[:24] for _, said in REFUSED])
def test_what_is_not_known_is_one_sentence(build: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        gpsuite.certify(build(), [0.1, 0.2], radius=0.1)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_a_regressions_region_is_a_box() -> None:
    with pytest.raises(UserError, match="norm='l2': the range of a regression is found over boxes"):
        gpsuite.certify(gpflow.models.GPR((X, Y), SE()), X[0], radius=0.1, norm="l2")


def test_a_classifier_trained_here_is_certified() -> None:
    problem = BinaryProblem(X, np.where(X[:, 0] > 0, 1.0, -1.0), ModelSpec(), LINKS.get("probit"))
    trained = train_gpc(problem, "ep", Hyperparameters(), Budget(evaluations=5))
    found = gpsuite.certify(trained, X[0], radius=0.1)
    assert found.range == gpsuite.certify(trained.fit.posterior, X[0], radius=0.1).range
    assert found.prediction == int(X[0, 0] > 0)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_model_of_a_run_is_certified_in_the_tables_units(classes: int, tmp_path: Path) -> None:
    data = table(tmp_path, classes)
    write_model(SavedClassifier.of(load(data), kept_classifier(data, LEARNING, SharedWork())), tmp_path / FOLDER)
    model, row = gpsuite.load(tmp_path), load(data).X[0]
    size = 0.01 * load(data).X.std(axis=0)
    found = gpsuite.certify(model, row, within=dict(enumerate(size)), seconds=SECONDS)
    near = row + np.random.default_rng(2).uniform(-size, size, (50, len(row)))
    shares = model.predict(near).probabilities[:, model.labels.index(found.prediction)]
    assert found.range[0] - 1e-9 <= shares.min() and shares.max() <= found.range[1] + 1e-9
    assert found.prediction == model.predict(row[None]).predicted[0]
