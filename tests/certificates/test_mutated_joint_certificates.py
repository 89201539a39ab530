"""Mutated certificates of several classes and of regressions: none that says something stronger is confirmed.

Truth is evaluated at many points of the region that the mutant states, for the model that it stores.
"""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from gpsuite.certificates.certificate import Certificate, ClassQuantity, pack, read_certificate
from gpsuite.certificates.envelope import read_envelope, write_packed
from gpsuite.certificates.model import MODEL_ARRAYS, Model, model_hash
from gpsuite.certificates.verification import verify_certificate
from gpsuite.models.classification.multiclass_posterior import centred_root, softmax_moments
from gpsuite.models.radial import kappa, squared_distances
from gpsuite.untrusted import UnusableFileError
from tests.arrays import Array
from tests.certificates.joint_problems import (
    class_certificate,
    class_dataset,
    regression_certificate,
    regression_dataset,
)
from tests.certificates.test_mutated_certificates import (
    a_float,
    a_key_dropped,
    an_array_cut,
    an_array_permuted,
    an_array_scaled,
    an_integer,
    number,
    points_of,
    the_region,
)

ROUNDING = 1e-8  # of the truth in double precision, relative to its size for a quantile
ORIGINALS = ((class_certificate, class_dataset), (regression_certificate, regression_dataset))
Description = dict[str, Any]


def a_claim(d: Description, a: dict[str, Array], rng: np.random.Generator) -> None:
    claim = d["claims"][int(rng.integers(len(d["claims"])))]
    key = str(rng.choice(["outer", "inner"]))
    claim[key] = number(float(claim[key] or 0.0), rng)


def a_stronger_claim(d: Description, a: dict[str, Array], rng: np.random.Generator) -> None:
    """Move every outer bound inward, and all leaves with it half of the time."""
    step, leaf, at = 10.0 ** rng.uniform(-9, 0), rng.random() < 0.5, 0
    for claim in d["claims"]:
        sign = 1.0 if claim["side"] == "maximum" else -1.0
        claim["outer"] = float(claim["outer"] - sign * step)
        part = slice(at, at + claim["leaves"])
        at += claim["leaves"]
        if leaf:
            a["tree_leaf_bound"][part] -= sign * 2 * step


def another_quantity(d: Description, a: dict[str, Array], rng: np.random.Generator) -> None:
    claim = d["claims"][int(rng.integers(len(d["claims"])))]
    if "level" in claim:
        claim["level"] = float(rng.choice([0.5, 0.05, 0.95, 0.4, 0.0, 1.5]))
    else:
        claim["class"], claim["rival"] = int(rng.integers(-1, 4)), rng.choice(np.array([None, 0, 1, 2]))


def another_side(d: Description, a: dict[str, Array], rng: np.random.Generator) -> None:
    claim = d["claims"][int(rng.integers(len(d["claims"])))]
    claim["side"] = str(rng.choice(["minimum", "maximum"]))


def claims_moved(d: Description, a: dict[str, Array], rng: np.random.Generator) -> None:
    d["claims"] = [d["claims"][int(place)] for place in rng.permutation(len(d["claims"]))]


def a_number_of_the_model(d: Description, a: dict[str, Array], rng: np.random.Generator) -> None:
    key = str(rng.choice(["variance", "noise", "kernel"]))
    about = d["model"]
    about[key] = "matern52" if key == "kernel" else number(float(about[key]), rng)


CHANGES = (
    *(a_claim, a_stronger_claim, a_stronger_claim, a_float, a_float, an_integer, an_array_scaled, an_array_cut),
    *(an_array_permuted, the_region, another_quantity, another_side, claims_moved, a_number_of_the_model),
    a_key_dropped,
)


