"""Variational certificates through the command: all three levels, and two faults that only the second level sees."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from gpsuite.certificates.certificate import write_certificate
from gpsuite.certificates.model import model_hash
from gpsuite.certificates.verification import CONFIRMED, REFUTED, check_levels
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from tests.commands.conftest import Gpsuite
from tests.methods.robustness.certified_point import changed, its_dataset
from tests.methods.robustness.variational_problems import INDUCING, KINDS, certificate


@pytest.mark.parametrize("kind", KINDS)
def test_a_variational_certificate_is_verified_on_the_command_line(
    kind: str, gpsuite: Gpsuite, workplace: Path
) -> None:
    rows = its_dataset()
    lines = ["width,height,label"]
    lines += [
        f"{w!r},{h!r},{'yes' if label > 0 else 'no'}"
        for (w, h), label in zip(rows.X.tolist(), rows.y[:, 0], strict=True)
    ]
    (workplace / "my.csv").write_text("\n".join(lines) + "\n")
    words = ("dataset.path=my.csv", "dataset.target=label")
    spec = CsvSpec(path="my.csv", target="label")
    dataset = load(prepare(spec, cache_dir=Path("data"), default_task="classification"))
    found = certificate(kind)
    assert found.origin is not None
    known = dataclasses.replace(found.origin, content=dataset.content_hash)
    write_certificate(dataclasses.replace(found, origin=known), workplace / "point")
    told = gpsuite("verify", "point.npz", *words)
    assert (told.code, told.err) == (0, "")
    said = [line.split("\t") for line in told.out.splitlines()]
    assert [words[1].split(":")[0] for words in said[1:4]] == 3 * [CONFIRMED]
    values = f"{INDUCING} inducing inputs" if kind == "svgp" else "one value per row"
    assert f"variational posterior of the stored rows and labels, {values}, jitter 1e-06" in said[2][0]
    assert said[7][1].startswith("variational, kernel squared_exponential")


@pytest.mark.parametrize("kind", KINDS)
def test_an_altered_label_or_mean_is_refuted(kind: str, gpsuite: Gpsuite, workplace: Path) -> None:
    whole = certificate(kind)
    assert whole.origin is not None
    assert [level.outcome for level in check_levels(whole, None)][:2] == [CONFIRMED, CONFIRMED]
    labels = dataclasses.replace(whole.origin, targets=changed(whole.origin.targets, 3, 1 - whole.origin.targets[3]))
    assert check_levels(dataclasses.replace(whole, origin=labels), None)[1].outcome == REFUTED
    # a mean moved a little where the claims are as loose as that: only the second level can tell
    model = dataclasses.replace(whole.model, alpha=whole.model.alpha * (1 + 1e-5))
    claims = tuple(
        dataclasses.replace(
            claim,
            leaf_bound=claim.leaf_bound + claim.sign * 1e-3,
            outer=min(1.0, max(0.0, claim.outer + claim.sign * 1e-2)),
            inner=None,
            witness=None,
        )
        for claim in whole.claims
    )
    moved = dataclasses.replace(whole, model=model, model_hash=model_hash(model), claims=claims)
    write_certificate(moved, workplace / "moved")
    told = gpsuite("verify", "moved.npz")
    assert told.code == 1
    outcomes = [line.split("\t")[1].split(":")[0] for line in told.out.splitlines()[1:3]]
    assert outcomes == [CONFIRMED, REFUTED]
