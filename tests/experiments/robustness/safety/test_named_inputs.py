"""robustness/safety where the user names what may move, and how far in its own units."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite.certificates.certificate import read_certificate
from gpsuite.config.request import read_request
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.experiments.tasks import plain
from tests.experiments.robustness.safety_runs import gpsuite, run

TABLE = ("dataset=csv", "dataset.path=my.csv", "dataset.target=sick", "methods=[laplace]", "count=6")
NAMED = ('uncertain=["dose, mg",age]',)
AGE, DOSE = 3.0, 0.4


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, colour = rng.uniform(20.0, 80.0, 120), rng.choice(["red", "green", "blue"], 120)
    frame = pd.DataFrame({"age": age, "colour": colour, "dose, mg": rng.normal(5.0, 1.0, 120)})
    score = age + 4.0 * frame["dose, mg"] + 5.0 * (colour == "red") + rng.normal(0.0, 3.0, 120)
    frame["sick"] = np.where(score > 70.0, "yes", "no")
    frame["stage"] = np.digitize(score, [60.0, 85.0])
    frame.to_csv("my.csv", index=False)
    return frame


def points(folder: Path) -> pd.DataFrame:
    return pd.read_csv(folder / "tables" / "safety_points.csv")


def test_only_the_named_inputs_move_and_by_no_more_than_their_amounts(table: pd.DataFrame) -> None:
    folder = run("safety", *TABLE, "dataset.ignore=[stage]", *NAMED, f"within=[{DOSE},{AGE}]")
    found = points(folder)
    assert (found["chosen_by"] == "name").all() and (found["free_inputs"] == 2).all()
    assert set(found["verdict"]) == {"safe", "unsafe"}
    changes = pd.read_csv(folder / "tables" / "safety_changes.csv")
    assert set(changes["input"]) <= {"age", "dose, mg"}
    limits = changes["input"].map({"age": AGE, "dose, mg": DOSE})
    assert (changes["change"].abs() <= limits * (1.0 + 1e-12)).all() and len(changes)
    caption = (folder / "tables" / "safety.md").read_text()
    assert "box of ± 0.4, ± 3 (each in its units)" in caption and "free: the values of dose, mg, age." in caption
    assert "chosen by" not in caption


def test_ends_of_the_region_are_the_amounts_within_the_inputs_ranges(table: pd.DataFrame) -> None:
    folder = run("safety", *TABLE, "dataset.ignore=[stage]", *NAMED, f"within=[{DOSE},{AGE}]")
    for point, row in enumerate(points(folder)["row"]):
        path = folder / "certificates" / f"laplace_point_{point}.npz"
        certificate = read_certificate(path)
        region, origin = certificate.region, certificate.origin
        assert origin is not None and origin.inputs == ("age", "dose, mg")
        free = region.free
        ends = np.array([region.lower, region.upper]) * origin.scale[free] + origin.offset[free]
        centre = table.loc[row, ["age", "dose, mg"]].to_numpy(float)
        amounts, values = np.array([AGE, DOSE]), table[["age", "dose, mg"]]
        np.testing.assert_allclose(ends[0], np.maximum(centre - amounts, values.min()), rtol=1e-12)
        np.testing.assert_allclose(ends[1], np.minimum(centre + amounts, values.max()), rtol=1e-12)
        words = (str(path), "dataset.path=my.csv", "dataset.target=sick", "dataset.ignore=[stage]")
        assert gpsuite("verify", *words) == 0


def test_amounts_that_are_the_radius_give_the_same_ranges() -> None:
    by_radius = points(run("safety", *TABLE, "dataset.ignore=[stage]", *NAMED, "radius=0.3", "run_name=r"))
    problem_rows = read_request(["experiment=robustness/safety", "scale=smoke", *TABLE, "dataset.ignore=[stage]"])
    from gpsuite.experiments.robustness.classifiers import read_problem

    task = EXPERIMENTS.get("robustness/safety").plan(problem_rows[0])[0]
    problem = read_problem(task.require_dataset(), task.params.model)
    age, dose = (0.3 * problem.scale[problem.input_names.index(name)] for name in ("age", "dose, mg"))
    gpsuite("run", "experiment=robustness/safety", "scale=smoke", "parallel=serial", *TABLE, "dataset.ignore=[stage]",
            *NAMED, f"within=[{dose!r},{age!r}]", "run_name=w")  # fmt: skip
    by_amount = points(Path("results/robustness/safety/smoke~w"))
    for end in ("min_proved", "min_attained", "max_attained", "max_proved"):
        np.testing.assert_allclose(by_amount[end], by_radius[end], atol=1e-9)


def test_several_classes_and_balls_have_named_inputs_too() -> None:
    words = ("dataset.target=stage", "dataset.ignore=[sick]", "dataset.task=classification", *NAMED)
    folder = run("safety", *TABLE[:2], "methods=[laplace]", *words, "norm=l2", "radius=0.2", "count=2")
    found = points(folder)
    assert (found["free_inputs"] == 2).all() and (found["chosen_by"] == "name").all()


def test_a_task_without_names_has_the_key_that_it_had() -> None:
    task = EXPERIMENTS.get("robustness/safety").plan(read_request(["experiment=robustness/safety", "scale=smoke"])[0])[
        0
    ]
    assert not {"uncertain", "within"} & plain(task.params).keys()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["uncertain=[agee]"], "Did you mean 'age'"),
        (["within=[1.0]"], "one amount per input of uncertain=[]"),
        (["uncertain=[age]", "within=[1.0,2.0]"], "one amount per input of uncertain=['age']"),
        (["uncertain=[age]", "within=[1.0]", "norm=l2"], "norm=l2: amounts of `within` are a box's"),
        (["uncertain=[age]", "within=[0.0]"], "above 0"),
        (["uncertain=[age,age]"], "twice"),
    ],
)
def test_mistakes_exit_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpsuite("run", "experiment=robustness/safety", "scale=smoke", *TABLE, *words) == 2
    assert message in capsys.readouterr().err
