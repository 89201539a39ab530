from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.robustness.search import attacks
from gpsuite.methods.robustness.search.attacks import gpfgs, gpjm, local_search, strong_attack
from gpsuite.methods.robustness.search.regions import Region, box, l1_ball, l2_ball, linf_ball
from gpsuite.models.classification.approximation import BinaryProblem, GPCPosterior
from gpsuite.models.classification.links import LINKS
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec
from tests.arrays import Array
from tests.models.gpc_problems import fitted_posterior

HERE = Path(__file__).parents[3] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "robustness.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
CASES = [
    pytest.param(case, id=case["id"])
    for case in REFERENCE.get("cases", [])
    if case["kind"] == "binary" and "gpfgs" in case
]
REGIONS = {
    "box": linf_ball([0.1, 0.3], 0.6, domain=(-0.4, 2.0)),
    "l2": l2_ball([0.1, 0.3], 0.6, domain=(-0.4, 2.0)),
    "l1": l1_ball([0.1, 0.3], 0.6),
}


@pytest.fixture(scope="module", params=["probit", "logistic", "squeezed_probit"])
def posterior(request: pytest.FixtureRequest) -> GPCPosterior:
    fitted = fitted_posterior("laplace", link=LINKS.get(request.param.replace("squeezed_", "")))[0]
    return dataclasses.replace(fitted, link=LINKS.get(request.param))


def inside(region: Region, points: Array) -> bool:
    fixed = np.delete(points, region.free, axis=-1) == np.delete(region.centre, region.free)
    return bool(fixed.all() and region.contains(np.atleast_2d(points)[:, region.free]).all())


def best_on_a_grid(posterior: GPCPosterior, region: Region, sign: int) -> float:
    axes = np.meshgrid(*(np.linspace(a, b, 81) for a, b in zip(region.lower, region.upper, strict=True)))
    points = region.project(np.stack([axis.ravel() for axis in axes], axis=-1))
    return float((sign * posterior.probability(region.embed(points))).max()) * sign


@pytest.mark.reference
@pytest.mark.parametrize("case", CASES)
def test_gpfgs_takes_the_reference_step(case: dict[str, Any]) -> None:
    X = np.asarray(case["X"], dtype=float).reshape(len(case["X"]), -1)
    h = Hyperparameters(case["kernel"]["variance"], tuple(case["kernel"]["lengthscales"]))
    infer, link = INFERENCES.get(case["inference"]), LINKS.get(case["likelihood"])
    posterior = infer(
        BinaryProblem(X, np.asarray(case["y"], dtype=float), ModelSpec(ard=True), link), h, None
    ).posterior
    for attack in case["gpfgs"]:
        found = gpfgs(posterior, linf_ball(attack["x0"], attack["gamma"]))
        np.testing.assert_allclose(found, attack["x_adv"], rtol=1e-12, atol=1e-12)
        assert posterior.probability(found[None])[0] == pytest.approx(attack["prob_adv"], abs=1e-6)


@pytest.mark.parametrize("name", REGIONS)
def test_attacks_stay_in_region_and_domain(posterior: GPCPosterior, name: str) -> None:
    region = REGIONS[name]
    assert inside(region, gpfgs(posterior, region))
    path = gpjm(posterior, region)
    assert inside(region, path)
    assert inside(region, strong_attack(posterior, region, 1, 4, np.random.default_rng(0))[0])


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_strong_attack_beats_a_fine_grid(posterior: GPCPosterior, name: str, sign: int) -> None:
    region = REGIONS[name]
    point, probability = strong_attack(posterior, region, sign, 6, np.random.default_rng(1))
    assert probability == pytest.approx(posterior.probability(point[None])[0], abs=1e-14)
    assert sign * probability >= sign * best_on_a_grid(posterior, region, sign) - 1e-7


@pytest.mark.parametrize("sign", [1, -1])
def test_a_local_search_never_gets_worse(posterior: GPCPosterior, sign: int) -> None:
    for region in REGIONS.values():
        climb = local_search(posterior, region, sign)
        for start in region.project(np.random.default_rng(2).normal(size=(5, 2))):
            before, after = posterior.probability(region.embed(np.array([start, climb(start)])))
            assert sign * after >= sign * before - 1e-12


