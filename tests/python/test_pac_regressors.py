"""PAC-GP estimators: the bound is of `predict`, in the target's units, and what the methods layer says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import gpsuite
from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.commands.verify import main
from gpsuite.data.splits import Standardiser, train_test_indices
from gpsuite.methods.pac_bayes import PAPER_GRID, BandLoss, FullGPPosterior, RiskProblem, Search, train_full_gp
from gpsuite.methods.pac_bayes.evaluation import certify_posterior

ONE_IN_A_MILLION = 1e-6  # of the binomial bound, if the guarantee holds


def rows(n: int, seed: int = 0, noise: float = 0.3) -> tuple[FloatArray, FloatArray]:
    """Return inputs and a target of about 500 with a deviation of about 60."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, 500.0 + 80.0 * (np.sin(X[:, 0]) + noise * rng.standard_normal(n))


def test_the_bound_is_that_of_the_methods_layer() -> None:
    X, y = rows(80)
    fitted = gpsuite.PACGPRegressor(accuracy=60.0, delta=0.05, random_state=3).fit(X, y)
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    train, aside = train_test_indices(80, 0.2, seed)
    inputs, target = Standardiser.fit(X[aside]), Standardiser.fit(y[aside, None])
    Xs, ys = inputs.transform(X[train]), target.transform(y[train, None])[:, 0]
    loss = BandLoss(60.0 / target.scale[0])
    found = train_full_gp(RiskProblem(Xs, ys, loss, 0.05, ard=False), Search(Budget(evaluations=1000)))
    posterior = FullGPPosterior.fit(PAPER_GRID.rounded(found.hyperparameters), Xs, ys)
    certificate = certify_posterior(posterior, loss, 0.05)
    assert fitted.bound_ == certificate.bound_bayes == min(1.0, 2.0 * certificate.bound_kl)
    mean, variance = posterior.predict(inputs.transform(X[:5]))
    prediction, deviation = fitted.predict(X[:5], return_std=True)
    np.testing.assert_array_equal(prediction, mean * target.scale[0] + target.mean[0])
    np.testing.assert_array_equal(deviation, target.scale[0] * np.sqrt(variance + found.hyperparameters.noise_variance))


@pytest.mark.parametrize("kind", ["PACGPRegressor", "PACSGPRegressor"])
def test_units_of_the_target_and_of_the_inputs_do_not_matter(kind: str) -> None:
    X, y = rows(80)
    make: Any = getattr(gpsuite, kind)
    fitted = make(accuracy=60.0).fit(X, y)
    other = make(accuracy=60e3).fit(X * 1e-4 + 7.0, 1e3 * y - 4e5)
    assert other.bound_ == pytest.approx(fitted.bound_, rel=1e-4)  # the search ends where rounding lets it
    assert (fitted.accuracy_, other.accuracy_) == (60.0, 60e3)
    np.testing.assert_allclose(other.predict(X * 1e-4 + 7.0), 1e3 * fitted.predict(X) - 4e5, rtol=1e-3)
    usual = make().fit(X, y)
    assert usual.accuracy_ == pytest.approx(float(usual._target.scale[0]))


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("kind", ["PACGPRegressor", "PACSGPRegressor"])
def test_the_bound_holds_for_new_rows(kind: str) -> None:
    delta, repetitions, failures, useful = 0.2, 60, 0, 0
    make: Any = getattr(gpsuite, kind)
    new_X, new_y = rows(4000, seed=10**6)
    for seed in range(repetitions):
        fitted = make(accuracy=60.0, delta=delta, random_state=seed, max_evaluations=60).fit(*rows(100, seed))
        share = float(np.mean(np.abs(fitted.predict(new_X) - new_y) > 60.0))
        failures += share > fitted.bound_ + 3.0 * math.sqrt(share / len(new_y))
        useful += fitted.bound_ < 0.8
    assert failures <= binom.ppf(1.0 - ONE_IN_A_MILLION, repetitions, delta)
    assert useful > repetitions / 3, "a bound of 1 holds, too"


