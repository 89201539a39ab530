"""Every classifier learns, predicts distributions, repeats itself, goes on from kept states, and refuses bad data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from gpsuite.budget import Budget
from gpsuite.methods.wasserstein import classifiers
from gpsuite.methods.wasserstein.classifiers import CLASSIFIERS, ClassifierFit
from gpsuite.methods.wasserstein.fitting import TrainingRows
from gpsuite.methods.wasserstein.scoring import accuracy, temperature
from gpsuite.methods.wasserstein.training import TrainingState
from tests.methods.wasserstein.class_problems import fit, labelled, options, rows

pytestmark = pytest.mark.usefixtures("uncompiled")
X, Y = labelled(9, 30)


QUICK = {"gwi_kernel", "gwi_bernoulli", "map", "temperature", "mc_dropout", "ensemble", "laplace"}
EVERY = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow], id=name) for name in sorted(CLASSIFIERS)]


@pytest.mark.parametrize("name", EVERY)
def test_it_learns_and_predicts_distributions(name: str) -> None:
    classes = 2 if name == "gwi_bernoulli" else 3
    found = CLASSIFIERS.get(name)(fit(classes))
    X, y = labelled(9, 30, classes)
    prediction = found.predict(X)
    assert accuracy(prediction.probabilities, y) > 0.9
    np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1.0, atol=1e-8)
    assert (prediction.knowledge_uncertainty > -1e-9).all()
    assert (prediction.data_uncertainty >= 0.0).all()
    np.testing.assert_array_equal(prediction.probabilities, found.predict(X).probabilities)
    with pytest.raises(ValueError, match=r"inputs \[N, 2\]"):
        found.predict(X[:, :1])
    with pytest.raises(ValueError, match="finite"):
        found.predict(X * np.nan)


class Memory:
    """Keeps states of the first so many epochs."""

    def __init__(self, epochs: int) -> None:
        self.epochs, self.states = epochs, dict[str, TrainingState]()

    def load(self, part: str) -> TrainingState | None:
        return self.states.get(part)

    def save(self, part: str, state: TrainingState) -> None:
        if state.epoch <= self.epochs:
            self.states[part] = state


@pytest.mark.parametrize(
    "name", ["ensemble", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gwi_softmax", "svgp"))]
)
def test_an_interrupted_fit_goes_on_to_the_same_predictions(name: str) -> None:
    memory = Memory(2)
    whole = CLASSIFIERS.get(name)(fit(epochs=4, keeper=memory)).predict(X)
    assert set(memory.states) == ({"member-0", "member-1"} if name == "ensemble" else {"model"})
    assert all(state.epoch == 2 for state in memory.states.values())
    again = CLASSIFIERS.get(name)(fit(epochs=4, keeper=Memory(0)))
    np.testing.assert_array_equal(again.predict(X).probabilities, whole.probabilities)
    resumed = CLASSIFIERS.get(name)(fit(epochs=4, keeper=memory))
    np.testing.assert_array_equal(resumed.predict(X).probabilities, whole.probabilities)
    other = CLASSIFIERS.get(name)(fit(epochs=4, seed=4))
    assert (other.predict(X).probabilities != whole.probabilities).any()


def test_an_ensemble_is_the_mean_of_its_members() -> None:
    found = CLASSIFIERS.get("ensemble")(fit(epochs=3))
    members = [softmax(model.logits(X), axis=1) for model in found.model]
    np.testing.assert_allclose(found.predict(X).probabilities, np.mean(members, axis=0), rtol=1e-12)
    assert (members[0] != members[1]).any()
    assert found.predict(X).knowledge_uncertainty.max() > 0.0


def test_temperature_changes_no_decision() -> None:
    plain, scaled = (CLASSIFIERS.get(name)(fit(epochs=4)) for name in ("map", "temperature"))
    T = scaled.chosen["temperature"]
    expected = softmax(plain.model.logits(X) / T, axis=1)
    np.testing.assert_allclose(scaled.predict(X).probabilities, expected, rtol=1e-12)
    np.testing.assert_allclose(plain.predict(X).knowledge_uncertainty, 0.0, atol=1e-14)


def test_the_sparse_gps_bound_is_gpflows() -> None:
    found = CLASSIFIERS.get("svgp")(fit(epochs=2)).model
    y = tf.constant(Y)
    theirs = gpflow.models.SVGP(
        found.model.kernel,
        gpflow.likelihoods.MultiClass(3, invlink=gpflow.likelihoods.RobustMax(3, epsilon=0.01)),
        found.model.inducing_variable,
        mean_function=gpflow.functions.Constant(np.full(3, 0.1)),
        num_latent_gps=3,
        q_mu=found.model.q_mu.numpy(),
        q_sqrt=found.model.q_sqrt.numpy(),
        num_data=48,
    )
    ours = -float(found.loss(tf.constant(X), y, None))
    # GPflow squeezes the normal distribution function by 1e-3 of its range
    assert ours == pytest.approx(float(theirs.elbo((X, Y[:, None].astype(float)))), abs=0.05)


def test_the_laplace_covariance_is_the_inverse_of_the_gauss_newton_matrix() -> None:
    found = CLASSIFIERS.get("laplace")(fit(epochs=3)).model
    model, data = found.model, rows()
    phi = np.concatenate([model.network.features(model.variables, data.X).numpy(), np.ones((48, 1))], axis=1)
    p = softmax(model.logits(data.X), axis=1)
    H = sum(np.kron(np.diag(one) - np.outer(one, one), np.outer(f, f)) for one, f in zip(p, phi, strict=True))
    covariance = np.linalg.inv(H + found.precision * np.eye(len(H)))  # type: ignore[arg-type]
    f = np.concatenate([model.network.features(model.variables, X[:1]).numpy()[0], [1.0]])
    jacobian = np.kron(np.eye(3), f)
    _, ours = found.logit_moments(X[:1])
    np.testing.assert_allclose(ours[0], jacobian @ covariance @ jacobian.T, rtol=1e-8)


def test_what_cannot_be_learned_is_refused() -> None:
    data = rows()
    gone = TrainingRows(data.X[data.y != 1], data.y[data.y != 1], data.X_validation, data.y_validation)
    with pytest.raises(ValueError, match="no training row of class 1"):
        ClassifierFit(gone, 3, options(), 0, Budget())
    with pytest.raises(ValueError, match=r"labels must be the integers 0, \.\.\., 1"):
        ClassifierFit(data, 2, options(), 0, Budget())
    with pytest.raises(ValueError, match="3 classes: the Bernoulli likelihood is for two"):
        CLASSIFIERS.get("gwi_bernoulli")(fit(3, epochs=1))


def test_more_inducing_points_than_rows_are_as_many_as_there_are() -> None:
    from dataclasses import replace

    small = fit(epochs=1)
    many = ClassifierFit(small.rows, 3, replace(small.options, inducing=100.0), 0, Budget())
    assert CLASSIFIERS.get("gwi_kernel")(many).model.element.basis.size == 48


def test_an_ensemble_ended_as_its_worst_member(monkeypatch: pytest.MonkeyPatch) -> None:
    endings = iter(["done", "diverged", "budget"])
    monkeypatch.setattr(classifiers, "_network", lambda *_: (None, SimpleNamespace(status=next(endings))))
    three: Any = SimpleNamespace(options=SimpleNamespace(members=3))
    assert classifiers._ensemble(three).report.status == "diverged"


def test_temperature_and_precision_are_chosen_on_validation_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    known = TrainingRows(
        rng.normal(size=(30, 2)), rng.integers(0, 2, 30), rng.normal(size=(20, 2)), rng.integers(0, 2, 20)
    )
    network = SimpleNamespace(logits=lambda X: np.column_stack([X[:, 0], -X[:, 1]]))
    monkeypatch.setattr(classifiers, "_network", lambda *_: (network, None))
    given: Any = SimpleNamespace(rows=known)
    chosen = classifiers._temperature(given).chosen["temperature"]
    assert chosen == temperature(network.logits(known.X_validation), known.y_validation)
    seen: list[Any] = []

    def laplace(*arguments: Any) -> Any:
        seen.extend(arguments)
        return SimpleNamespace(predict=None, precision=1.0)

    monkeypatch.setattr(classifiers, "last_layer_laplace", laplace)
    classifiers._laplace(given)
    assert seen[1] is known.X
    assert seen[2] is known.X_validation
    assert seen[3] is known.y_validation
