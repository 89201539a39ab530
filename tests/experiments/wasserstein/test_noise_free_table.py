"""Tables that leave nothing to temper, or nothing to train on: which is an outcome and no failure."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from gpsuite.cli import dispatch


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([f"{row},{row % 2},{int(row == 7)}" for row in range(60)], "without noise"),  # all but one row alike
        ([f"{row % 3},{row % 2},{row % 3}" for row in range(60)], "all others are copies of the"),
    ],
)
def test_what_cannot_be_learned_is_infeasible_not_failed(
    tmp_path: Path, rows: list[str], reason: str
) -> None:
    table = tmp_path / "exact.csv"
    table.write_text("\n".join(["a,b,y", *rows]) + "\n")
    words = ["experiment=wasserstein/regression", "scale=smoke", "dataset=csv", f"dataset.path={table}"]
    words += ["dataset.target=y", "dataset.task=regression", "method=exact_gp", f"results_dir={tmp_path}"]
    assert dispatch(["run", *words, "parallel=serial", "output=quiet", "used_folds=10", "folds=10"]) in (0, 3)
    (folder,) = (tmp_path / "wasserstein" / "regression").iterdir()
    records = pd.read_csv(folder / "records.csv")
    infeasible = records[records["status"] == "infeasible"]
    assert len(infeasible) > 0
    assert infeasible["reason"].str.contains(reason).all()
