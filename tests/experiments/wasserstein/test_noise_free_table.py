"""A target that is a function of the inputs: nothing to temper, which is an outcome and no failure."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from gpsuite.cli import dispatch


def test_a_target_without_noise_is_infeasible_not_failed(tmp_path: Path) -> None:
    table = tmp_path / "exact.csv"
    table.write_text("a,b,y\n" + "".join(f"{row % 3},{row % 2},{row % 3}\n" for row in range(60)))
    words = ["experiment=wasserstein/regression", "scale=smoke", "dataset=csv", f"dataset.path={table}"]
    words += ["dataset.target=y", "dataset.task=regression", "method=exact_gp", f"results_dir={tmp_path}"]
    assert dispatch(["run", *words, "parallel=serial", "output=quiet"]) in (0, 3)
    (folder,) = (tmp_path / "wasserstein" / "regression").iterdir()
    records = pd.read_csv(folder / "records.csv")
    exact = records[records["status"] == "infeasible"]
    assert len(exact) > 0
    assert exact["reason"].str.contains("without noise").all()
