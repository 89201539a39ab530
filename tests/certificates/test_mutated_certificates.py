"""15,000 mutated certificates of two or more classes and regressions: none stronger than the truth is confirmed.

Truth is evaluated by direct differences in double precision at many points of the region that the mutant states, for
the model that it stores: a claim that such a point breaks by more than rounding is false. A mutant that is confirmed
must hold there; with its dataset given, it must also be about the same model, row and rows.
"""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import ndtr, ndtri

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import (
    LEAF_ARRAYS,
    NODE_ARRAYS,
    Certificate,
    MarginQuantity,
    pack,
    read_certificate,
)
from gpsuite.certificates.envelope import read_envelope, write_packed
from gpsuite.certificates.model import LINKS as TWO_CLASSES
from gpsuite.certificates.model import Model, model_hash, parse_model
from gpsuite.certificates.verification import verify_certificate
from gpsuite.data.dataset import Dataset
from gpsuite.methods.robustness.point_search import probability_range
from gpsuite.methods.robustness.search.regions import l1_ball, l2_ball, linf_ball
from gpsuite.models.classification.approximation import BinaryProblem
from gpsuite.models.classification.links import LINKS, logistic_moments
from gpsuite.models.classification.multiclass_posterior import centred_root, softmax_moments
from gpsuite.models.classification.training import INFERENCES
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.radial import kappa
from gpsuite.untrusted import UnusableFileError
from tests.arrays import Array
from tests.certificates.joint_problems import (
    class_certificate,
    class_dataset,
    margin_certificate,
    margins,
    regression_certificate,
    regression_dataset,
)
from tests.methods.robustness.certified_point import CENTRE, certify_range, its_dataset, origin_of, with_claim
from tests.models.gpc_problems import two_classes

SETTINGS = (
    ("laplace", "squared_exponential", "probit", linf_ball, 0.4),
    ("ep", "matern52", "probit", l2_ball, 0.3),
    ("laplace", "matern32", "logistic", l1_ball, 0.2),
    ("ep", "squared_exponential", "logistic", l2_ball, 0.3),
)
FAMILIES = ("two classes", "several classes or a target", "the margin of a class")
PARTS = {
    FAMILIES[0]: 20,
    FAMILIES[1]: 8,
    FAMILIES[2]: 2,
}  # each a test of its own, so that an interrupted study goes on where it stopped
MUTANTS = 500


@cache
def originals(family: str) -> list[tuple[Certificate, Dataset]]:
    if family == FAMILIES[1]:
        return [(class_certificate(), class_dataset()), (regression_certificate(), regression_dataset())]
    if family == FAMILIES[2]:
        return [(margin_certificate(), class_dataset(5))]
    X, y = two_classes(0)
    found = []
    for inference, kernel, link, ball, radius in SETTINGS:
        infer = INFERENCES.get(inference)
        fit = infer(
            BinaryProblem(X, y, ModelSpec(kernel, ard=True), LINKS.get(link)), Hyperparameters(2.5, (0.8, 1.7)), None
        )
        posterior, region = fit.require_converged(), ball(CENTRE, radius)
        extremes = probability_range(posterior, region, 0.02, Budget(boxes=1000))
        origin = origin_of(y, inference, fit.state if inference == "ep" else None)
        made = certify_range(posterior, region, (extremes.minimum, extremes.maximum), slack=0.01, origin=origin)
        found.append((made, its_dataset()))
    return found


def values_of(model: Model, quantity: Any, X: Array) -> Array:
    """What is claimed, at full inputs [B, D]; latent variances at least 0."""
    squared = cdist(X / model.lengthscales, model.X / model.lengthscales, "sqeuclidean")
    k = model.variance * kappa(model.kernel, squared)
    mean = k @ model.alpha.T
    features = np.einsum("bn,rcn->brc", k, model.root)
    covariance = np.einsum("brc,r,brj->bcj", features, model.weights, features)
    covariance += model.variance * np.eye(model.functions)
    variance = np.maximum(covariance[:, 0, 0], 0.0)
    if isinstance(quantity, MarginQuantity):
        return margins(mean, covariance, quantity.own)
    if model.likelihood == "softmax":
        p = softmax_moments(mean, centred_root(covariance)).mean
        own = p[:, quantity.own]
        return own if quantity.rival is None else (1 + own - p[:, quantity.rival]) / 2
    if model.likelihood == "logistic":
        return logistic_moments(mean[:, 0], variance, 12.0)[0]
    if model.likelihood == "probit":
        return np.asarray(model.squeeze + (1 - 2 * model.squeeze) * ndtr(mean[:, 0] / np.sqrt(1 + variance)))
    z = 0.0 if quantity.level == 0.5 else float(ndtri(quantity.level))
    return np.asarray(mean[:, 0] + z * np.sqrt(variance + model.noise))


