from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpsuite.methods.robustness.certificate import write_certificate
from tests.commands.conftest import Gpsuite
from tests.methods.robustness.certified_point import small_certificate
from tests.methods.robustness.test_certificate import DAMAGES, damage


@pytest.fixture
def certificate(workplace: Path) -> Path:
    return write_certificate(small_certificate(), workplace / "point")[0]


@pytest.mark.parametrize("name", ["point.npz", "point.json", "point"])
def test_a_true_certificate_is_confirmed(gpsuite: Gpsuite, certificate: Path, name: str) -> None:
    ended = gpsuite("verify", name)
    assert (ended.code, ended.err) == (0, "")
    first, low, high = ended.out.splitlines()
    assert "confirmed" in first
    assert low.startswith("minimum\tno class probability") and high.startswith(
        "maximum\tno class probability"
    )


def test_a_changed_claim_is_refuted_with_the_reason(gpsuite: Gpsuite, certificate: Path) -> None:
    other = certificate.with_suffix(".json")
    description = json.loads(other.read_text())
    description["claims"]["maximum"]["outer"] -= 0.01
    other.write_text(json.dumps(description))
    ended = gpsuite("verify", "point.npz")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.splitlines()[0] == "point.npz\trefuted"
    assert "maximum: the leaves prove" in ended.out


@pytest.mark.parametrize("how", DAMAGES)
def test_an_unusable_file_is_the_users_mistake(gpsuite: Gpsuite, certificate: Path, how: str) -> None:
    damage(certificate, how)
    ended = gpsuite("verify", "point.npz")
    assert (ended.code, ended.out) == (2, "")
    assert len(ended.err.splitlines()) == 1
    assert "point." in ended.err


@pytest.mark.parametrize("words", [[], ["a", "b"], ["--fast"], ["nowhere.npz"], ["."]])
def test_wrong_words(gpsuite: Gpsuite, words: list[str]) -> None:
    ended = gpsuite("verify", *words)
    assert ended.code == 2
    assert len(ended.err.splitlines()) == 1
