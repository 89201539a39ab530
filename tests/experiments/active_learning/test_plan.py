"""A plan for a user's table: what is written, where a longer table goes on, and that nothing depends on the way."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.config.request import read_request
from gpsuite.data.dataset import Dataset, SafetyColumn
from gpsuite.engine.runner import run_experiment
from gpsuite.errors import UserError
from gpsuite.experiments.active_learning import plan
from gpsuite.experiments.active_learning.plan import ALL_OUTPUTS, proposal_table
from gpsuite.experiments.active_learning.plan_tasks import VERSION, find_start
from gpsuite.experiments.base import EXPERIMENTS, Task
from gpsuite.experiments.tasks import plain
from gpsuite.methods.active_learning.plan.ask_tell import MeasurementPlanner
from gpsuite.methods.active_learning.problem import SafetyLimit
from gpsuite.models.sampling.sequential_monte_carlo import SMCSettings
from gpsuite.seeds import derived_seed, stream

NAME = ("experiment=active_learning/plan", "scale=smoke")


@pytest.fixture
def figures() -> None:
    """Asked for by the tests that look at figures; the others save the time of drawing."""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(tmp_path)
    if "figures" not in request.fixturenames:
        monkeypatch.setattr(plan, "draw_plan", lambda *_: None)


def values(n: int, inputs: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """The first n of 20 rows: two outputs in turn, z safe up to 1 within the unit ball."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.6, 0.6, (20, inputs))
    Y = np.column_stack([100.0 * X[:, 0], X[:, -1] ** 2]) + 0.01 * rng.standard_normal((20, 2))
    Y[np.arange(20)[:, None] % 2 != np.arange(2)] = np.nan
    z = (X**2).sum(axis=1) + 0.01 * rng.standard_normal(20)
    return X[:n], Y[:n], z[:n]


def grid(inputs: int = 2) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(6).uniform(-1.5, 1.5, (60, inputs))