def points_of(certificate: Certificate, rng: np.random.Generator) -> Array:
    """Points [B, D] of the region stated: random ones, pulled into the ball, its corners and the witnesses."""
    region = certificate.region
    share = rng.random((400, len(region.free)))
    share[200:] = np.round(share[200:])
    points = region.lower + share * (region.upper - region.lower)
    points = np.vstack([points, *(claim.witness for claim in certificate.claims if claim.witness is not None)])
    start = region.centre[region.free]
    if region.norm != "box":
        step = points - start
        size = np.abs(step).sum(1) if region.norm == "l1" else np.sqrt((step**2).sum(1))
        pull = np.minimum(1.0, region.radius * (1 - 1e-12) / np.maximum(size, 1e-300))
        points = np.clip(start + step * pull[:, None], region.lower, region.upper)
    full = np.tile(region.centre, (len(points), 1))
    full[:, region.free] = points
    return full


def is_true(certificate: Certificate, rng: np.random.Generator) -> bool:
    points, model = points_of(certificate, rng), certificate.model
    for claim in certificate.claims:
        values = values_of(model, claim.quantity, points)
        # rounding of double precision; that of a quantile is relative to its size
        room = 1e-9 if model.likelihood in TWO_CLASSES else 1e-8 * (1 + np.abs(values).max())
        if np.any(claim.sign * (values - claim.outer) > room):
            return False
        if claim.inner is not None and claim.witness is not None:
            point = certificate.region.centre.copy()
            point[certificate.region.free] = claim.witness
            if claim.sign * (claim.inner - values_of(model, claim.quantity, point[None])[0]) > room:
                return False
    return True


def mutate(
    description: dict[str, Any], arrays: dict[str, Array], rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Array], str]:
    """Return a certificate's content with one to three changes, half of the time with the hash made to fit."""
    description, arrays = copy.deepcopy(description), {name: array.copy() for name, array in arrays.items()}
    kinds = []
    for _ in range(int(rng.integers(1, 4))):
        change = CHANGES[int(rng.integers(len(CHANGES)))]
        kinds.append(change.__name__)
        change(description, arrays, rng)
    if rng.random() < 0.5:
        _fit_hash(description, arrays)
    return description, arrays, "+".join(kinds)


def _fit_hash(description: dict[str, Any], arrays: dict[str, Array]) -> None:
    try:
        description["model"]["sha256"] = model_hash(parse_model(description["model"], arrays))
    except (KeyError, TypeError, ValueError):
        return


def number(value: float, rng: np.random.Generator) -> float:
    """Return a number a little, much or absurdly different."""
    kind = rng.integers(6)
    if kind == 0:
        return float(rng.choice([0.0, 1.0, -1.0, 0.5, 1e300, -1e300, 1e-300]))
    size = 10.0 ** rng.uniform(-12, 0)
    return float(value * (1 + rng.choice([-1, 1]) * size) + (kind == 1) * rng.normal() * size)


