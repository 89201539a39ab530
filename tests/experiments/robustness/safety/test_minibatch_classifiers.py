"""GWI and SVGP through robustness/safety: their Gaussian posteriors are certified as any other."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.experiments.base import EXPERIMENTS
from tests.experiments.robustness.safety_runs import gpsuite, run

# what takes no time, and learns enough of an embedded dataset
SHORT = ("method.epochs=25", "method.prior_evaluations=2", "method.learning_rate=0.1", "method.batch=50")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def levels(capsys: pytest.CaptureFixture[str], path: Path, dataset: str) -> list[str]:
    """Return what `gpsuite verify` says of the three levels."""
    capsys.readouterr()
    assert gpsuite("verify", str(path), dataset) == 0
    return [line.split("\t")[1].split(":")[0] for line in capsys.readouterr().out.splitlines()[1:4]]


@pytest.mark.parametrize(("method", "least", "most"), [("laplace", 15.0, 17.0), ("svgp_classifier", 3.5, 4.5)])
def test_a_sparse_classifier_is_estimated_by_its_inducing_inputs(method: str, least: float, most: float) -> None:
    def seconds(rows: int) -> float:
        words = ("experiment=robustness/safety", "dataset=digits", f"method={method}", "classes=[3,8]", "count=2")
        request, _ = read_request([*words, f"train_rows={rows}", "test_rows=20"])
        return sum(task.cost for task in EXPERIMENTS.get(request.experiment).plan(request))

    assert least <= seconds(320) / seconds(80) <= most


@pytest.mark.parametrize("method", ["gwi_classifier", pytest.param("svgp_classifier", marks=pytest.mark.slow)])
def test_two_classes_are_certified(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("dataset=breast_cancer", f"method={method}", "count=1", "radius=0.1", "method.inducing=1")
    folder = run("safety", *words, *SHORT)
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert table["verdict"].tolist() == ["safe"] and table["correct"].all()
    assert (table["certified_min"] <= table["min_attained"]).all() and table["certificate_decides"].all()
    found = levels(capsys, folder / "certificates" / f"{method}_point_0.npz", "dataset=breast_cancer")
    assert found == ["confirmed", "not checked", "confirmed"]


THREE = ("dataset=digits", "classes=[0,1,2]", "count=1", "radius=0.05", "train_rows=60")


def test_three_classes_are_certified_by_the_softmax(capsys: pytest.CaptureFixture[str]) -> None:
    folder = run("safety", *THREE, "method=svgp_classifier", *SHORT)
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert table["verdict"].tolist() == ["safe"] and table["correct"].all()
    found = levels(capsys, folder / "certificates" / "svgp_classifier_point_0.npz", "dataset=digits")
    assert found == ["confirmed", "not checked", "confirmed"]


@pytest.mark.slow
def test_three_classes_are_judged_by_the_robust_maximum(capsys: pytest.CaptureFixture[str]) -> None:
    folder = run("safety", *THREE, "method=gwi_classifier", *SHORT)
    assert "has no bound of the robust maximum" in capsys.readouterr().err
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert table["verdict"].tolist() == ["safe"]
    assert (table["min_proved"] <= table["probability"]).all()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("model=matern32",), "has the squared exponential only. Use model=se or model=se_ard"),
        (("dataset=digits", "classes=[0,1,2,3,4,5,6,7,8,9]", "train_rows=14"), "Take more"),
    ],
)
def test_mistakes_exit_2(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("run", "experiment=robustness/safety", "scale=smoke", "method=svgp_classifier", *words)
    assert gpsuite(*command) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) <= 4
