"""Points whose category takes every level, and tasks that know of categories."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.experiments.robustness.classifiers import Problem
from gpsuite.experiments.robustness.inputs import describe, levels_of, switched, version_with


def test_every_level_in_turn_is_a_row_that_could_be(tmp_path: Path) -> None:
    lines = ["color,dose,sex,label"]
    lines += [f"{c},{k / 7},{s},{k % 2}" for k, c, s in zip(range(40), "rgb" * 14, "fmfm" * 10, strict=False)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    spec = CsvSpec(path=str(tmp_path / "t.csv"), target="label", task="classification")
    data = load(prepare(spec, cache_dir=tmp_path))
    assert data.level_inputs == {"color=b", "color=g", "color=r", "sex=m"}
    offset, scale = data.X.mean(axis=0), data.X.std(axis=0)
    none = np.empty(0, dtype=np.int64)
    scaled = (data.X - offset) / scale
    problem = Problem(
        scaled, data.y[:, 0], scaled, data.y[:, 0], none, none, -np.ones(5), np.ones(5), data.input_names, ("0", "1"),
        offset, scale, data.level_inputs,
    )  # fmt: skip
    assert [data.input_names[place] for place in problem.numbers] == ["dose"]
    points = switched(problem, data, scaled[4]) * scale + offset
    names = list(data.input_names)
    assert levels_of(data) == [("color", "b"), ("color", "g"), ("color", "r"), ("sex", "f"), ("sex", "m")]
    for (name, level), point in zip(levels_of(data), points, strict=True):
        expected = data.X[4].copy()
        for place, each in enumerate(names):
            if each.startswith(f"{name}="):
                expected[place] = float(each == f"{name}={level}")
        np.testing.assert_allclose(point, expected, atol=1e-12)


def test_a_table_with_categories_has_tasks_of_another_version(tmp_path: Path) -> None:
    versions = []
    for column in ("1.5,2.5", "a,b"):
        first, second = column.split(",")
        rows = "".join(f"{k},{first if k % 2 else second},{k % 3 % 2}\n" for k in range(30))
        (tmp_path / "t.csv").write_text("x,z,y\n" + rows, encoding="utf-8")
        spec = CsvSpec(path=str(tmp_path / "t.csv"), target="y", task="classification")
        versions.append(version_with(load(prepare(spec, cache_dir=tmp_path)), 5))
    assert versions[0] == 5 != versions[1]


def test_one_input_is_called_one() -> None:
    assert describe("shortest3", 1) == "the 1 input of shortest lengthscale"
    assert describe("shortest3", 2) == "the 2 inputs of shortest lengthscale"
