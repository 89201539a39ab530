"""robustness/explain, explain_synthetic2d, explain_spam and regression, from the command line to tables and claims."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from gpsuite.data.dataset import Dataset
from gpsuite.data.generators.matlab_streams import MatlabStream
from gpsuite.experiments.base import Record
from gpsuite.experiments.robustness.explain import ENDS, mean_table, strongest_sentences
from gpsuite.experiments.robustness.global_effects import (
    authors_noise,
    cosine,
    decided_signs,
    global_claims,
    measure_colours,
)
from gpsuite.experiments.robustness.records import Certified
from gpsuite.experiments.robustness.regression import (
    RegressionProblem,
    _metrics,
    moved_sentences,
    own_units,
    uncertain_box,
)
from gpsuite.methods.robustness.regression import QuantileRange
from gpsuite.reporting.comparison import read_statistics
from gpsuite.rounding import rounded
from tests.experiments.drawn import drawn
from tests.experiments.robustness.safety_runs import gpsuite, run

CUBATURE = 1e-8  # attained values are rounded inwards by the cubature's error
LEVELS = {"mean": 0.5, "5 % quantile": 0.05, "95 % quantile": 0.95}
CSV = ("dataset=csv", "dataset.path=my table.csv")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def write_table() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20.0, 80.0, 70), "dose, mg": rng.normal(5.0, 1.0, 70)})
    frame["sick"] = np.where(frame["age"] + rng.normal(0.0, 5.0, 70) > 50.0, "yes", "no")
    frame["pressure"] = 100.0 + 0.5 * frame["age"] + rng.normal(0.0, 2.0, 70)
    frame.to_csv("my table.csv", index=False)


def draw_record(lime: list[float], delta: list[float], direction: list[float]) -> Record:
    arrays = {"lime": np.array([lime]), "delta": np.array([[delta]]), "direction": np.array(direction)}
    return cast(Record, SimpleNamespace(arrays=arrays))


def test_claims_can_say_yes_and_no() -> None:
    wrong = draw_record([-1.0, 2.0], [-2.0, 4.0], [1.0, -1.0])
    right = draw_record([1.0, -2.0], [-2.0, 4.0], [1.0, -1.0])
    half = draw_record([1.0, 2.0], [2.0, 2.0], [1.0, -1.0])
    values = {
        name: {each.name: each.value for each in global_claims([record, record], [2.0], 0.1)}
        for name, record in (("wrong", wrong), ("right", right), ("half", half))
    }
    assert [values[name]["share_lime_signs_wrong"] for name in values] == [1.0, 0.0, 0.0]
    assert [values[name]["share_signs_as_lime"] for name in values] == [1.0, 0.0, 1.0]
    assert values["wrong"]["cosine_delta_with_lime[gamma=2.0]"] == pytest.approx(1.0)
    assert values["right"]["cosine_delta_with_lime[gamma=2.0]"] == pytest.approx(-1.0)
    assert values["half"]["cosine_delta_with_truth[gamma=2.0]"] == pytest.approx(0.0, abs=1e-15)
    assert np.isnan(cosine(np.zeros(2), np.ones(2)))
    mixed = {each.name: each for each in global_claims([wrong, wrong, half], [2.0], 0.2)}
    assert mixed["cosine_lime_with_truth"].judged("low") == -1.0  # no cosine is less


def test_an_input_of_no_sign_is_counted_separately() -> None:
    first = draw_record([1.0, -0.1], [-1.0, 1.0], [1.0, 1.0])
    second = draw_record([1.1, 0.1], [-1.1, 1.1], [1.0, 1.0])
    assert decided_signs([each.arrays["lime"][0] for each in (first, second)], 0.1).tolist() == [1, 0]
    signs = next(each for each in global_claims([first, second], [2.0], 0.1) if each.name == "share_signs_as_lime")
    assert (signs.value, signs.n) == (0.25, 4)
    assert "0 of 1 signs that the draws show" in signs.note, "the second input has none, the first differs"


@pytest.mark.parametrize("name", ["explain_synthetic2d", "explain_spam"])
def test_global_effects_are_within_their_proved_ranges(name: str) -> None:
    folder = run(name)
    table = pd.read_csv(folder / "tables" / f"{name}.csv")
    effects = table[table["measure"].str.startswith("Δ")]
    assert (effects["proved_low"] <= effects["mean"]).all() and (effects["mean"] <= effects["proved_high"]).all()
    assert table.groupby("measure")["normed"].agg(lambda values: values.abs().max()).eq(1.0).all()
    shown = drawn(folder, name)
    assert set(shown["measure"]) == set(table["measure"]) and shown["normed"].abs().max() == 1.0


def test_the_authors_lime_continues_the_stream_of_the_rows() -> None:
    stream = MatlabStream(1)
    stream.randn(600, 2), stream.randn(600, 2), stream.randperm(1200)
    data = cast(Dataset, SimpleNamespace(name="synthetic2d_authors", X=np.zeros((1200, 2))))
    first, second = authors_noise(data, 2)
    np.testing.assert_array_equal(first, stream.randn(60, 2))
    np.testing.assert_array_equal(second, stream.randn(60, 2))


def test_the_authors_have_one_draw(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpsuite("run", "experiment=robustness/explain_synthetic2d", "scale=smoke", "draws=2") == 2
    assert "draws=2: protocol=authors has one draw" in capsys.readouterr().err


def test_explanations_of_a_csv_are_in_its_own_units() -> None:
    write_table()
    folder = run("explain", *CSV, "dataset.target=sick", "dataset.inputs=[age]", "radius=0.5", "evaluations=8")
    table = pd.read_csv(folder / "tables" / "explain_points.csv")
    assert set(table["input"]) == {"age"}
    deviation = pd.read_csv("my table.csv")["age"].std()
    assert table["up by"].max() == pytest.approx(0.5 * deviation, rel=0.2)
    assert (table["lowest proved, up"] <= table["probability"]).all()
    assert (table["probability"] <= table["highest proved, down"]).all()
    assert (table["effect"] > 0.0).all()
    [slope] = read_statistics(folder / "tables")
    assert slope.name == "min_gradient_error_slope" and slope.value > 1.3


def test_the_answer_names_the_strongest_inputs_with_their_signs() -> None:
    ends = {"ranges": np.zeros((4, 2, 4)), "moved": np.zeros((4, 2)), "lime": np.zeros(4)}
    records = []
    for method, delta in (("a", [0.1, -0.4, 0.3, 0.0]), ("a", [0.1, -0.2, 0.3, 0.0]), ("b", [9.0, 0.0, 0.0, 0.0])):
        arrays = {"delta": np.array(delta), "delta_low": np.array(delta), "delta_high": np.array(delta), **ends}
        records.append(cast(Record, SimpleNamespace(axes={"method": method}, arrays=arrays)))
    titles = {"a": "Laplace", "b": "EP", "c": "failed"}
    said = strongest_sentences(mean_table(records, titles, ["age", "dose", "ray", "x"]), "yes")
    assert said == [
        "The inputs that move Laplace's probability of yes most, by the mean effect Δ over 2 test points (positive: it "
        "rises with the input): dose (-0.3), ray (+0.3), age (+0.1).",
        "The inputs that move EP's probability of yes most, by the mean effect Δ over 1 test point (positive: it "
        "rises with the input): age (+9), dose (+0), ray (+0).",
    ]


def test_of_several_classes_the_predicted_ones_probability_is_explained() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.uniform(0.0, 3.0, 70), "b": rng.uniform(0.0, 1.0, 70)})
    frame["kind"] = [("low", "mid", "top")[int(value)] for value in frame["a"]]
    frame.to_csv("my table.csv", index=False)
    folder = run("explain", *CSV, "dataset.target=kind", "radius=0.5", "evaluations=8")
    table = pd.read_csv(folder / "tables" / "explain_points.csv")
    assert (table["probability"] > 1.0 / 3.0).all(), "the largest of three"
    assert (table["predicted"] == table["label"]).all() and set(table["predicted"]) <= {"low", "mid", "top"}
    for side in ("down", "up"):
        ends = [table[f"{end}, {side}"] for end in ENDS]
        assert all((low <= high + CUBATURE).all() for low, high in pairwise(ends))
        assert (ends[0] <= table["probability"]).all() and (table["probability"] <= ends[3]).all()
    outer = table[table["label"] != "mid"]
    by_input = {name: rows.set_index("label")["effect"] for name, rows in outer.groupby("input")}
    assert (by_input["a"].abs() > by_input["b"].abs()).all()
    assert "predicted class" in (folder / "tables" / "explain.md").read_text().splitlines()[0]


def test_explanations_of_images_are_maps() -> None:
    folder = run("explain", "check_points=0", "count=1")
    numbers = pd.read_csv(folder / "figures" / "explain_points.csv")
    assert len(numbers) == 64


def test_a_csv_regression_proves_ranges_for_amounts_in_own_units(capsys: pytest.CaptureFixture[str]) -> None:
    write_table()
    words = ("dataset.target=pressure", "dataset.inputs=['age','dose, mg']", "uncertain=[age]", "within=[3.0]")
    folder = run("regression", *CSV, *words, "methods=[gpr]", "evaluations=30", "count=3")
    table = pd.read_csv(folder / "tables" / "regression.csv")
    assert set(table["quantity"]) == {"mean", "5 % quantile", "95 % quantile"}
    assert (table["lowest proved"] <= table["at the point"]).all()
    assert (table["at the point"] <= table["highest proved"]).all()
    means = table[table["quantity"] == "mean"]
    width = means["highest proved"] - means["lowest proved"]
    moved = means[["lowest proved", "highest proved"]].sub(means["at the point"], axis=0).abs().max().max()
    most = rounded(float(f"{moved:.12g}"), 4, 1)
    told = f"the predictions of exact GP for 3 rows by at most {most} (pressure).\n"
    assert f"Proved: inputs that are off by as much as stated move {told}" in capsys.readouterr().out
    # a slope of .5 over six years, within the search's tolerance and the model's error
    assert width.between(2.0, 4.5).all()
    statistics = {each.name: each.value for each in read_statistics(folder / "tables")}
    assert statistics["points_outside_range"] == 0.0


def test_what_is_not_proved_of_predictions_is_said() -> None:
    def record(method: str, low: float, high: float = 3.0) -> Record:
        ranges = np.array([[2.0, low, 1.5, 2.5, high]])
        return Record("k", "e", "", {"method": method}, "done", "", {}, {}, arrays={"ranges": ranges})

    records = [record("a", 1.0), record("a", -np.inf), record("b", -np.inf), record("d", 1.0, 4.5)]
    said = list(moved_sentences(records, {name: f"GP {name}" for name in "abcd"}, "y"))
    assert said == [
        "Proved: inputs that are off by as much as stated move the predictions of GP a for 1 row by at most 1 (y). "
        "Not proved for 1 more.",
        "Not proved: how far inputs that are off by as much as stated move the predictions of GP b for any of 1 row.",
        "Proved: inputs that are off by as much as stated move the predictions of GP d for 1 row by at most 2.5 (y).",
    ]


def test_both_regressions_of_embedded_data_hold_their_own_values(capsys: pytest.CaptureFixture[str]) -> None:
    folder = run("regression", "count=1")
    capsys.readouterr()
    table = pd.read_csv(folder / "tables" / "regression.csv")
    assert (table["lowest certified"] <= table["lowest"]).all()
    assert (table["highest"] <= table["highest certified"]).all()
    for method in ("gpr", "sgpr"):
        path = str(folder / "certificates" / f"{method}_point_0.npz")
        assert gpsuite("verify", path, "dataset=diabetes") == 0
        said = capsys.readouterr().out.splitlines()
        assert [line.split("\t")[1].split(":")[0] for line in said[1:4]] == ["confirmed"] * 3
    # of the sparse one, whose certificate was read last
    [low] = table.loc[(table["method"] == "sparse GP") & (table["quantity"] == "mean"), "lowest certified"]
    assert any(
        line.startswith(f"minimum\tno mean prediction in the region is below {rounded(low, 10, -1)}") for line in said
    )
    assert set(pd.read_csv(folder / "tables" / "regression.csv")["method"]) == {"exact GP", "sparse GP"}
    statistics = {each.name: each for each in read_statistics(folder / "tables")}
    assert statistics["points_outside_range"].value == 0.0
    assert statistics["points_outside_range"].n == 300


def made_up_problem(offset: float, scale: float) -> RegressionProblem:
    one, rows = np.ones((1, 1)), np.zeros(1, dtype=np.int64)
    return RegressionProblem(one, one[0], one, one[0], rows, rows, ("x",), one[0], one[0], "y", offset, scale)


def test_own_units_round_outwards() -> None:
    none: Any = None  # the searches are not asked
    found = QuantileRange(0.5, 0.0, -0.1, -0.1, 0.1, 0.1, None, None, "closed", 1, none, none)
    _, low, attained_low, attained_high, high = own_units(made_up_problem(1e6, 1e-3), found)
    assert low < 1e6 - 1e-4 < attained_low and attained_high < 1e6 + 1e-4 < high


@pytest.mark.parametrize(("offset", "scale"), [(1e9, 1.0), (-3e-7, 1e5), (12.3, 0.0123), (-1e12, 1e-4)])
def test_no_end_in_own_units_claims_more_than_was_proved(offset: float, scale: float) -> None:
    """Against exact fractions of the same numbers."""
    problem, values = made_up_problem(offset, scale), np.random.default_rng(0).normal(0.0, 3.0, 500)
    exact = [Fraction(scale) * Fraction(float(value)) + Fraction(offset) for value in values]
    for outward in (-1.0, 1.0):
        own = problem.own_units(values, outward)
        assert all(outward * (Fraction(float(each)) - true) >= 0 for each, true in zip(own, exact, strict=True))
        np.testing.assert_allclose(own, problem.own_units(values), rtol=1e-13, atol=1e-13 * abs(offset))
    assert np.isposinf(problem.own_units(np.array([np.inf]), -1.0)).all()


def test_the_certificates_ends_are_outward_and_replace_a_search_without_boxes() -> None:
    folder = run("regression", "count=2", "methods=[gpr]", "boxes=1", "tolerance=1e-9", "radius=1")
    table = pd.read_csv(folder / "tables" / "regression.csv")
    for point, rows in table.groupby("point"):
        described = json.loads((folder / "certificates" / f"gpr_point_{point}.json").read_text())
        origin = {name: Fraction(described["origin"][name]) for name in ("target_offset", "target_scale")}
        ends = {(each["level"], each["side"]): Fraction(each["outer"]) for each in described["claims"]}
        for row in rows.to_dict("records"):
            level = LEVELS[row["quantity"]]
            for sign, name, side in ((-1, "lowest", "minimum"), (1, "highest", "maximum")):
                stated = Fraction(row[f"{name} certified"])
                claimed = ends[level, side] * origin["target_scale"] + origin["target_offset"]
                assert sign * (stated - claimed) >= 0
                assert sign * (row[f"{name} certified"] - row[f"{name} proved"]) >= 0
                assert np.isfinite(row[f"{name} proved"])


@pytest.mark.parametrize(
    ("experiment", "words", "said"),
    [
        ("explain", ("points=[77]",), "points=77: the test rows are numbered 0 to 9"),
        ("explain", ("domain=[5.0,6.0]",), "domain=[5.0, 6.0]: test point"),
        ("explain", ("check_radii=[0.1,0.2]",), "check_radii=[0.1, 0.2]: two or more falling numbers"),
        ("regression", ("uncertain=[weight]",), "uncertain=weight: no such input"),
        ("regression", ("uncertain=[age]", "within=[1.0,2.0]"), "within=[1.0, 2.0]: one amount per input"),
        ("regression", ("quantiles=[0.0,0.5]",), "quantiles=0.0: must lie between 0 and 1"),
        ("regression", ("test_rows=440",), "test_rows=440: diabetes has 442 rows"),
        ("regression", ("methods=[laplace]",), "laplace"),
        (
            *("regression", ("test_rows=300", "method.inducing=230")),
            "method.inducing=230: more inducing inputs than the 142 rows that test_rows=300 of 442 leave to training",
        ),
        ("explain_spam", ("points=11",), "points=11: must be 1 to 10"),
    ],
)
def test_a_mistake_is_said_in_few_lines(
    experiment: str, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpsuite("run", f"experiment=robustness/{experiment}", "scale=smoke", *words) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) <= 4


def test_each_measure_of_a_figure_has_a_colour_of_its_own() -> None:
    measures = ["LIME", *(f"Δ, γ = {gamma}" for gamma in (0.02, 0.5, 1, 2)), "class direction"]
    colours = measure_colours(pd.DataFrame({"measure": measures}))
    assert list(colours) == measures and len(set(colours.values())) == 6


def test_where_rounding_limits_a_regression_its_ends_hold_the_point(capsys: pytest.CaptureFixture[str]) -> None:
    """A target that is nearly linear: the variance is a difference of almost equal numbers."""
    rng = np.random.default_rng(1)
    speed, load = rng.uniform(0, 10, 120).round(3), rng.uniform(0, 5, 120).round(3)
    temperature = (20 + 3 * speed - 2 * load + 0.3 * rng.standard_normal(120)).round(3)
    pd.DataFrame({"speed": speed, "load": load, "temp": temperature}).to_csv("lin.csv", index=False)
    words = ("dataset=csv", "dataset.path=lin.csv", "dataset.target=temp", "method=gpr", "count=2")
    code = gpsuite(
        "run", "experiment=robustness/regression", "parallel=serial", *words, "uncertain=[speed]", "within=[0.01]",
        "test_rows=10", "run_name=t",
    )  # fmt: skip
    said = "".join(capsys.readouterr())
    assert code == 0
    folder = Path("results/robustness/regression/quick~t")
    reasons = pd.read_csv(folder / "records.csv")["reason"].astype(str)
    assert reasons.str.fullmatch(r"values are known to \S+ only, by rounding").any()
    said += (folder / "tables" / "regression.md").read_text()
    assert "speed ± 0.01)" in said  # as it was asked, in its own units
    assert "probabilit" not in said and "ended with their budget" not in said
    table = pd.read_csv(folder / "tables" / "regression.csv")
    slack = 1e-9 * table["at the point"].abs()  # it is rounded to the nearest
    assert (table["lowest"] <= table["at the point"] + slack).all()
    assert (table["at the point"] - slack <= table["highest"]).all()


@pytest.mark.parametrize(
    ("uncertain", "within", "amounts"),
    [([], [], [0.6, 0.0, 0.9]), (["c"], [], [0.0, 0.0, 0.9]), (["c", "b=x"], [1.5, 0.5], [0.0, 0.5, 1.5])],
)
def test_inputs_are_as_far_off_as_is_asked(uncertain: list[str], within: list[float], amounts: list[float]) -> None:
    """Radii are in deviations, `within` in own units; a category's level stays unless it is named."""
    scale = np.array([2.0, 1.0, 3.0])
    problem: Any = SimpleNamespace(
        inputs=("a", "b=x", "c"), level_inputs={"b=x"}, input_scale=scale, X_test=np.array([[1.0, 0.0, -1.0]])
    )
    params: Any = SimpleNamespace(uncertain=uncertain, within=within, radius=0.3, point=0)
    region = uncertain_box(problem, params)
    found = np.zeros(3)
    found[region.free] = (region.upper - region.lower) / 2.0 * scale[region.free]
    np.testing.assert_allclose(found, amounts)


