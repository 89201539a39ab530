"""The certificates of a run: `gpsuite verify RUN` confirms them on the run's table, and refutes what was changed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.arrays import IntArray
from gpsuite.certificates.certificate import read_certificate
from gpsuite.certificates.envelope import write_packed
from gpsuite.certificates.risk import StatedRows, read
from gpsuite.certificates.risk_verification import _numbered_rows, verify_certificate
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.untrusted import UnusableFileError
from tests.experiments.robustness.safety_runs import gpsuite

RUN = ("run", "experiment=guarantee", "scale=smoke", "parallel=serial", "dataset=csv", "dataset.path=t.csv")


def write_table(folder: Path, task: str) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 2))
    y = 50.0 + 9.0 * X[:, 0] + rng.normal(size=60)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "who": np.arange(60) // 2})
    frame["y"] = y if task == "regression" else np.where(y > 50.0, "high", "low")
    frame.to_csv(folder / "t.csv", index=False)
    pd.DataFrame({"a": [0.0, 0.5, 1.0], "b": [0.0, 0.1, 0.2]}).to_csv(folder / "new.csv", index=False)


@pytest.mark.parametrize(
    ("task", "words", "names"),
    [
        ("regression", ("accuracy=6", "dataset.ignore=who"), {"risk", "row_1", "row_2"}),
        ("regression", ("accuracy=6", "dataset.group=who"), {"risk", "row_1", "row_2"}),
        ("classification", ("dataset.ignore=who",), {"error_rate", "row_1", "row_2"}),
    ],
)
def test_the_certificates_of_a_run_are_confirmed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    task: str,
    words: Any,
    names: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, task)
    new = ("dataset.new=new.csv", "dataset.target=y", "run_name=r")
    assert gpsuite(*RUN, *new, *words) == 0
    folder = Path("results/guarantee/smoke~r")
    assert {path.stem for path in (folder / "certificates").glob("*.npz")} == names
    assert f"  gpsuite verify '{folder}'" in capsys.readouterr().out.splitlines()
    assert gpsuite("verify", str(folder)) == 0
    said = capsys.readouterr().out
    assert said.count("\tconfirmed\t") + said.count("\tconfirmed\n") == len(names)
    if task == "regression":
        bound = pd.read_csv(folder / "tables/guarantee.csv").set_index("error, kept model")
        proved = float(said.split("its mean prediction, as one predictor: at most ")[1].split()[0])
        assert proved == pytest.approx(
            bound["PAC-Bayes bound, kept model"].loc[bound.index[bound.index >= 6 - 1e-9][0]]
        )
    for path in sorted((folder / "certificates").glob("*.npz")):
        assert gpsuite("verify", str(path), "dataset.path=t.csv", *words[-1:]) == 2
        told = capsys.readouterr().err.splitlines()
        assert told[0].startswith("gpsuite: dataset.target: ") and "target=:" not in told[0]
        corrected = shlex.split(told[-1])
        assert corrected == ["gpsuite", "verify", str(path), "dataset.path=t.csv", *words[-1:], "dataset.target=y"]
        assert gpsuite(*corrected[1:]) == 0
    capsys.readouterr()
    assert gpsuite("verify", str(folder / "certificates" / min(names - {"row_1", "row_2"}))) == 2
    whole = "dataset.target=" + ("y" if task == "regression" else "COLUMN")
    assert capsys.readouterr().err.endswith(f"add dataset.path=FILE.csv {whole}\n")
    pd.read_csv("t.csv").head(59).to_csv("t.csv", index=False)
    assert gpsuite("verify", str(folder)) != 0


def test_a_damaged_certificate_does_not_end_the_check_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, "regression")
    new = ("dataset.new=new.csv", "dataset.target=y", "run_name=r", "dataset.ignore=who", "accuracy=6")
    assert gpsuite(*RUN, *new) == 0
    folder = Path("results/guarantee/smoke~r")
    damaged = folder / "certificates" / "row_1.npz"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    capsys.readouterr()
    assert gpsuite("verify", str(folder)) == 2
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{damaged}\tnot usable: ") for line in lines)
    assert f"{folder / 'certificates' / 'row_2.npz'}\tconfirmed" in lines
    assert lines[-1] == "3 certificates\t2 confirmed, 1 not usable"
    assert gpsuite("verify", str(folder), "format=json") == 2
    answers = json.loads(capsys.readouterr().out)["certificates"]
    assert [answer["verdict"] for answer in answers] == ["confirmed", None, "confirmed"]
    Path("t.csv").rename("moved.csv")
    assert gpsuite("verify", str(folder)) == 2
    assert "if the run's table is elsewhere now, add dataset.path=FILE" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_row_of_the_table_is_not_called_none_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path, task)
    assert gpsuite(*RUN, "dataset.target=y", "run_name=r", "dataset.ignore=who") == 0
    path = Path("results/guarantee/smoke~r/certificates/row_1.npz")
    found = read_certificate(path)
    assert found.origin is not None
    centre = found.region.centre * found.origin.scale + found.origin.offset
    table = pd.read_csv("t.csv")[["a", "b"]].to_numpy()
    assert np.abs(table - centre).max(axis=1).min() < 1e-12
    capsys.readouterr()
    assert gpsuite("verify", str(path)) == 0
    assert "point\tthe middle of the region. No row number is stated\n" in capsys.readouterr().out


def risk_of_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, Any], dict[str, Any], Any]:
    monkeypatch.chdir(folder)
    write_table(folder, "regression")
    assert gpsuite(*RUN, "dataset.target=y", "run_name=r", "accuracy=6", "dataset.ignore=who") == 0
    path = Path("results/guarantee/smoke~r/certificates/risk")
    arrays = dict(np.load(path.with_suffix(".npz")))
    spec = CsvSpec(path="t.csv", target="y", task="regression", ignore="who")
    return path, json.loads(path.with_suffix(".json").read_text()), arrays, load(prepare(spec, cache_dir=folder))


def test_a_changed_certificate_of_stated_rows_is_refuted_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plain, arrays, data = risk_of_run(tmp_path, monkeypatch)

    def checked(description: dict[str, Any], changed: dict[str, Any]) -> tuple[int, list[str]]:
        write_packed(description, changed, tmp_path / "x")
        return verify_certificate(tmp_path / "x", json.loads((tmp_path / "x.json").read_text()), data)

    code, said = checked(plain, arrays)
    assert code == 0 and "No target decided which rows are learned from" in said[-1]
    better = json.loads(json.dumps(plain))
    better["claim"]["bounds"]["kl"] *= 0.9
    assert checked(better, arrays)[0] == 1
    fewer = {**arrays, "learned_rows": arrays["learned_rows"][1:]}
    assert checked(plain, fewer)[0] == 1
    assert checked(plain, {**arrays, "input_lengthscales": arrays["input_lengthscales"] * 2.0})[0] == 1
    shared = np.append(arrays["scaling_rows"], arrays["learned_rows"][0])
    for name, rows in (
        ("scaling_rows", shared),
        ("learned_rows", np.append(arrays["learned_rows"], arrays["learned_rows"][0])),
        ("learned_rows", np.append(arrays["learned_rows"], 60)),
        ("learned_rows", np.append(arrays["learned_rows"], -1)),
        ("learned_rows", arrays["learned_rows"][:5]),
        ("input_lengthscales", np.array([1.0])),
        ("input_lengthscales", -arrays["input_lengthscales"]),
    ):
        with pytest.raises(UnusableFileError):
            checked(plain, {**arrays, name: rows})
    assert read(path, plain).stated is not None


@pytest.mark.parametrize("column", ["group", "copies"])
def test_rows_that_belong_to_those_that_scale_are_no_draws(tmp_path: Path, column: str) -> None:
    frame = pd.DataFrame({"a": np.arange(40.0) % 20, "who": np.arange(40) % 20, "y": np.arange(40.0) % 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    group, ignored = ("who", None) if column == "group" else (None, "who")
    spec = CsvSpec(path=str(tmp_path / "t.csv"), target="y", task="regression", group=group, ignore=ignored)
    data = load(prepare(spec, cache_dir=tmp_path))
    apart, shared = (StatedRows(learned, np.array([5, 25]), np.ones(1)) for learned in _learned())
    found = _numbered_rows(tmp_path, apart, data)
    assert found[3] is not None and len(found[3].places) == 19
    with pytest.raises(UnusableFileError, match="chose the scale"):
        _numbered_rows(tmp_path, StatedRows(shared.learned, np.array([5]), np.ones(1)), data)


def _learned() -> tuple[IntArray, IntArray]:
    rows = np.setdiff1d(np.arange(40), [5, 25])
    return rows, np.append(rows, 25)
