"""Certificates that `gpsuite verify` would refuse for their size are not written; the user is told why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from gpsuite.experiments.robustness import records
from gpsuite.experiments.robustness.records import FOR_TREES, too_large
from gpsuite.untrusted import LARGEST_ARRAYS
from tests.experiments.robustness.safety_runs import run


def posterior(rows: int, n_classes: int) -> list[npt.NDArray[np.float64]]:
    """Arrays of the size of a posterior of 10 inputs, without the memory."""
    M = rows * n_classes
    return [np.broadcast_to(0.0, shape) for shape in ((M, M), (M,), (rows, 10))]


@pytest.mark.parametrize("n_classes", [1, 3])
def test_the_rows_that_are_advised_fit_and_the_posterior_that_does_not_is_described(n_classes: int) -> None:
    rows = 6000 // n_classes
    fault = too_large(posterior(rows, n_classes), n_classes)
    assert f"{rows} rows takes 27" in fault and ("3 classes" in fault) == (n_classes == 3)
    advised = int(fault.partition("train_rows=")[2].partition(",")[0])
    arrays = posterior(advised, n_classes)
    assert not too_large(arrays, n_classes)
    assert 0.85 * LARGEST_ARRAYS - FOR_TREES < sum(array.nbytes for array in arrays) < LARGEST_ARRAYS - FOR_TREES


@pytest.mark.parametrize(
    ("experiment", "words"),
    [
        ("safety", ["dataset=digits", "classes=[3,8]", "method=laplace"]),
        ("safety", ["dataset=digits", "classes=[3,5,8]", "method=laplace"]),
        ("regression", ["dataset=csv", "dataset.path=my.csv", "dataset.target=y"]),
    ],
)
def test_no_certificate_is_written_that_verify_refuses(
    experiment: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((90, 2))
    pd.DataFrame(X, columns=["a", "b"]).assign(y=X[:, 0]).to_csv("my.csv", index=False)
    monkeypatch.setattr(records, "LARGEST_ARRAYS", 100)
    monkeypatch.setattr(records, "FOR_TREES", 40)
    folder = run(experiment, *words, "count=1", "boxes=5")
    assert "no certificate: the posterior of" in capsys.readouterr().err
    assert not list((folder / "certificates").glob("*.npz"))
