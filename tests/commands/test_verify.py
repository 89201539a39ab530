from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.certificates.certificate import write_certificate
from gpsuite.certificates.model import model_hash
from gpsuite.commands import verify
from tests.arrays import Array
from tests.certificates.test_certificate import DAMAGES, fit_checksum
from tests.commands.conftest import Gpsuite
from tests.methods.robustness.certified_point import small_certificate


@pytest.fixture
def certificate(workplace: Path) -> Path:
    return write_certificate(small_certificate(), workplace / "point")[0]


@pytest.mark.parametrize("name", ["point.npz", "point.json", "point"])
def test_a_true_certificate_is_confirmed_and_described(gpsuite: Gpsuite, certificate: Path, name: str) -> None:
    ended = gpsuite("verify", name)
    assert (ended.code, ended.err) == (0, "")
    lines = [line.split("\t") for line in ended.out.splitlines()]
    assert lines[0] == [name, "confirmed"]
    assert [line[0][:4] for line in lines[1:4]] == ["(a) ", "(b) ", "(c) "]
    assert [line[1].split(":")[0] for line in lines[1:4]] == ["confirmed", "confirmed", "not checked"]
    assert "the names and units below are as stated; give dataset=NAME" in lines[3][1]
    names = ["dataset", "point", "classes", "model", "free", "region", "minimum", "maximum"]
    assert [line[0] for line in lines[4:]] == names
    assert lines[-1][1].startswith("no probability of yes in the region is above 0.")


def test_a_changed_claim_is_refuted_with_the_reason(gpsuite: Gpsuite, certificate: Path) -> None:
    edit(certificate, lambda found: found["claims"][1].update(outer=small_certificate().claims[1].outer - 0.01))
    ended = gpsuite("verify", "point.npz")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.splitlines()[0] == "point.npz\trefuted"
    assert "maximum: the leaves prove" in ended.out
    assert "maximum\tclaimed, not proved: no probability of yes" in ended.out


def test_a_zeroed_posterior_is_refuted_though_its_bound_may_hold(gpsuite: Gpsuite, workplace: Path) -> None:
    whole = small_certificate()
    model = dataclasses.replace(whole.model, alpha=0 * whole.model.alpha, root=0 * whole.model.root)
    claims = [
        dataclasses.replace(
            claim, outer=(claim.sign + 1) / 2, inner=None, witness=None, leaf_bound=np.inf * claim.sign + 0 * claim.leaf
        )
        for claim in whole.claims
    ]
    zero = dataclasses.replace(whole, model=model, model_hash=model_hash(model), claims=tuple(claims))
    write_certificate(zero, workplace / "zero")
    ended = gpsuite("verify", "zero")
    assert ended.code == 1
    assert "(a) the bound holds for the stored posterior\tconfirmed" in ended.out
    assert "(b) the stored posterior is the Laplace posterior of the stored rows and labels\trefuted" in ended.out


@pytest.mark.parametrize("how", DAMAGES)
def test_an_unusable_file_is_the_users_mistake(gpsuite: Gpsuite, certificate: Path, how: str) -> None:
    DAMAGES[how](certificate)
    refused(gpsuite)


def test_half_a_certificate_is_not_checked(gpsuite: Gpsuite, certificate: Path) -> None:
    certificate.with_suffix(".json").unlink()
    ended = gpsuite("verify", "point.npz")
    assert ended.code == 2
    assert "point.json is missing. A certificate is two files: ask the sender for this one too" in ended.err


def edit(npz: Path, change: Any) -> None:
    other = npz.with_suffix(".json")
    description = json.loads(other.read_text())
    change(description)
    other.write_text(json.dumps(description))
    fit_checksum(npz)


def put(npz: Path, name: str, change: Any) -> None:
    arrays = dict(np.load(npz))
    arrays[name] = change(arrays[name].copy())
    np.savez(npz, **arrays)
    fit_checksum(npz)


