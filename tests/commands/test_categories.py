"""Categories of a table in robustness: they change from level to level, and no box of fractions holds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.commands.conftest import Gpsuite

CSV = ("dataset=csv", "dataset.path=t.csv", "dataset.target=label", "scale=smoke")


def write_table(target: str) -> None:
    rng = np.random.default_rng(5)
    color, dose = rng.choice(["red", "green", "blue"], 150), rng.normal(5.0, 2.0, 150).round(3)
    sex = rng.choice(["f", "m"], 150)
    score = 1.2 * (color == "red") - 1.2 * (color == "blue") + 0.35 * (dose - 5.0)
    value = score + rng.logistic(0.0, 0.3, 150)
    label = np.where(value > 0.0, "sick", "well") if target == "class" else value
    pd.DataFrame({"color": color, "sex": sex, "dose": dose, "label": label}).to_csv("t.csv", index=False)


def test_a_category_is_explained_by_its_levels(gpsuite: Gpsuite, workplace: Path) -> None:
    write_table("class")
    ended = gpsuite("run", "experiment=robustness/explain", "methods=[laplace]", *CSV, "run_name=r")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    moves = next(line for line in lines if line.startswith("The inputs that move"))
    assert "dose" in moves and "color" not in moves and "sex" not in moves
    levels = next(line for line in lines if line.startswith("Categories"))
    assert levels.index("color (") < levels.index("sex (")  # the stronger first
    tables = workplace / "results/robustness/explain/smoke~r/tables"
    assert set(pd.read_csv(tables / "explain.csv")["input"]) == {"dose"}
    changes = pd.read_csv(tables / "explain_categories.csv")
    points = pd.read_csv(tables / "explain_points.csv").set_index("point")
    data = pd.read_csv("t.csv")
    for (point, name), own in changes.groupby(["point", "category"]):
        row = data.iloc[int(points.loc[point, "row"])]
        assert set(own["from"]) == {row[name]}
        assert set(own["to"]) == set(data[name]) - {row[name]}
        reached = points.loc[point, "probability"] + own["change"]
        assert ((reached > 0.0) & (reached < 1.0)).all()
    # red makes ill: of the change to it the probability of the second class, well, falls
    assert (changes[changes["to"] == "red"]["change"] < -0.1).all()


@pytest.mark.parametrize("experiment", ["safety", "regression"])
def test_levels_stay_unless_they_are_named(gpsuite: Gpsuite, workplace: Path, experiment: str) -> None:
    write_table("class" if experiment == "safety" else "number")
    words = ("features=all", "methods=[laplace]") if experiment == "safety" else ()
    run = ("run", f"experiment=robustness/{experiment}", *CSV, *words)
    moved = {}
    for name, more in (("r", ()), ("s", ("uncertain=['color=red','dose']",))):
        assert gpsuite(*run, f"run_name={name}", *more).code == 0
        folder = workplace / f"results/robustness/{experiment}/smoke~{name}"
        moved[name] = (folder / f"tables/{experiment}.md").read_text().splitlines()[0]
        certificates = [path for path in folder.glob("certificates/*.npz") if "point" in path.name]
        told = gpsuite("verify", str(certificates[0]), *CSV[:3]).out if certificates else ""
        free = [line for line in told.splitlines() if line.startswith("free\t")]
        assert not told or ("color=red" in free[0]) is (name == "s"), told
    assert "color" not in moved["r"] and "color=red" in moved["s"]
    assert experiment == "regression" or "are numbers (categories stay)" in moved["r"]


@pytest.mark.parametrize("experiment", ["safety", "explain", "regression"])
def test_categories_alone_are_refused(gpsuite: Gpsuite, experiment: str) -> None:
    write_table("number" if experiment == "regression" else "class")
    pd.read_csv("t.csv").drop(columns="dose", errors="ignore").to_csv("t.csv", index=False)
    ended = gpsuite("run", f"experiment=robustness/{experiment}", *CSV)
    assert ended.code == 2
    assert "dataset.inputs" in ended.err and "level of a category" in ended.err


def test_guarantee_ranks_a_category_by_its_levels(gpsuite: Gpsuite, workplace: Path) -> None:
    write_table("class")
    words = ("dataset.task=classification", "run_name=r")
    ended = gpsuite("run", "experiment=guarantee", *CSV, *words)
    assert ended.code == 0, ended.err
    answer = (workplace / "results/guarantee/smoke~r/answer.md").read_text().splitlines()
    told = next(line for line in answer if line.startswith("- Decisive inputs"))
    assert "a category's change to this level" in told
    assert told.index("color=red") < told.index("dose")
    sizes = pd.read_csv(workplace / "results/guarantee/smoke~r/tables/inputs.csv").set_index("input")["mean size"]
    assert sizes["color=red"] > 2.0 * sizes["sex=m"] > 0.0


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_guarantee_proves_nothing_of_categories_that_are_a_little_off(
    gpsuite: Gpsuite, workplace: Path, task: str
) -> None:
    write_table("class" if task == "classification" else "number")
    words = ("run", "experiment=guarantee", *CSV, f"dataset.task={task}")
    told = []
    for name in ("r", "s"):
        ended = gpsuite(*words, f"run_name={name}")
        assert ended.code == 0, ended.err
        answer = (workplace / f"results/guarantee/smoke~{name}/answer.md").read_text()
        begin = ("- Proved", "- Certified: ", "- Not proved")
        told.append([line for line in answer.splitlines() if line.startswith(begin) and "off by" in line])
        assert ("Decisive inputs" in answer) is (task == "classification")
        columns = set(pd.read_csv(workplace / f"results/guarantee/smoke~{name}/predictions.csv").columns)
        assert any(name.startswith("proved_") for name in columns) == bool(told[-1])
        pd.read_csv("t.csv").drop(columns="dose", errors="ignore").to_csv("t.csv", index=False)
    assert told[0] and all("numbers off by" in line for line in told[0])
    assert not told[1]