def test_the_change_that_is_reported_is_the_proved_one() -> None:
    problem: Any = SimpleNamespace(test_rows=np.array([7]), y_test=np.array([3.0]), target_scale=2.0)
    found = _metrics(problem, 0, np.array([1.0, 0.2, 0.5, 1.3, 1.5]))
    assert (found["row"], found["target"], found["prediction"]) == (7, 3.0, 1.0)
    assert found["largest_change"] == pytest.approx(0.8)
    assert found["relative_change"] == pytest.approx(0.4)


def test_a_certificate_that_time_ended_counts_where_rounding_ended_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more seconds it is computed again; a range that is known up to rounding is none that time ended."""
    late = Certified({"uncertified": "seconds"}, out_of_time=True)
    monkeypatch.setattr("gpsuite.experiments.robustness.regression.certify_ranges", lambda *_: late)
    rng = np.random.default_rng(1)
    speed = rng.uniform(0, 10, 60).round(3)
    pd.DataFrame({"speed": speed, "temp": (20 + 3 * speed).round(3)}).to_csv("lin.csv", index=False)
    words = (
        "dataset=csv",
        "dataset.path=lin.csv",
        "dataset.target=temp",
        "method=gpr",
        "count=1",
        "radius=1e-6",
        "budget.seconds=600",
    )
    gpsuite("run", "experiment=robustness/regression", "parallel=serial", *words, "test_rows=10", "run_name=late")
    [record] = pd.read_csv("results/robustness/regression/quick~late/records.csv").to_dict("records")
    assert (record["status"], record["reason"]) == ("budget", "600 seconds used up, in the certificate")