def at(place: Any, value: Any) -> Any:
    def change(array: Array) -> Array:
        array[place] = value
        return array

    return change


EDITS: dict[str, Any] = {
    "a ball without radius": lambda d: d["region"].update(norm="l1"),
    "a radius beyond floats": lambda d: d["region"].update(norm="l2", radius=10**400),
    "a probability beyond floats": lambda d: d["claims"][0].update(outer=10**400),
    "a variance of 1e300": lambda d: d["model"].update(variance=1e300),
    "a text for a number": lambda d: d["model"].update(variance="1"),
    "a list for a name": lambda d: d["model"].update(kernel=["squared_exponential"]),
    "no region": lambda d: d.pop("region"),
    "no origin": lambda d: d.pop("origin"),
    "null for the model": lambda d: d.update(model=None),
    "a third claim": lambda d: d["claims"].append({**d["claims"][0], "side": "median"}),
    "claims by side": lambda d: d.update(claims={"minimum": d["claims"][0]}),
    "claims that are words": lambda d: d.update(claims=["minimum"]),
    "one class": lambda d: d["origin"].update(outputs=["yes"]),
    "a row that is half": lambda d: d["origin"].update(row=0.5),
    "an unknown kind": lambda d: d.update(kind="astrology"),
    "a kind that is no name": lambda d: d.update(kind={"a": 1}),
    "the first format": lambda d: d.update(format="gpsuite-robustness-certificate", version=1),
    "an earlier version": lambda d: d.update(version=3),
    "arrays left over": lambda d: d["claims"].pop(),
}
PUTS: dict[str, tuple[str, Any]] = {
    "negative nodes": ("tree_leaf_proved", at(-1, -5)),
    "a cycle": ("tree_parent", at(slice(1, 3), 2)),
    "nodes out of range": ("tree_leaf", at(-1, 10**15)),
    "weights of 1e300": ("model_weights", at(0, 1e300)),
    "not a number": ("model_alpha", at(0, np.nan)),
    "an empty region": ("region_upper", at(0, -9.0)),
    "a region that misses its centre": ("region_centre", at(0, 9.0)),
    "no data": ("model_X", lambda array: array[:0]),
    "a wrong type": ("tree_cut", lambda array: array.astype(np.float32)),
}


@pytest.mark.parametrize("how", EDITS)
def test_a_description_that_cannot_be_is_refused(gpsuite: Gpsuite, certificate: Path, how: str) -> None:
    edit(certificate, EDITS[how])
    refused(gpsuite)


@pytest.mark.parametrize("how", PUTS)
def test_arrays_that_cannot_be_are_refused(gpsuite: Gpsuite, certificate: Path, how: str) -> None:
    put(certificate, *PUTS[how])
    refused(gpsuite)


def refused(gpsuite: Gpsuite) -> None:
    ended = gpsuite("verify", "point.npz")
    assert (ended.code, ended.out) == (2, "")
    assert 1 <= len(ended.err.splitlines()) <= 2
    assert "point." in ended.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "name one certificate"),
        (["--fast"], "--fast: a value is missing"),
        (["nowhere.npz"], "nowhere.npz is not there"),
        (["."], "no certificate in its folder"),
        (["point", "other"], "one certificate at a time"),
        (["point", "colour=red"], "unknown setting"),
        (["point", "dataset=digits", "dataset=digits"], "given twice"),
        (["point", "dataset=digitz"], "Did you mean 'digits'"),
        (["point", "dataset=digits", "dataset.path=a.csv"], "only dataset=csv has settings"),
        (["point", "dataset.path=nowhere.csv", "dataset.target=y"], "nowhere.csv"),
    ],
)
def test_wrong_words_are_refused(gpsuite: Gpsuite, certificate: Path, words: list[str], reason: str) -> None:
    ended = gpsuite("verify", *words)
    assert (ended.code, ended.out) == (2, "")
    assert reason in ended.err
    assert len(ended.err.splitlines()) <= 4


