"""Records of rows to predict: of another file, or of another seed, they are other records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.keys import task_key
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.experiments.guarantee.plan import learning_of


def keys(folder: Path, classes: bool, rows: list[float], *words: str) -> dict[str, str]:
    """Return the keys of a run's parts on 60 rows, with these rows to predict."""
    x = np.random.default_rng(0).normal(size=60)
    y = np.where(x > 0.0, "yes", "no") if classes else x
    pd.DataFrame({"a": x, "y": y}).to_csv(folder / "table.csv", index=False)
    pd.DataFrame({"a": rows}).to_csv(folder / "new.csv", index=False)
    table = ["dataset=csv", f"dataset.path={folder / 'table.csv'}", "dataset.target=y"]
    own = ["experiment=guarantee", *table, f"dataset.new={folder / 'new.csv'}", *words]
    request, _ = read_request(own)
    tasks = EXPERIMENTS.get("guarantee").plan(request)
    return {str(task.axes["part"]): task_key(task) for task in tasks if task.axes["part"] != "band"}


@pytest.mark.parametrize("classes", [False, True])
def test_other_rows_to_predict_are_another_record_and_other_seeds_all_others(tmp_path: Path, classes: bool) -> None:
    first, again = keys(tmp_path, classes, [0.5, 1.0]), keys(tmp_path, classes, [0.5, 1.0])
    assert first == again
    others = keys(tmp_path, classes, [0.5, 1.5])
    assert {part for part in first if others[part] != first[part]} == {"rows"}
    seeded = keys(tmp_path, classes, [0.5, 1.0], "seed=1")
    assert {part for part in first if seeded[part] != first[part]} == set(first)


@pytest.mark.parametrize(("rows", "share"), [(30, 0.33), (60, 0.33), (120, 0.25), (400, 0.1)])
def test_few_rows_do_not_decide_the_scale_of_a_small_table(tmp_path: Path, rows: int, share: float) -> None:
    x = np.random.default_rng(0).normal(size=rows)
    pd.DataFrame({"a": x, "y": x}).to_csv(tmp_path / "table.csv", index=False)
    table = ["dataset=csv", f"dataset.path={tmp_path / 'table.csv'}", "dataset.target=y"]
    for words, expected in (([], share), (["preparation=0.4"], 0.4)):
        request: Any = read_request(["experiment=guarantee", *table, *words])[0]
        assert learning_of(request).preparation == expected
