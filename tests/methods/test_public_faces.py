"""What the public faces of the families refuse, own and hold: the mistakes of who calls them from Python."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.errors import UserError
from gpsuite.methods import active_learning, pac_bayes, perturbation, robustness, wasserstein
from gpsuite.methods.active_learning import MeasurementPlanner, SafetyLimit
from gpsuite.methods.conformal import LeaveOneOut
from gpsuite.methods.perturbation import LinearLSSVM, ModelClass, confidence_region
from gpsuite.methods.robustness import BinaryProblem, ModelSpec
from gpsuite.methods.wasserstein import split_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 1))
SIGNS = np.where(X[:, 0] > 0, 1.0, -1.0)


def test_a_bound_at_tiny_noise_is_not_below_the_risk_by_rounding() -> None:
    """Pure noise, interpolated: the KL is far above N, and what rounding leaves of it may be negative."""
    grid = pac_bayes.PAPER_GRID
    tried = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        inputs, targets = rng.uniform(0, 3, (40, 1)), rng.normal(size=40)
        try:
            found = pac_bayes.FullGPPosterior.fit(
                grid.rounded(pac_bayes.Hyperparameters(1.0, (0.2,), 1e-14)), inputs, targets
            )
        except ArithmeticError:
            continue
        tried += 1
        test = rng.uniform(0, 3, (500, 1)), rng.normal(size=500)
        told = pac_bayes.evaluate(found, *test, pac_bayes.BandLoss(0.5), 0.05)
        assert told.bound_kl >= told.gibbs_risk_test, seed
        assert found.kl > 100.0 or np.isinf(found.rounding(pac_bayes.BandLoss(0.5)).kl)
    assert tried > 20


def test_rounding_is_nothing_where_the_noise_is_not() -> None:
    found = pac_bayes.FullGPPosterior.fit(pac_bayes.Hyperparameters(1.0, (1.0,), 0.1), X, SIGNS)
    assert 0.0 < found.rounding(pac_bayes.BandLoss(0.5)).kl < 1e-10


def test_a_classifier_owns_its_rows() -> None:
    inputs = X.copy()
    problem = robustness.BinaryProblem(inputs, SIGNS, robustness.ModelSpec(), robustness.LINKS.get("probit"))
    start = robustness.Hyperparameters()
    model = robustness.train_gpc(problem, "laplace", start, robustness.Budget(evaluations=3))
    posterior = model.fit.require_converged()
    before = float(posterior.probability(np.array([[1.0]]))[0])
    inputs += 100.0
    region = robustness.linf_ball([1.0], 0.1)
    found = robustness.probability_range(posterior, region, 0.01, robustness.Budget(boxes=500))
    assert found.minimum.outer <= before <= found.maximum.outer


def test_what_is_certified_owns_its_rows() -> None:
    inputs, targets = X.copy(), SIGNS.copy()
    full = pac_bayes.FullGPPosterior.fit(pac_bayes.Hyperparameters(1.0, (1.0,), 0.1), inputs, targets)
    left = LeaveOneOut.fit(inputs, targets, np.arange(5), "squared_exponential", pac_bayes.Hyperparameters())
    before = full.predict(X[:3])[0], left.mean(X[:3])
    inputs += 100.0
    targets[:] = 0.0
    np.testing.assert_array_equal(full.predict(X[:3])[0], before[0])
    np.testing.assert_array_equal(left.mean(X[:3]), before[1])
    assert not np.shares_memory(full.y, targets)


def test_a_proposal_names_the_input_that_was_requested() -> None:
    rng = np.random.default_rng(0)
    measured, candidates = rng.uniform(-1, 1, (10, 2)), rng.uniform(-1, 1, (20, 2))
    planner = active_learning.MeasurementPlanner(active_learning.SafetyLimit(3.0, "below"), rng)
    planner.tell(measured, measured[:, :1], measured[:, 0])
    [proposal] = planner.ask(candidates).proposals
    x = proposal.x.copy()
    candidates += 5.0
    np.testing.assert_array_equal(proposal.x, x)
    with pytest.raises(ValueError, match="when_nothing_is_safe='safe': must be one of stop, safest"):
        planner.ask(candidates, when_nothing_is_safe="safe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n=0"):
        planner.ask(candidates, 0)


def test_rows_of_a_series_keep_their_places() -> None:
    targets = pd.Series(np.arange(10.0)).sample(frac=1, random_state=0)
    inputs: Any = targets.to_numpy()[:, None]
    rows = split_rows(inputs, targets, 0.2, np.random.default_rng(0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(rows.X[:, 0], rows.y)
    with pytest.raises(ValueError, match="9 inputs, 10 targets"):
        split_rows(inputs[:9], np.arange(10.0), 0.2, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("norm", "radius", "lower"),
    [
        ("linf", 0.5, -0.2),
        ("l2", np.inf, -0.2),
        ("box", 0.5, -0.2),
        ("box", np.nan, -0.2),
        ("l1", -1.0, -0.2),
        ("box", np.inf, 0.4),
        ("box", np.inf, -np.inf),
    ],
)
def test_a_region_is_one_of_the_kinds_there_are_and_holds_its_centre(norm: str, radius: float, lower: float) -> None:
    centre, free = np.full(2, 0.3), np.arange(2)
    robustness.Region(centre, free, centre - 0.5, centre + 0.5)
    with pytest.raises(ValueError, match=r"norm|centre"):
        robustness.Region(centre, free, np.full(2, lower), centre + 0.5, norm, radius)


@pytest.mark.parametrize("free", [[True, False], np.array([True, False]), [0.9]])
def test_free_inputs_are_whole_numbers(free: Any) -> None:
    with pytest.raises(UserError, match=r"free inputs .*: whole numbers"):
        robustness.linf_ball([0.0, 0.0], 0.1, free)


@pytest.mark.parametrize(("decimals", "half_width"), [(0, 2.5), (1, 1.25), (0.5, 6)])
def test_a_grid_has_as_many_values_as_it_counts(decimals: Any, half_width: Any) -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        pac_bayes.HyperparameterGrid(decimals, half_width)


def test_a_linear_band_is_of_the_models_inputs_and_its_region_travels() -> None:
    line = np.linspace(0, 1, 8)[:, None]
    model = perturbation.ModelClass(partial(perturbation.LinearLSSVM, C=1.0))
    region = perturbation.confidence_region(line, line[:, 0], model, q=1, m=10, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"inputs \[J, 1\] are needed, got \(1, 2\)"):
        region.band([[0.5, 3.0]])
    again = pickle.loads(pickle.dumps(region))
    np.testing.assert_array_equal(again.band([0.5]).upper, region.band([0.5]).upper)


@pytest.mark.parametrize("named", [{"acquisition": "Random"}, {"queries": "Full"}, {"safe": "no"}])
def test_a_pipeline_has_no_unknown_rule(named: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(named))}=.*: must be"):
        active_learning.Pipeline("p", **named)


def test_leaving_one_out_needs_rows_as_they_are() -> None:
    y, start = X[:9, 0], pac_bayes.Hyperparameters()
    left = LeaveOneOut.fit(X[:9], y, np.arange(9), "squared_exponential", start)
    with pytest.raises(ValueError, match=r"inputs \[B, 1\]"):
        left.mean(np.zeros((1, 2)))
    for targets, rows in (
        (y[:, None], np.arange(9)),
        (y, np.array([0, 0])),
        (y, np.array([0.5])),
        (y[:8], np.arange(3)),
    ):
        with pytest.raises(ValueError, match="are needed"):
            LeaveOneOut.fit(X[:9], targets, rows, "squared_exponential", start)


def test_a_table_has_as_many_outputs_as_inputs() -> None:
    with pytest.raises(ValueError, match="are needed"):
        active_learning.Observations.from_table(np.zeros((5, 1)), np.ones((3, 2)))


@pytest.mark.parametrize("limit", [{"seconds": -1.0}, {"evaluations": -1}, {"boxes": float("nan")}])
def test_a_limit_is_not_negative(limit: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limit))}="):
        pac_bayes.Budget(**limit)


@pytest.mark.parametrize("face", [pac_bayes, robustness])
def test_a_package_lists_what_it_exports(face: Any) -> None:
    assert dir(face) == sorted(face.__all__)


@pytest.mark.parametrize(
    "wrong", [{"inducing": -1.0}, {"members": 0}, {"draws": 0}, {"epsilon": 1.0}, {"dropout": 1.0}]
)
def test_settings_of_a_classifier_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        wasserstein.ClassifierOptions(**wrong)


def test_labels_may_be_floats_and_targets_integers() -> None:
    inputs = np.random.default_rng(1).normal(size=(40, 2))
    training = wasserstein.TrainingOptions(epochs=1, batches=(20,))
    classes = (inputs[:, 0] > 0).astype(float)
    rows = split_rows(inputs, classes, 0.2, np.random.default_rng(0))
    fitted = wasserstein.fit_classifier("map", rows, 2, wasserstein.ClassifierOptions(training))
    assert fitted.predict(inputs).probabilities.shape == (40, 2)
    counts = split_rows(inputs, np.arange(40) % 3, 0.2, np.random.default_rng(0))
    found = wasserstein.fit_regressor("svgp", counts, wasserstein.GWIOptions(prior_evaluations=1), training)
    assert found.predict(inputs)[0].shape == (40,)


# The names that pac_bayes and robustness export are loaded when the first is asked for.
@pytest.mark.parametrize("package", ["gpsuite.methods.pac_bayes", "gpsuite.methods.robustness"])
def test_every_exported_name_is_there_and_no_other(package: str) -> None:
    room = import_module(package)
    names = room.__all__
    assert len(names) > 5 and all(getattr(room, name) is not None for name in names)
    with pytest.raises(AttributeError, match="no attribute 'math'"):
        _ = room.math


# What newcomers hand over first: a seed for a generator, a name for a link.
INPUTS, y = np.arange(12.0).reshape(6, 2) ** 0.5, np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])

FACES: dict[str, Callable[[Any], object]] = {
    "planner": lambda rng: MeasurementPlanner(SafetyLimit(1.0, "below"), rng),
    "region": lambda rng: confidence_region(INPUTS, y, ModelClass(partial(LinearLSSVM, C=1.0)), q=1, m=4, rng=rng),
    "rows": lambda rng: split_rows(INPUTS, y, 0.2, rng),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("rng", [3, None, np.random.RandomState(0)])
def test_what_is_no_generator_is_refused_with_what_would_be(face: str, rng: object) -> None:
    expected = rf"a random generator is needed, numpy.random.default_rng\({3 if rng == 3 else ''}\)"
    with pytest.raises(TypeError, match=expected):
        FACES[face](rng)
    FACES[face](np.random.default_rng(3))


def test_the_name_of_a_link_is_refused_with_how_to_get_it() -> None:
    with pytest.raises(TypeError, match=r"link='probit': a link is needed, LINKS.get\('probit'\)"):
        BinaryProblem(INPUTS, y, ModelSpec(), "probit")  # type: ignore[arg-type]