def test_attacks_move_against_the_predicted_class(posterior: GPCPosterior) -> None:
    for centre in posterior.X[:10]:
        region = linf_ball(centre, 0.05)
        p, *path = posterior.probability(np.vstack([gpjm(posterior, region), gpfgs(posterior, region)]))
        direction = -1 if p > 0.5 else 1
        assert direction * (path[-1] - p) > 0
        assert direction * (path[-2] - p) > 0


def test_gpjm_changes_one_input_per_step_and_no_more_than_asked() -> None:
    posterior = fitted_posterior()[0]
    path = gpjm(posterior, linf_ball([0.2, 0.1], 0.2))
    assert (np.count_nonzero(np.diff(path, axis=0), axis=1) == 1).all()
    assert len(path) == 3
    assert len(gpjm(posterior, linf_ball([0.2, 0.1], 0.2), inputs=1)) == 2
    gradient = np.abs(posterior.latent_with_gradient(path[:1])[2][0])
    assert np.flatnonzero(path[1] - path[0])[0] == np.argmax(gradient)


def test_where_nothing_can_move_the_attack_stays() -> None:
    posterior = fitted_posterior()[0]
    region = box([0.2, 0.1], 0.0)
    for point in (gpfgs(posterior, region), gpjm(posterior, region)[-1]):
        np.testing.assert_array_equal(point, region.centre)
    assert strong_attack(posterior, region, 1, 3, np.random.default_rng(0))[0].tolist() == [0.2, 0.1]
    far = l2_ball([1e6, 1e6], 1.0)  # flat: every gradient is zero
    assert inside(far, strong_attack(posterior, far, 1, 3, np.random.default_rng(0))[0])


@pytest.mark.parametrize("sign", [1, -1])
def test_what_a_search_climbs_rises_with_the_probability_and_has_its_gradient(
    posterior: GPCPosterior, sign: int
) -> None:
    objective = attacks._score(posterior, REGIONS["box"], sign)
    points, step = np.random.default_rng(0).uniform(-0.4, 0.9, (20, 2)), 1e-5
    value, gradient = objective(points)
    order = np.argsort(sign * posterior.probability(points))
    assert np.all(np.diff(value[order]) > 0)
    for j in (0, 1):
        ahead, behind = (objective(points + side * step * np.eye(2)[j])[0] for side in (1, -1))
        np.testing.assert_allclose(gradient[:, j], (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)


def test_gpjm_goes_on_however_small_the_gradients_are() -> None:
    posterior = fitted_posterior("laplace")[0]
    faint = dataclasses.replace(posterior, alpha=1e-9 * posterior.alpha)
    region = REGIONS["box"]
    assert len(gpjm(posterior, region)) == 3
    # the sign of the mean decides the direction, not its size
    np.testing.assert_array_equal(gpjm(faint, region), gpjm(posterior, region))


@pytest.mark.parametrize("starts", [1, 3, 7])
def test_a_strong_attack_uses_as_many_starts_as_it_is_given(starts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, seen, whole = [], [], GPCPosterior.probability

    def probability(posterior: GPCPosterior, X: Array) -> Array:
        seen.append(len(X))
        return whole(posterior, X)

    def search(start: Array) -> Array:
        begun.append(start)
        return start

    monkeypatch.setattr(attacks, "local_search", lambda *_: search)
    monkeypatch.setattr(GPCPosterior, "probability", probability)
    strong_attack(fitted_posterior("laplace")[0], REGIONS["box"], 1, starts, np.random.default_rng(1))
    assert len(begun) == starts
    # the centre and two corners are always tried, and each search's end
    assert seen[-1] == max(3, starts) + starts


def test_projected_gradients_stay_where_nothing_can_be_gained() -> None:
    # a gradient of zero in a huge ball: the first step would be infinite
    posterior = dataclasses.replace(fitted_posterior("laplace")[0], alpha=np.zeros(30))
    region = l2_ball([1e4, 1e4], 1e12)
    point = local_search(posterior, region, 1)(region.start)
    assert region.contains(point[None])[0]