def values_of(model: Model, quantity: Any, X: Array) -> Array:
    k = model.variance * kappa(model.kernel, squared_distances(X / model.lengthscales, model.X / model.lengthscales))
    mean = k @ model.alpha.T
    features = np.einsum("bn,rcn->brc", k, model.root)
    covariance = np.einsum("brc,r,brj->bcj", features, model.weights, features)
    covariance += model.variance * np.eye(len(model.alpha))
    if isinstance(quantity, ClassQuantity):
        p = softmax_moments(mean, centred_root(covariance)).mean
        own = p[:, quantity.own]
        return own if quantity.rival is None else (1 + own - p[:, quantity.rival]) / 2
    z = 0.0 if quantity.level == 0.5 else float(ndtri(quantity.level))
    return np.asarray(mean[:, 0] + z * np.sqrt(np.maximum(covariance[:, 0, 0], 0.0) + model.noise))


def is_true(certificate: Certificate, rng: np.random.Generator) -> bool:
    points = points_of(certificate, rng)
    for claim in certificate.claims:
        values = values_of(certificate.model, claim.quantity, points)
        room = ROUNDING * (1 + np.abs(values).max())
        if np.any(claim.sign * (values - claim.outer) > room):
            return False
        if claim.inner is not None and claim.witness is not None:
            x = certificate.region.centre.copy()
            x[certificate.region.free] = claim.witness
            there = values_of(certificate.model, claim.quantity, x[None])[0]
            if claim.sign * (claim.inner - there) > room:
                return False
    return True


def fit_hash(d: Description, a: dict[str, Array]) -> None:
    about = d["model"]
    try:
        arrays = {name: a[f"model_{name}"] for name in MODEL_ARRAYS}
        model = Model(
            kernel=about["kernel"], variance=about["variance"], likelihood=about["likelihood"],
            noise=about["noise"], squeeze=about["squeeze"], **arrays,
        )  # fmt: skip
        about["sha256"] = model_hash(model)
    except (KeyError, TypeError):
        return


def study(seed: int, count: int, folder: Path) -> Counter[str]:
    rng, found = np.random.default_rng(seed), Counter[str]()
    for _ in range(count):
        make, dataset = ORIGINALS[int(rng.integers(2))]
        description, arrays = copy.deepcopy(pack(make()))
        for _ in range(int(rng.integers(1, 4))):
            CHANGES[int(rng.integers(len(CHANGES)))](description, arrays, rng)
        if rng.random() < 0.5:
            fit_hash(description, arrays)
        try:
            path = write_packed(description, arrays, folder / "mutant")[0]
            code, lines = verify_certificate(path, read_envelope(path), dataset())
        except UnusableFileError:
            found["unusable"] += 1
            continue
        except (ValueError, TypeError, AttributeError) as error:
            # a test's own change that JSON cannot hold
            assert "JSON" in str(error), error
            found["unusable"] += 1
            continue
        assert code in (0, 1)
        if code == 0:
            assert is_true(read_certificate(path), rng), lines
        found["refuted" if code else "confirmed"] += 1
    return found


def test_the_originals_are_true_and_the_oracle_knows_false_claims() -> None:
    from tests.certificates.joint_problems import with_stated

    rng = np.random.default_rng(0)
    for make, _ in ORIGINALS:
        original: Certificate = make()
        assert is_true(original, rng)
        for index, stated in enumerate(original.claims):
            inner = stated.inner
            assert inner is not None
            false = with_stated(original, index, outer=inner - stated.sign * 1e-5)
            assert not is_true(false, rng)


def test_of_a_few_hundred_mutants_none_is_stronger_than_the_truth(tmp_path: Path) -> None:
    found = study(1, 200, tmp_path)
    assert min(found.values()) >= 8 and set(found) == {"confirmed", "refuted", "unusable"}


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize("part", range(8))
def test_of_four_thousand_mutants_none_is_stronger_than_the_truth(part: int, tmp_path: Path) -> None:
    found = study(100 + part, 500, tmp_path)
    print(dict(found))  # shown by pytest -rP
    assert found["confirmed"] >= 10
