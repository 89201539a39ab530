"""Certificates of classifiers: confirmed by other code from the rows, and refused when anything in them is changed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from gpsuite.certificates.class_risk import LOG, ROOT, STANDARDISED
from gpsuite.certificates.class_risk_verification import verify_certificate
from gpsuite.certificates.envelope import checksum, read_envelope, write_packed
from gpsuite.certificates.plain_class_risk import bounds_of, largest_risks, scale_without_data
from gpsuite.certificates.plain_class_risk import scattering as plain_scattering
from gpsuite.config.files import conf_dir
from gpsuite.data.catalogue import read_spec
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.errors import UserError
from gpsuite.experiments.base import Outcome, SharedWork, Task
from gpsuite.experiments.pac_bayes.mnist import DESCRIPTION, Chosen, ClassTask, run
from gpsuite.methods.pac_bayes.classification import PriorSettings, gibbs_errors
from gpsuite.models.scattering import made_up_scale, scattering
from gpsuite.untrusted import UnusableFileError

SETTINGS = PriorSettings(0.3, 0.01, 0.001)
SHAPES = {
    "table": ("informed", STANDARDISED, 0),
    "root": ("informed", ROOT, 0),
    "moved": ("informed", ROOT, 6),
    "log": ("informed", LOG, 0),
    "uninformed": ("uninformed", ROOT, 12),
}


@pytest.fixture(scope="module")
def digits() -> PreparedDataset:
    return prepare(read_spec(conf_dir(), "digits"), cache_dir=Path("data"), default_task="classification")


@pytest.fixture(scope="module")
def data(digits: PreparedDataset) -> Dataset:
    return load(digits)


@pytest.fixture(scope="module")
def outcomes(digits: PreparedDataset) -> dict[str, Outcome]:
    found = {}
    for name, (prior, features, directions) in SHAPES.items():
        informed = prior == "informed"
        params = ClassTask(
            prior=prior, chosen=Chosen(features, SETTINGS, 0.5), inducing=60 if informed else 0, directions=directions,
            delta=0.035, choices=64, prior_share=0.5 if informed else 0.0, test_share=0.2, max_evaluations=15, seed=7,
        )  # fmt: skip
        task = Task("pac_bayes/mnist", name, {}, params, digits)
        found[name] = run(task, SharedWork())
    return found


def number(value: object) -> float:
    assert isinstance(value, float)
    return value


def written(outcome: Outcome, folder: Path) -> Path:
    arrays = {name: array for name, array in outcome.arrays.items() if name != DESCRIPTION}
    path = folder / "found.npz"
    write_packed(json.loads(str(outcome.arrays[DESCRIPTION])), arrays, path)
    return path


@pytest.mark.parametrize("name", SHAPES)
def test_a_true_certificate_is_confirmed(
    name: str, outcomes: dict[str, Outcome], data: Dataset, tmp_path: Path
) -> None:
    path = written(outcomes[name], tmp_path)
    code, lines = verify_certificate(path, read_envelope(path), data)
    assert code == 0, lines
    numbers = outcomes[name].metrics
    [risk] = re.findall(r"risk (0\.\d+) on", "\n".join(lines))
    assert float(risk) == pytest.approx(number(numbers["gibbs_risk_rows"]), abs=5e-4)
    assert ("binomial bound" in "\n".join(lines)) == (numbers["bound_binomial"] is not None)
    if name == "uninformed":
        assert number(numbers["kl"]) > 0.0 and numbers["bound_binomial"] is None


def scaled(part: str, name: str, factor: float) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(description: dict[str, Any], arrays: dict[str, Any]) -> None:
        description[part][name] *= factor

    return change


def lower_bound(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(description: dict[str, Any], arrays: dict[str, Any]) -> None:
        description["claim"]["bounds"][name] *= 0.98

    return change


def more_delta(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    description["claim"]["delta"] = 0.001


def more_choices(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    description["claim"]["choices"] = 1000


def another_seed(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    description["dataset"]["seed"] += 1


def same_row_twice(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["inducing"][1] = arrays["inducing"][0]


def long_directions(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["directions"] *= 1.01


def another_shift(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["shift"] *= 1.2


def negative_ratio(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["ratio"][0] = -0.5


def without_a_class(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    arrays["shift"] = arrays["shift"][:, 1:]


def other_features(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    description["model"]["features"] = STANDARDISED


def share_of_the_prior(description: dict[str, Any], arrays: dict[str, Any]) -> None:
    description["dataset"]["prior_share"] = 0.7


CHANGES = {
    "risk": ("root", scaled("claim", "gibbs_risk", 0.98)),
    "kl": ("uninformed", scaled("claim", "kl", 0.99)),
    "bound kl": ("root", lower_bound("kl")),
    "bound catoni": ("root", lower_bound("catoni")),
    "bound binomial": ("root", lower_bound("binomial")),
    "no binomial": ("uninformed", lower_bound("binomial")),
    "delta": ("root", more_delta),
    "choices": ("root", more_choices),
    "constant": ("root", scaled("claim", "constant", 10.0)),
    "seed": ("root", another_seed),
    "share": ("root", share_of_the_prior),
    "inducing": ("root", same_row_twice),
    "directions": ("uninformed", long_directions),
    "shift": ("uninformed", another_shift),
    "ratio": ("uninformed", negative_ratio),
    "classes": ("uninformed", without_a_class),
    "features": ("root", other_features),
    "gamma": ("table", scaled("model", "gamma", 40.0)),
    "temper": ("table", scaled("model", "temper", 300.0)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_certificate_is_refused(
    name: str, outcomes: dict[str, Outcome], data: Dataset, tmp_path: Path
) -> None:
    shape, change = CHANGES[name]
    outcome = outcomes[shape]
    arrays = {key: np.array(value) for key, value in outcome.arrays.items() if key != DESCRIPTION}
    description = json.loads(str(outcome.arrays[DESCRIPTION]))
    change(description, arrays)
    path = tmp_path / "changed.npz"
    write_packed(description, arrays, path)  # with the checksum of what is changed
    assert checksum(description, arrays) == read_envelope(path)["checksum"]
    try:
        code, _ = verify_certificate(path, read_envelope(path), data)
    except (UnusableFileError, ValueError):
        return
    assert code == 1


def test_a_row_that_bounds_the_risk_may_not_make_the_prior(
    outcomes: dict[str, Outcome], data: Dataset, tmp_path: Path
) -> None:
    outcome = outcomes["root"]
    arrays = {key: np.array(value) for key, value in outcome.arrays.items() if key != DESCRIPTION}
    kept = np.random.RandomState(7).permutation(1797)[360:]
    arrays["inducing"][0] = kept[np.random.RandomState(7).permutation(len(kept))][-1]
    path = tmp_path / "foreign.npz"
    write_packed(json.loads(str(outcome.arrays[DESCRIPTION])), arrays, path)
    code, lines = verify_certificate(path, read_envelope(path), data)
    assert code == 1 and "inducing row" in lines[1]


def test_the_dataset_must_be_given_and_the_same(outcomes: dict[str, Outcome], data: Dataset, tmp_path: Path) -> None:
    path = written(outcomes["table"], tmp_path)
    with pytest.raises(UserError, match="add dataset=digits"):
        verify_certificate(path, read_envelope(path), None)
    other = load(prepare(read_spec(conf_dir(), "breast_cancer"), cache_dir=Path("data"), default_task="classification"))
    with pytest.raises(UserError, match="other content"):
        verify_certificate(path, read_envelope(path), other)


def test_two_ways_to_the_features_agree() -> None:
    images = np.random.default_rng(0).uniform(size=(3, 28, 28))
    theirs = plain_scattering(images)
    ours = scattering(images).reshape(3, -1)
    # the folded copies of a filter end at five, the aliases at seven: 1e-6 of the filters; the rest is float32
    assert np.abs(theirs - ours).max() < 5e-6
    assert scale_without_data(12) == pytest.approx(made_up_scale(12), rel=1e-4)


def test_the_checkers_risk_is_an_upper_end() -> None:
    rng = np.random.default_rng(2)
    mean, variance, labels = rng.normal(size=(200, 5)), rng.uniform(0.01, 2.0, 200), rng.integers(0, 5, 200)
    lower, upper = gibbs_errors(mean, variance, labels, 4000)
    found = largest_risks(mean, variance, labels)
    assert np.all(found >= lower - 1e-12) and np.all(found <= upper + 1.5e-3)
    two = largest_risks(mean[:, :2], variance, labels % 2)
    margin = np.where(labels % 2 == 0, 1.0, -1.0) * (mean[:, 0] - mean[:, 1])
    assert np.abs(two - ndtr(-margin / np.sqrt(2.0 * variance))).max() < 1e-12


def test_the_bounds_by_bisection_are_those_of_the_method() -> None:
    from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound, catoni_bound, kl_bound

    found = bounds_of(0.05, 50, 3.0, 1000, 0.01, 0.4)
    assert found["kl"] == pytest.approx(kl_bound(0.05, (3.0 + np.log(2.0 * np.sqrt(1000.0) / 0.01)) / 1000)[0])
    assert found["catoni"] == pytest.approx(catoni_bound(0.05, (3.0 + np.log(100.0)) / 1000, 0.4)[0])
    assert found["binomial"] == pytest.approx(binomial_upper_bound(50, 1000, 0.01))