def a_claim(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    claim = d["claims"][int(rng.integers(len(d["claims"])))]
    key = str(rng.choice(["outer", "inner"]))
    claim[key] = number(float(claim[key] or 0.0), rng)


def a_stronger_claim(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    """Move every outer bound inward, and all leaves with it half of the time."""
    at, limits = 0, (0.0, 1.0) if d["kind"] == "classification" else (-np.inf, np.inf)
    for claim in d["claims"]:
        sign, step = 1.0 if claim["side"] == "maximum" else -1.0, 10.0 ** rng.uniform(-9, 0)
        claim["outer"] = float(np.clip(claim["outer"] - sign * step, *limits))
        if rng.random() < 0.5:
            a["tree_leaf_bound"][at : at + claim["leaves"]] -= sign * rng.choice([2, 10]) * step
        at += claim["leaves"]


def a_float(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    names = [name for name, array in a.items() if array.dtype == np.float64 and array.size]
    name = str(rng.choice(names))
    flat = a[name].reshape(-1)
    place = int(rng.integers(flat.size))
    flat[place] = number(float(flat[place]), rng)


def an_integer(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    name = str(rng.choice([name for name, array in a.items() if array.dtype == np.int64 and array.size]))
    flat = a[name].reshape(-1)
    flat[int(rng.integers(flat.size))] = rng.choice([-1, 0, 1, 2, 3, int(rng.integers(-10, 100)), 2**62])


def an_array_scaled(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    name = str(rng.choice([name for name, array in a.items() if array.dtype == np.float64]))
    a[name] = a[name] * rng.choice([0.0, -1.0, 0.5, 0.999, 1.001, 2.0])


def an_array_cut(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    name = str(rng.choice(list(a)))
    a[name] = a[name][: max(0, len(a[name]) - int(rng.integers(1, 4)))]


def an_array_permuted(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    name = str(rng.choice(list(a)))
    a[name] = rng.permutation(a[name])


def the_region(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    step = 10.0 ** rng.uniform(-9, 0)
    if rng.random() < 0.5:
        a["region_lower"], a["region_upper"] = a["region_lower"] - step, a["region_upper"] + step
    else:
        d["region"]["norm"] = str(rng.choice(["box", "l1", "l2"]))
        d["region"]["radius"] = None if d["region"]["norm"] == "box" else float(rng.choice([step, 0.3, 0.5]))


def the_model(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    key = str(rng.choice(["kernel", "likelihood", "variance", "noise", "squeeze", "sha256"]))
    d["model"][key] = {
        "kernel": str(rng.choice(["squared_exponential", "matern32", "matern52"])),
        "likelihood": str(rng.choice(["probit", "logistic", "softmax", "gaussian"])),
        "variance": number(float(d["model"].get("variance", 1.0)), rng),
        "noise": number(float(d["model"].get("noise", 0.0)), rng),
        "squeeze": float(rng.choice([0.0, 1e-3, 0.49])),
        "sha256": "0" * 64,
    }[key]


def the_origin(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    if d["origin"] is None:
        return
    key = str(rng.choice(["row", "outputs", "inputs", "inference", "content"]))
    d["origin"][key] = {
        "row": int(rng.integers(0, 40)),
        "outputs": ["yes", "no"],
        "inputs": ["height", "width"],
        "inference": str(rng.choice(["laplace", "ep", "exact", "sparse"])),
        "content": "0" * 64,
    }[key]


def no_witness(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    for claim in d["claims"]:
        claim["inner"] = None
    a["tree_witness"] = np.empty(0)


def the_sides_swapped(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    """Let every claim, or one, be of the other side."""
    for claim in d["claims"] if rng.random() < 0.5 else [d["claims"][int(rng.integers(len(d["claims"])))]]:
        claim["side"] = "minimum" if claim["side"] == "maximum" else "maximum"


def claims_moved(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    """Let every claim be what another one states, with its own tree."""
    d["claims"] = [d["claims"][int(place)] for place in rng.permutation(len(d["claims"]))]


def another_quantity(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    claim = d["claims"][int(rng.integers(len(d["claims"])))]
    if "level" in claim:
        claim["level"] = float(rng.choice([0.5, 0.05, 0.95, 0.4, 0.0, 1.5]))
    elif "leads" in claim:
        claim["leads"] = int(rng.integers(-1, 6))
    else:
        claim["class"], claim["rival"] = int(rng.integers(-1, 4)), [None, 0, 1, 2][int(rng.integers(4))]


def one_claim_dropped(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    """Drop one claim and its tree."""
    place = int(rng.integers(len(d["claims"])))
    if len(d["claims"]) < 2:
        return
    free = len(a["region_free"])
    sizes = [
        ("nodes", NODE_ARRAYS, [claim["nodes"] for claim in d["claims"]]),
        ("leaves", LEAF_ARRAYS, [claim["leaves"] for claim in d["claims"]]),
        ("witness", ("witness",), [0 if claim["inner"] is None else free for claim in d["claims"]]),
    ]
    for _, names, counts in sizes:
        start = sum(counts[:place])
        for name in names:
            a[f"tree_{name}"] = np.delete(a[f"tree_{name}"], np.s_[start : start + counts[place]])
    del d["claims"][place]


def a_key_dropped(d: dict[str, Any], a: dict[str, Array], rng: np.random.Generator) -> None:
    part = str(rng.choice(["model", "region", "claims", "search"]))
    if part == "claims":
        if len(d["claims"]) > 1:  # its tree is left
            del d["claims"][int(rng.integers(len(d["claims"])))]
    elif isinstance(d.get(part), dict) and d[part]:
        del d[part][str(rng.choice(list(d[part])))]


CHANGES = (
    *(
        a_claim,
        a_stronger_claim,
        a_stronger_claim,
        a_float,
        a_float,
        an_integer,
        an_integer,
        an_array_scaled,
        an_array_cut,
    ),
    *(an_array_permuted, the_region, the_model, the_origin, no_witness, the_sides_swapped, claims_moved),
    *(another_quantity, one_claim_dropped, a_key_dropped),
)


def identity(certificate: Certificate) -> tuple[Any, ...]:
    """What a certificate says it is about, when its dataset is given."""
    origin = certificate.origin
    assert origin is not None
    about = (origin.content, origin.row, origin.outputs, origin.inputs)
    return (*about, certificate.region.centre.tolist(), certificate.region.free.tolist())


def far(first: Model, second: Model) -> float:
    """Return the largest difference of two posteriors' parts; F counts by F' c F, as its rows may change places."""
    pair, parts = (first, second), []
    if len({(m.kernel, m.likelihood, m.squeeze, m.alpha.shape) for m in pair}) > 1:
        return np.inf
    for m in pair:
        root = m.root.reshape(len(m.root), -1)
        covariance = (root.T * m.weights) @ root
        parts.append((m.X, m.alpha, covariance, np.log(m.lengthscales), np.log(m.variance), m.noise))
    return max(float(np.abs(a - b).max()) for a, b in zip(*parts, strict=True))


def judge(path: Path, original: Certificate, dataset: Dataset, rng: np.random.Generator) -> str:
    """Return how a mutated file ended; raise if something false was confirmed."""
    description = read_envelope(path)
    code, lines = verify_certificate(path, description, dataset)
    assert code in (0, 1)
    if code == 1:
        return "refuted"
    mutant = read_certificate(path)
    assert is_true(mutant, rng), lines
    if mutant.origin is not None:
        assert any(line.startswith("(c)") and "\tconfirmed" in line for line in lines)
        assert identity(mutant) == identity(original)
        if any(line.startswith("(b)") and "\tconfirmed" in line for line in lines):
            assert far(mutant.model, original.model) < 1e-3
    return "confirmed"


def study(family: str, seed: int, count: int, folder: Path) -> Counter[str]:
    rng, found = np.random.default_rng(seed), Counter[str]()
    for _ in range(count):
        original, dataset = originals(family)[int(rng.integers(len(originals(family))))]
        description, arrays, _ = mutate(*pack(original), rng)
        started = time.process_time()
        try:
            path = write_packed(description, arrays, folder / "mutant")[0]
        except ValueError as error:  # a number that JSON cannot hold
            assert "JSON" in str(error), error
            found["unusable"] += 1
            continue
        try:
            found[judge(path, original, dataset, rng)] += 1
        except UnusableFileError:
            found["unusable"] += 1
        assert time.process_time() - started < 10
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_the_originals_are_confirmed_and_true_and_the_oracle_knows_false_claims(family: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for original, dataset in originals(family):
        path = write_packed(*pack(original), tmp_path / "original")[0]
        assert judge(path, original, dataset, rng) == "confirmed"
        for index, claim in enumerate(original.claims):
            if claim.inner is None:
                least = float(values_of(original.model, claim.quantity, points_of(original, rng)).min())
                assert not is_true(with_claim(original, index, outer=least + 1e-3), rng)
                continue
            size = 1e-6 * (1 + abs(claim.inner))
            for change in ({"outer": claim.inner - claim.sign * size}, {"inner": claim.inner + claim.sign * size}):
                assert not is_true(with_claim(original, index, **change), rng)


@pytest.mark.parametrize(
    ("family", "count", "least"), [(FAMILIES[0], 60, 1), (FAMILIES[1], 200, 8), (FAMILIES[2], 250, 8)]
)
def test_no_mutant_of_some_is_confirmed_beyond_the_truth(tmp_path: Path, family: str, count: int, least: int) -> None:
    found = study(family, 12345, count, tmp_path)
    assert min(found.values()) >= least and len(found) == 3


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize(("family", "part"), [(family, part) for family in FAMILIES for part in range(PARTS[family])])
def test_no_mutant_of_15_000_is_confirmed_beyond_the_truth(tmp_path: Path, family: str, part: int) -> None:
    found = study(family, part, 500, tmp_path)
    assert sum(found.values()) == 500 and found["confirmed"] >= 10
    print(json.dumps(found))