@pytest.mark.parametrize("kind", ["PACGPRegressor", "PACSGPRegressor"])
def test_verify_confirms_the_certificate_and_refutes_a_better_one(kind: str, tmp_path: Path, capsys: Any) -> None:
    X, y = rows(60)
    table, target = pd.DataFrame(X, columns=["a, b", "c"]), pd.Series(y, name="wear (mm)")
    fitted = getattr(gpsuite, kind)(accuracy=60.0, delta=0.05).fit(table, target)
    command = fitted.certificate_.save(tmp_path / "bound")
    words = [f"{tmp_path}/bound.json", f"dataset.path={tmp_path}/bound.csv", "dataset.target=wear (mm)"]
    words.append("dataset.strict=true")
    assert command.startswith("gpsuite verify ")
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "confirmed" in told
    assert "scaled by the other rows" in told
    assert "count as fixed" not in told
    assert float(told.split("as one predictor: at most ")[1].split()[0]) == pytest.approx(fitted.bound_, abs=2e-6)
    found = json.loads((tmp_path / "bound.json").read_text())
    assert found["goal"] == {"loss": "band01", "epsilon": 60.0, "unit": "own"}
    fitted.certificate_.certificate.claim.bounds["kl"] *= 0.99
    fitted.certificate_.save(tmp_path / "bound")
    assert main(words) == 1
    assert "is stated" in capsys.readouterr().out


def test_rows_stored_again_count_once_and_as_lost_where_they_scale(tmp_path: Path) -> None:
    X, y = rows(60)
    once = gpsuite.PACGPRegressor(accuracy=60.0).fit(X, y)
    fitted = gpsuite.PACGPRegressor(accuracy=60.0).fit(np.tile(X, (3, 1)), np.tile(y, 3))
    assert fitted.certificate_.learned_from <= 60
    assert fitted.bound_ > once.bound_
    fitted.certificate_.save(tmp_path / "bound")
    words = [f"{tmp_path}/bound", f"dataset.path={tmp_path}/bound.csv", "dataset.target=y", "dataset.strict=true"]
    assert main(words) == 0


def test_results_are_short_and_a_table() -> None:
    X, y = rows(60)
    fitted = gpsuite.PACGPRegressor(accuracy=60.0).fit(X, y)
    told = repr(fitted.certificate_)
    assert told.startswith("with probability at least 99 %, at most 0.")
    assert "off by more than 60 (units of y; learned from 48 rows)" in told
    vacuous = gpsuite.PACGPRegressor(accuracy=1.0).fit(X, y)
    assert vacuous.bound_ == 1.0
    assert repr(vacuous.certificate_).startswith("nothing is proved of how often predictions are off by more than 1 (")
    row = fitted.certificate_.to_frame().iloc[0]
    assert (row["share"], row["accuracy"], row["learned_from"]) == (fitted.bound_, 60.0, 48)


def test_an_edge_of_the_grid_is_a_warning() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (100, 3))
    with pytest.warns(UserWarning, match="at the edge of the grid of hyperparameters: lengthscale of x"):
        gpsuite.PACGPRegressor(accuracy=0.5, ard=True).fit(X, 3.0 * X[:, 0] + 0.01 * rng.standard_normal(100))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"accuracy": -1.0}, "accuracy=-1.0: must be a positive number in units of y"),
        ({"accuracy": math.inf}, "accuracy=inf"),
        ({"delta": 1.0}, "delta=1.0: must lie between 0 and 1"),
        ({"preparation": 0.0}, "preparation=0.0: must lie between 0 and 1"),
        ({"preparation": 0.9}, "60 rows .n_samples=60. with preparation=0.9 leave 6 to learn from: a bound needs 8"),
        ({"inducing": 0}, "inducing=0: at least one"),
    ],
)
def test_wrong_settings_are_one_sentence(settings: dict[str, Any], message: str) -> None:
    make: Any = gpsuite.PACSGPRegressor if "inducing" in settings else gpsuite.PACGPRegressor
    with pytest.raises(ValueError, match=message) as found:
        make(**settings).fit(*rows(60))
    assert "\n" not in str(found.value)


def test_a_constant_column_cannot_be_saved_and_the_message_names_it(tmp_path: Path) -> None:
    X, y = rows(60)
    fitted = gpsuite.PACGPRegressor(accuracy=60.0).fit(np.column_stack([X, np.full(60, 2.0)]), y)
    with pytest.raises(ValueError, match="input column 'x2': it is constant"):
        fitted.certificate_.save(tmp_path / "bound")