@pytest.mark.parametrize(
    "origin", [None, {}, [], {"outputs": 3}, {"outputs": []}, {"outputs": [4]}, {"outputs": None}, "outputs"]
)
def test_a_description_without_a_target_leaves_the_column_to_a_guess(
    gpsuite: Gpsuite, workplace: Path, origin: Any
) -> None:
    about = {"format": "gpsuite-certificate", "version": 4, "kind": "regression", "origin": origin}
    Path("x.json").write_text(json.dumps(about))
    Path("t.csv").write_text("a,y\n" + "".join(f"{k},{k * k}\n" for k in range(30)))
    ended = gpsuite("verify", "x", "dataset.path=t.csv")
    assert ended.code == 2
    assert ended.err.splitlines()[1:] == ["columns: a, y", "gpsuite verify x dataset.path=t.csv dataset.target=y"]


def test_a_path_may_hold_an_equals_sign(gpsuite: Gpsuite, workplace: Path) -> None:
    write_certificate(small_certificate(), workplace / "radius=0.5" / "point")
    assert gpsuite("verify", "radius=0.5/point.npz").code == 0


def test_another_kind_needs_one_entry(gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Other:
        @staticmethod
        def verify_certificate(
            path: Path, description: dict[str, Any], dataset: Any, minutes: float
        ) -> tuple[int, list[str]]:
            seen.append((path, description["answer"], dataset.task))
            return 1, ["one", "two"]

    monkeypatch.setitem(verify.KINDS, "other", verify.Kind("tests.other", "regression"))
    monkeypatch.setitem(sys.modules, "tests.other", Other)
    Path("x.json").write_text('{"format": "gpsuite-certificate", "version": 4, "kind": "other", "answer": 42}')
    Path("t.csv").write_text("a,y\n" + "".join(f"{k},{k * k}\n" for k in range(30)))
    ended = gpsuite("verify", "x", "dataset.path=t.csv", "dataset.target=y")
    assert (ended.code, ended.out, ended.err) == (1, "one\ntwo\n", "")
    assert seen == [(Path("x"), 42, "regression")]


def test_help_states_what_must_be_trusted(gpsuite: Gpsuite) -> None:
    said = gpsuite("verify", "--help").out
    for word in ("(a)", "(b)", "(c)", "1e-6", "numpy", "LAPACK", "80 bits", "Exit code 0"):
        assert word in said


@pytest.mark.slow
@pytest.mark.parametrize("how", ["nested", "pipe", "huge", "bomb", *EDITS, *PUTS])
def test_bad_files_take_two_seconds_and_half_a_gigabyte(certificate: Path, how: str) -> None:
    """In a process of its own, imports not counted in the time but in the memory."""
    npz, other = certificate, certificate.with_suffix(".json")
    if how == "nested":
        other.write_text("[" * 200_000)
    elif how == "pipe":
        other.unlink()
        subprocess.run(["mkfifo", str(other)], check=True)
    elif how == "huge":
        with npz.open("r+b") as stream:
            stream.truncate(10 << 30)
    elif how == "bomb":
        np.savez_compressed(npz, **dict(np.load(npz)) | {"model_root": np.zeros((10**7, 4))})
    elif how in EDITS:
        edit(npz, EDITS[how])
    else:
        put(npz, *PUTS[how])
    code = (
        "import sys, time\n"
        "from gpsuite.cli import main\n"
        "import gpsuite.commands.verify, gpsuite.certificates.verification\n"
        "sys.argv = ['gpsuite', 'verify', 'point']\n"
        "started = time.process_time()\n"
        "code = main()\n"
        # the peak of this process alone: getrusage's still counts the parent's from before exec
        "peak = next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1]\n"
        "print(code, time.process_time() - started, int(peak) / 1024)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=npz.parent, timeout=120, check=True
    )
    exit_code, seconds, megabytes = map(float, ended.stdout.split())
    assert "Traceback" not in ended.stderr
    assert exit_code == 2 and seconds < 2 and megabytes < 500
