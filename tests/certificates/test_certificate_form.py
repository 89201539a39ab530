"""What is not a certificate is refused before any work, with the fault."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import pytest

from gpsuite.certificates.certificate import Certificate
from gpsuite.certificates.checker import check_certificate
from gpsuite.certificates.form import MalformedError, check_form, most_nodes
from tests.methods.robustness.certified_point import certified, changed, small_certificate, with_claim


def replaced(part: str, **changes: Any) -> Certificate:
    certificate = certified(norm="l2", radius=0.25)[3] if part == "ball" else small_certificate()
    name = "region" if part == "ball" else part
    return dataclasses.replace(certificate, **{name: dataclasses.replace(getattr(certificate, name), **changes)})


MODEL = small_certificate().model
REGION = small_certificate().region

FAULTS: list[tuple[str, str, dict[str, Any]]] = [
    ("region misses its centre", "region", {"centre": np.array([5.0, 0.1])}),
    ("region misses its centre", "region", {"upper": REGION.centre - 1e-9}),
    ("region misses its centre", "region", {"lower": REGION.centre + 1e-9}),
    ("region is empty", "region", {"upper": REGION.lower - 1.0}),
    ("region is empty", "region", {"lower": REGION.upper, "upper": REGION.lower}),
    ("region: a number", "region", {"upper": np.array([np.inf, 1.0])}),
    ("region: a number", "region", {"lower": np.array([np.nan, 1.0])}),
    ("does not fit", "region", {"centre": np.zeros(3)}),
    ("does not fit", "region", {"free": np.zeros(0, dtype=int), "lower": np.zeros(0), "upper": np.zeros(0)}),
    ("does not fit", "region", {"lower": np.zeros(1)}),
    ("do not exist", "region", {"free": np.array([0, 2])}),
    ("do not exist", "region", {"free": np.array([-1, 0])}),
    ("do not exist", "region", {"free": np.array([1, 0])}),
    ("do not exist", "region", {"free": np.array([0, 0])}),
    ("do not exist", "region", {"free": np.array([0, 1, 1]), "lower": np.zeros(3), "upper": np.ones(3)}),
    ("box without radius", "region", {"norm": "l2"}),  # a ball with radius null
    ("box without radius", "region", {"norm": "l1"}),
    ("box without radius", "region", {"radius": 0.5}),
    ("box without radius", "ball", {"norm": "box"}),
    ("box without radius", "ball", {"norm": "linf"}),
    ("box without radius", "ball", {"radius": -0.1}),
    ("box without radius", "ball", {"radius": np.nan}),
    ("box without radius", "ball", {"radius": 1e300}),
    ("do not fit together", "model", {"X": np.zeros((0, 2))}),
    ("do not fit together", "model", {"X": np.zeros((0, 2)), "alpha": np.zeros((1, 0)), "root": MODEL.root[:, :, :0]}),
    ("do not fit together", "model", {"X": np.zeros((30, 0))}),
    ("do not fit together", "model", {"X": MODEL.X[:-1]}),
    ("do not fit together", "model", {"lengthscales": np.ones(3)}),
    ("do not fit together", "model", {"alpha": MODEL.alpha[:, 1:]}),
    ("do not fit together", "model", {"weights": MODEL.weights[1:]}),
    ("do not fit together", "model", {"root": MODEL.root[:, :, 1:]}),
    ("model: a number", "model", {"weights": changed(MODEL.weights, 0, 1e300)}),
    ("model: a number", "model", {"alpha": changed(MODEL.alpha, (0, 0), -1e300)}),
    ("model: a number", "model", {"X": changed(MODEL.X, (0, 0), np.inf)}),
    ("model: a number", "model", {"root": changed(MODEL.root, (0, 0, 0), np.nan)}),
    ("model: a number", "model", {"variance": 1e300}),
    ("must be positive", "model", {"variance": 0.0}),
    ("must be positive", "model", {"variance": -1.0}),
    ("must be positive", "model", {"lengthscales": np.array([1.0, 0.0])}),
    ("must be positive", "model", {"lengthscales": np.array([1.0, 1e-300])}),
    ("squeeze belongs", "model", {"squeeze": 0.5}),
    ("squeeze belongs", "model", {"squeeze": -0.1}),
    ("noise belongs", "model", {"noise": 0.1}),
    ("unknown kernel", "model", {"kernel": "linear"}),
    ("unknown kernel", "model", {"likelihood": "cauchit"}),
    ("origin's arrays", "origin", {"targets": np.ones(3)}),
    ("origin's arrays", "origin", {"rows": np.arange(29)}),
    ("origin's arrays", "origin", {"sites": np.zeros((2, 30))}),
    ("origin's arrays", "origin", {"inference": "ep"}),
    ("origin's arrays", "origin", {"offset": np.zeros(1)}),
    ("origin's arrays", "origin", {"scale": np.ones(1)}),
    ("origin's arrays", "origin", {"inputs": ("one",)}),
    ("an inference", "origin", {"inference": "guess"}),
    ("labels are", "origin", {"targets": np.full(30, 2.0)}),
    ("labels are", "origin", {"targets": np.full(30, -1.0)}),
    ("arrays do not fit", "origin", {"outputs": ("a", "b", "c")}),
    ("labels have", "origin", {"target_scale": 2.0}),
    ("rows are", "origin", {"rows": np.arange(30) - 1}),
    ("rows are", "origin", {"row": -2}),
    ("rows are", "origin", {"row": 10**400}),
    ("scales must", "origin", {"scale": np.array([1.0, 0.0])}),
    ("scales must", "origin", {"scale": np.array([1.0, -1.0])}),
    ("origin: a number", "origin", {"offset": np.array([np.inf, 0.0])}),
]


@pytest.mark.parametrize(("words", "part", "changes"), FAULTS)
def test_what_does_not_fit_is_refused(words: str, part: str, changes: dict[str, Any]) -> None:
    check_form(replaced(part))
    with pytest.raises(MalformedError, match=words):
        check_certificate(replaced(part, **changes))


def test_a_ball_without_radius_is_the_point_alone_and_no_fault() -> None:
    check_form(replaced("ball", radius=0.0))


CLAIM = small_certificate().claims[1]
CLAIMS: list[tuple[str, dict[str, Any]]] = [
    ("incomplete", {"leaf_bound": CLAIM.leaf_bound[1:]}),
    ("incomplete", {"leaf_proved": CLAIM.leaf_proved[1:]}),
    ("incomplete", {"leaf_threshold": CLAIM.leaf_threshold[1:]}),
    ("incomplete", {"parent": np.zeros(0, dtype=int)}),
    ("leaves listed", {"leaf": changed(CLAIM.leaf, 0, 0)}),
    ("leaves listed", {"leaf": changed(CLAIM.leaf, 0, -1)}),
    ("does not exist", {"leaf_proved": changed(CLAIM.leaf_proved, 0, -1)}),
    ("does not exist", {"leaf_proved": changed(CLAIM.leaf_proved, 0, len(CLAIM.parent))}),
    ("not a probability", {"outer": 1.5}),
    ("not a probability", {"outer": -0.1}),
    ("not a probability", {"witness": None}),
    ("not a probability", {"inner": None}),
    ("witness", {"inner": 1.5}),
    ("witness", {"witness": np.zeros(3)}),
    ("witness", {"witness": np.array([np.nan, 0.0])}),
]


@pytest.mark.parametrize(("words", "changes"), CLAIMS)
def test_claims_that_are_none_are_refused(words: str, changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedError, match=words):
        check_certificate(with_claim(small_certificate(), 1, **changes))


@pytest.mark.parametrize("inputs", [1, 2, 784])
def test_a_tree_that_fills_the_memory_is_refused_at_once(inputs: int) -> None:
    nodes = most_nodes(inputs)
    assert nodes <= 1 << 18 and nodes * inputs <= 1 << 23
    assert nodes >= 10_000
    if inputs > 2:
        return
    parent = np.repeat(np.arange(-1, nodes // 2 + 1), 2)[1:]
    huge = with_claim(small_certificate(), 0, parent=parent, dim=parent, cut=np.zeros(len(parent)))
    started = time.process_time()
    with pytest.raises(MalformedError, match="too large"):
        check_form(huge)
    assert time.process_time() - started < 0.5