def write_rows(n: int, inputs: int = 2, path: str = "m.csv", change: int | None = None) -> None:
    X, Y, z = values(n, inputs)
    if change is not None:
        z = np.where(np.arange(n) == change, z + 0.1, z)
    names = [f"x{d}" for d in range(inputs)]
    with open(path, "w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow([*names, "first", "second", "z"])
        for row in np.column_stack([X, Y, z]):
            out.writerow(["" if np.isnan(value) else repr(float(value)) for value in row])
    lines = [",".join(repr(float(value)) for value in row) for row in grid(inputs)]
    Path("c.csv").write_text("\n".join([",".join(names), *lines]) + "\n")


def words(*more: str, path: str = "m.csv") -> list[str]:
    own = ["dataset.target=[first, second]", "dataset.safety=z", "dataset.limit=<=1"]
    return [*NAME, "dataset=csv", f"dataset.path={path}", "dataset.candidates=c.csv", *own, *more]


def run(*more: str, path: str = "m.csv", code: int = 0) -> Path:
    request, options = read_request(words(*more, path=path))
    report = run_experiment(request, options)
    assert report.exit_code == code, report.failures
    print("\n".join(report.answer))
    print("\n".join(report.warnings), file=sys.stderr)
    return report.folder


def task(*more: str, path: str = "m.csv") -> Task[Any]:
    request, _ = read_request(words(*more, path=path))
    [found] = EXPERIMENTS.get(request.experiment).plan(request)
    return found


def table(folder: Path, name: str = "plan") -> list[dict[str, str]]:
    return list(csv.DictReader((folder / "tables" / f"{name}.csv").read_text().splitlines()))


def results(folder: Path) -> dict[str, bytes]:
    kept = [path for part in ("tables", "figures") for path in sorted((folder / part).iterdir())]
    return {path.name: path.read_bytes() for path in kept}


@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_the_table_is_what_the_planner_answers(delta: float) -> None:
    write_rows(12)
    rows = table(run("measurements=4", f"delta={delta}"))
    seed = derived_seed(0, "plan")
    smc = SMCSettings(particles=16, moves=1, leapfrog=5)
    planner = MeasurementPlanner(SafetyLimit(1.0, "below"), stream(seed, "plan"), smc=smc, delta=delta)
    planner.tell(*values(12))
    plan = planner.ask(grid(), 4)
    assert len(rows) == 4
    for order, (row, each) in enumerate(zip(rows, plan.proposals, strict=True), 1):
        assert (int(row["order"]), int(row["candidate"])) == (order, each.row + 1)
        assert [float(row["x0"]), float(row["x1"])] == each.x.tolist()
        assert each.p is not None
        assert row["measure"] == ("first", "second")[each.p]
        assert float(row["entropy"]) == each.entropy
        assert float(row["probability_safe"]) == each.probability_safe
        assert float(row["expected value"]) == each.mean[each.p]
        assert float(row["expected sd"]) == each.sd[each.p]


@pytest.mark.parametrize(("inputs", "queries"), [(1, "partial"), (2, "full")])
def test_one_input_and_several_get_their_figures_and_tables(inputs: int, queries: str, figures: None) -> None:
    write_rows(12, inputs)
    folder = run(f"queries={queries}")
    shown = list(csv.DictReader((folder / "figures" / "plan.csv").read_text().splitlines()))
    assert len(shown) == 60
    if inputs == 1:
        assert all(0.0 <= float(row["probability_safe"]) <= 1.0 and float(row["sd first"]) > 0.0 for row in shown)
    measured = {row["measure"] for row in table(folder)}
    assert measured == {"all outputs"} if queries == "full" else measured <= {"first", "second"}
    assert [row["model"] for row in table(folder, "plan_inference")] == ["outputs", "safety"]


def test_the_embedded_example_needs_no_data() -> None:
    request, options = read_request(list(NAME))
    folder = run_experiment(request, options).folder
    assert len(table(folder)) == 3
    assert {row["measure"] for row in table(folder)} <= {"y1", "y2"}


def test_a_longer_table_continues(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(12)
    run()
    assert "24 values, first plan" in capsys.readouterr().out
    write_rows(14)
    folder = run()
    assert "28 values, continues an earlier plan, 4 of them new" in capsys.readouterr().out
    started = {row["started"] for row in table(folder, "plan_inference")}
    assert started == {"warm: 24 values known, 4 new"}


def test_continuing_by_files_is_continuing_in_memory() -> None:
    write_rows(12)
    run()
    write_rows(14)
    rows = table(run())
    seed = derived_seed(0, "plan")
    planner = MeasurementPlanner(
        SafetyLimit(1.0, "below"), stream(seed, "plan"), smc=SMCSettings(particles=16, moves=1, leapfrog=5)
    )
    for n in (12, 14):
        planner.tell(*values(n))
        plan = planner.ask(grid(), 3)
    assert [int(row["candidate"]) - 1 for row in rows] == [each.row for each in plan.proposals]
    assert [float(row["entropy"]) for row in rows] == [each.entropy for each in plan.proposals]


def test_the_same_command_again_finds_its_record_and_computing_again_changes_nothing(figures: None) -> None:
    write_rows(12)
    run()
    write_rows(14)
    first = run()
    before, wall = results(first), json.loads((first / "run.json").read_text())["finished"]
    assert run() == first
    assert json.loads((first / "run.json").read_text())["finished"] == wall, "nothing was computed"
    run("force=true")
    assert results(first) == before


def test_changed_rows_start_cold_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(12)
    run()
    write_rows(14, change=3)
    folder = run()
    told = "starts cold: 1 of the 24 values of an earlier plan are not in the table"
    assert told in capsys.readouterr().out
    assert {row["started"] for row in table(folder, "plan_inference")} == {"cold: first measurements"}


def test_another_number_of_measurements_continues_but_another_posterior_does_not() -> None:
    write_rows(12)
    run()
    assert task("measurements=5").params.state is not None
    assert task("delta=0.1").params.state is not None
    for other in ("seed=1", "mixing=identity", "particles=17", "kernel=squared_exponential"):
        assert task(other).params.state is None
    write_rows(11)
    assert task().params.state is None, "an earlier plan knows values that the table has not"


def test_the_richest_earlier_plan_is_continued_and_damaged_ones_are_left() -> None:
    for n in (10, 12):
        write_rows(n)
        run()
    write_rows(14)
    found = task()
    assert "4 of them new" in found.label
    best = list(Path("results").rglob(f"{found.params.parent}.npz"))
    assert len(best) == 2  # in the run's folder and in the store
    whole = best[0].read_bytes()
    flags = whole.rindex(b"PK\x01\x02") + 8  # of a member in the directory
    for path in best:
        path.write_bytes(whole[:flags] + bytes([whole[flags] | 1]) + whole[flags + 1 :])
    assert "1 kept before cannot be read" in task().label, "one bit calls it encrypted"
    for path in best:
        path.write_bytes(whole)
    best[0].write_bytes(b"not an archive")
    assert task().label.endswith("4 of them new"), "the other copy holds it"
    best[1].write_bytes(b"not an archive")
    assert "8 of them new; 1 kept before cannot be read, results/" in task().label
    assert found.params.parent in task().label
    shutil.rmtree("results/active_learning/plan")  # a run's folder holds copies
    assert "8 of them new; 1 kept before" in task().label
    for path in Path("results").rglob("*.npz"):
        path.unlink()
    assert task().label == "28 values, first plan"


def test_what_was_asked_otherwise_before_is_said() -> None:
    write_rows(12)
    run()
    for word, name in {"seed=7": "seed", "particles=24": "particles"}.items():
        assert task(word).label == f"24 values, starts again: earlier plans have another {name}", word
    request, _ = read_request([word.replace("<=1", "<=2") for word in words()])
    [found] = EXPERIMENTS.get(request.experiment).plan(request)
    assert found.label == "24 values, starts again: earlier plans have another limit"
    found = task("dataset.inputs=[x1, x0]")
    assert found.label == "24 values, starts again: earlier plans have another order of columns"
    assert task("dataset.inputs=[x1]").label == "24 values, first plan"


def test_of_several_earlier_plans_the_nearest_is_said() -> None:
    """Whichever file comes first."""
    far = ("seed=7", "particles=24", "mixing=identity")
    write_rows(12)
    run()
    run(*far)
    for more in ((), far[1:]):
        label = task("seed=1", *more).label
        assert label == "24 values, starts again: earlier plans have another seed", more


def test_other_candidates_are_another_question_of_the_same_posterior() -> None:
    write_rows(12)
    folder = run()
    with open("c.csv", "a") as stream:
        stream.write("0.01,0.02\n")
    assert "0 of them new" in task().label
    assert run() != folder
    assert task("dataset.inputs=[x1, x0]").params.state is None


@pytest.mark.parametrize("other", [{}, {"version": VERSION - 1}, {"version": VERSION + 1}])
def test_plans_of_another_version_of_the_method_are_not_continued(other: dict[str, int]) -> None:
    write_rows(12)
    run()
    for path in list(Path("results").rglob("*.npz")):
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        entry = json.loads(str(arrays["about"]))
        assert entry.pop("version") == VERSION
        path.unlink()
        np.savez(path, **{**arrays, "about": np.array(json.dumps({**entry, **other}))})
    write_rows(14)
    assert task().params.state is None
    assert task().label == "28 values, starts again: earlier plans were made by another version of the method"


def test_warnings_and_what_a_probability_is_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(12)
    text = Path("m.csv").read_text().splitlines()
    rows = [line.split(",") for line in text[1:]]
    Path("m.csv").write_text("\n".join([text[0], *(",".join([a, "0.5", *rest]) for a, _, *rest in rows)]) + "\n")
    with open("c.csv", "a") as stream:
        stream.write("0.1,0.5\n")
    folder = run()
    captured = capsys.readouterr()
    assert "x1 never varied where safety was measured" in captured.err
    assert "no guarantee" in captured.out
    [record] = list(csv.DictReader((folder / "records.csv").read_text().splitlines()))
    assert "x1 never varied" in record["warnings"]


def test_the_step_is_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(12)
    lines = Path("m.csv").read_text().splitlines()
    flat = [line.rsplit(",", 1)[0] + f",{0.001 * (i % 5)}" for i, line in enumerate(lines[1:])]
    Path("m.csv").write_text("\n".join([lines[0], *flat]) + "\n")
    safe = {}
    for step in ("0", "0.15", "2"):
        folder = run(f"step={step}")
        [record] = list(csv.DictReader((folder / "records.csv").read_text().splitlines()))
        safe[step] = int(record["safe_candidates"]), int(record["beyond_step"])
    assert safe["0"][0] < safe["0.15"][0] < safe["2"][0]
    assert sum(safe["0"]) == sum(safe["0.15"]) == sum(safe["2"])
    said = capsys.readouterr()
    assert "more candidates, farther out than 0.15 of the measured ranges" in said.err
    few, more = safe["0.15"]
    assert f"at {few} of 60 candidates; {more} more are too far" in said.out


def test_the_cost_grows_with_tables_and_candidates() -> None:
    write_rows(12)
    few = task().cost
    assert 0.01 < few < 2.0
    with open("c.csv", "a") as stream:
        stream.writelines(f"{0.001 * i},0.1\n" for i in range(20_000))
    assert task().cost > 3.0 * few
    assert task("particles=256").cost > 2.0 * task("particles=64").cost


def test_a_budget_ends_with_a_plan_and_is_recorded() -> None:
    write_rows(20)
    with open("c.csv", "a") as stream:
        stream.writelines(f"{0.0001 * i},0.1\n" for i in range(3000))
    folder = run("budget.seconds=0.01", "particles=64")
    [record] = list(csv.DictReader((folder / "records.csv").read_text().splitlines()))
    assert record["status"] == "budget"
    assert "budget used up" in record["reason"]
    assert int(record["proposals"]) == len(table(folder))
    assert task("budget.seconds=0.01", "particles=64").budget_seconds == 0.01


def test_nothing_safe_is_infeasible_with_the_best_candidate_named(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(3)
    Path("c.csv").write_text("x0,x1\n50,60\n1.2,1.1\n")
    folder = run(code=3)
    assert "only 3 safety values: their probabilities are mostly the prior's" in capsys.readouterr().err
    [record] = list(csv.DictReader((folder / "records.csv").read_text().splitlines()))
    assert record["status"] == "infeasible"
    assert "none of 2 candidates is safe with probability above 95 %" in record["reason"]
    assert "number " in record["reason"]
    assert record["proposals"] == "0"
    assert not (folder / "tables" / "plan.csv").exists()
    folder = run("when_nothing_is_safe=safest")
    assert len(table(folder)) == 1


def test_inputs_may_be_named_like_our_columns() -> None:
    write_rows(12)
    for name in ("m.csv", "c.csv"):
        text = Path(name).read_text().replace("x0,x1", "entropy,probability_safe", 1)
        Path(name).write_text(text)
    rows = table(run())
    assert {"input entropy", "input probability_safe", "entropy"} <= rows[0].keys()


def test_a_start_needs_no_results_folder(tmp_path: Path) -> None:
    write_rows(12)
    found = task()
    start = find_start(tmp_path / "nowhere", found.require_dataset(), found.params.asked)
    assert (start.state, start.parent, start.told) == (None, "", "24 values, first plan")


# What a plan says of how it began, and of candidates for which there was no time.


def write(path: str, **columns: FloatArray) -> None:
    pd.DataFrame(columns).to_csv(path, index=False)


def run_plan_words(limit: str, *more: str) -> Path:
    own = ["dataset.target=f", "dataset.safety=s", f"dataset.limit={limit}"]
    words = ["experiment=active_learning/plan", "scale=smoke", "dataset=csv", "dataset.path=m.csv"]
    report = run_experiment(*read_request([*words, "dataset.candidates=c.csv", *own, *more]))
    assert report.exit_code == 0, report.failures
    print("\n".join(report.answer))
    return report.folder


def test_a_plan_that_starts_again_inside_reports_it_in_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([2.0, 2.4, 2.8, 3.2, 3.6, 4.0])
    write("m.csv", x=x, f=np.sin(x), s=0.1 * x)
    write("c.csv", x=np.linspace(2, 5, 31))
    run_plan_words("<=3")
    x = np.append(x, [6.0, 9.0, 12.0, 16.0, 20.0])
    write("m.csv", x=x, f=np.sin(x), s=0.1 * x)
    write("c.csv", x=np.linspace(2, 20, 31))
    capsys.readouterr()
    folder = run_plan_words("<=3")
    with (folder / "tables" / "plan_inference.csv").open() as stream:
        assert {row["started"] for row in csv.DictReader(stream)} == {
            "cold: the spread of measurements or candidates has changed"
        }
    assert "the spread of measurements or candidates has changed" in capsys.readouterr().out


def many() -> tuple[FloatArray, ...]:
    """Measured inputs, a safety value, and 3000 candidates: one, the second, lies between safe ones (s <= 0.5)."""
    x = np.linspace(0.0, 10.0, 40)
    candidates = np.linspace(20.0, 400.0, 3000)
    candidates[1] = 2.05
    return x, 0.1 * x, candidates


def test_candidates_without_a_judgement_are_not_called_unsafe() -> None:
    x, z, candidates = many()
    smc = SMCSettings(16, 1, 5)
    planner = MeasurementPlanner(SafetyLimit(0.5, "below"), np.random.default_rng(0), smc=smc)
    planner.tell(x[:, None], np.sin(x), z)
    found = planner.ask(candidates[:, None], 1, budget=Budget(seconds=1e-6))
    judged = int(np.isfinite(found.probability_safe).sum())
    assert judged < len(candidates)
    assert not found.safe.any()
    assert planner.ask(candidates[:, None], 1).safe[1], "judged, it is safe"
    assert f"none of {judged} candidates is safe" in found.reason


def test_a_plan_without_proposals_prints_no_empty_frame_and_its_table_can_be_read(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x, z, candidates = many()
    write("m.csv", x=x, f=np.sin(x), s=z)
    write("c.csv", x=candidates)
    folder = run_plan_words("<=0.5", "budget.seconds=0.000001")
    said = capsys.readouterr().out
    assert "Empty DataFrame" not in said
    assert "at 0 of 1000 judged of 3000 candidates" in said
    assert "order" in pd.read_csv(folder / "tables" / "plan.csv").columns


@pytest.mark.parametrize("name", ["sd hc", "expected hc", "expected value", "entropy", "order"])
@pytest.mark.parametrize("output", [ALL_OUTPUTS, 0])
def test_an_input_with_a_columns_name_is_not_overwritten(name: str, output: int) -> None:
    grid = np.array([[0.25, 0.75]])
    data = Dataset(
        name="csv",
        task="measurements",
        X=grid,
        y=np.array([[1.0]]),
        input_names=(name, "load"),
        target_names=("hc",),
        content_hash="",
        grid=grid,
        safety=SafetyColumn("t", np.array([0.0]), 1.0, "below"),
    )
    arrays = {"row": [0], "output": [output], "proposal_entropy": [1.0], "probability_safe": [0.99]}
    arrays |= {"mean": [[5.0]], "sd": [[7.0]]}
    record = cast(Any, SimpleNamespace(arrays={key: np.array(value) for key, value in arrays.items()}))
    frame = proposal_table(record, data)
    assert frame.shape == (1, 9)
    assert frame.iloc[0, 2:4].tolist() == [0.25, 0.75]


def test_the_best_setting_is_recommended_and_drawn(capsys: pytest.CaptureFixture[str], figures: None) -> None:
    write_rows(12)
    folder = run("goal=minimise", "objective=second", "measurements=2")
    [best] = table(folder, "plan_best")
    assert float(best["low"]) <= float(best["predicted"]) <= float(best["high"])
    assert float(best["probability_safe"]) > 0.95
    assert best["more measurements pay"] in ("yes", "no")
    assert "to minimise second: x0 = " in capsys.readouterr().out
    assert {row["measure"] for row in table(folder)} == {"second"}
    assert all(float(row["expected gain"]) >= 0.0 for row in table(folder))
    assert (folder / "figures" / "plan_best.png").exists()


def test_a_plan_to_learn_has_the_key_and_the_tables_it_always_had() -> None:
    write_rows(12)
    assert "goal" not in plain(task().params) and "objective" not in plain(task().params)
    assert not (run() / "tables" / "plan_best.csv").exists()


def test_an_objective_that_there_is_not_is_named() -> None:
    write_rows(12)
    with pytest.raises(UserError, match="objective=thrid: no output of this name"):
        task("goal=minimise", "objective=thrid")


def test_the_best_so_far_is_that_of_safe_rows() -> None:
    column = SafetyColumn("z", np.array([0.0, 2.0, 0.0, 0.0]), 1.0, "below")
    X, y = np.zeros((4, 1)), np.array([[3.0], [1.0], [np.nan], [2.0]])
    names = {"input_names": ("x",), "target_names": ("y",)}
    data = Dataset("made up", "measurements", X, y, **names, content_hash="", safety=column, grid=X)  # type: ignore[arg-type]
    np.testing.assert_array_equal(plan.best_so_far(data, 0, "minimise"), [3.0, 3.0, 3.0, 2.0])
    np.testing.assert_array_equal(plan.best_so_far(data, 0, "maximise"), [3.0, 3.0, 3.0, 3.0])
