"""`gpsuite run experiment=guarantee` and `gpsuite predict`, as a user types them."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.commands.conftest import Gpsuite

RUN = ("run", "experiment=guarantee", "scale=smoke", "dataset=csv", "dataset.path=table.csv")


@pytest.fixture
def table(workplace: Path) -> Path:
    """A table of 60 rows and a file of four rows to predict, the last far out."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": 50.0 + 9.0 * X[:, 0] + rng.normal(size=60)})
    frame.to_csv(workplace / "table.csv", index=False)
    new = pd.DataFrame({"name": list("pqrs"), "b": [0.0, 0.1, -0.2, 99.0], "a": [0.0, 0.5, -0.5, 0.0]})
    new.to_csv(workplace / "new.csv", index=False)
    return workplace / "table.csv"


def test_answer_page_and_predictions_then_predict(gpsuite: Gpsuite, table: Path) -> None:
    ended = gpsuite(*RUN, "dataset.target=y", "dataset.new=new.csv", "accuracy=6")
    assert ended.code == 0, ended.err
    for name in ("(test rows, ", "PAC-Bayes", "conformal", "band", "\nProved: "):
        assert name in ended.out
    lines = ended.out.splitlines()
    assert lines[0].startswith("The model misses y by") and lines[1].startswith(("Green: ", "Amber: ", "Red: "))
    assert lines.index("") <= 10 and "of errors exceed 6 " in ended.out
    (folder,) = Path("results/guarantee").iterdir()
    frame = pd.read_csv(folder / "predictions.csv")
    assert frame["outside_training_range"].tolist() == [False, False, False, True]
    low, high = frame["proved_low_0.05"], frame["proved_high_0.05"]
    assert (low[:2] < frame["prediction"][:2]).all()
    assert (frame["prediction"][:2] < high[:2]).all()
    assert low[2:].isna().all()  # smoke proves two rows
    answer, page = (folder / "answer.md").read_text(), (folder / "page.html").read_text()
    assert "of errors exceed 6 " in answer and answer.startswith(f"# table.csv, answered\n\n{lines[0]}\n\n**")
    assert "no copies among the rows" in answer
    assert page.count("data:image/png;base64,") == 5
    assert f'<p class="headline">{lines[0]}</p>' in page and page.index("<details>") > page.index("NEW.csv")
    predicted = gpsuite("predict", str(folder), "new.csv", "output=out.csv")
    assert predicted.code == 0, predicted.err
    assert "of errors exceed 6." in predicted.err and len(predicted.err.splitlines()) == 3
    assert "Proved: " not in predicted.err  # of the run's rows, which these need not be
    assert "Outside the training range: 1 of 4 rows." in predicted.err
    assert predicted.err.lower().count("outside") == 1
    again = pd.read_csv("out.csv")
    for name in ("prediction", "jackknife_low", "conformal_high", "gp_low"):
        assert again[name].tolist() == frame[name].tolist()  # to the last bit
    for name in ("row", "outside_training_range"):
        assert again[name].tolist() == frame[name].tolist()
    assert again["row"].tolist() == [1, 2, 3, 4]


def test_the_command_to_predict_can_be_copied(gpsuite: Gpsuite, table: Path) -> None:
    ended = gpsuite(*RUN, "dataset.target=y", "results_dir=my results", "accuracy=6")
    assert ended.code == 0, ended.err
    (hint,) = [line for line in ended.out.splitlines() if line.startswith("  gpsuite predict")]
    (folder,) = Path("my results/guarantee").iterdir()
    assert shlex.split(hint) == ["gpsuite", "predict", str(folder), "NEW.csv"]


def test_copies_take_nothing_away_and_a_sorted_file_is_not_tested(gpsuite: Gpsuite, table: Path) -> None:
    frame = pd.read_csv(table).sort_values("b")
    pd.concat([frame, frame[-6:]]).sort_values("b").to_csv(table, index=False)
    ended = gpsuite(*RUN, "dataset.target=y")
    assert ended.code == 0, ended.err
    assert "o not rely on" not in ended.out
    (folder,) = Path("results/guarantee").iterdir()
    assert "The file is sorted by b: its order says nothing." in (folder / "answer.md").read_text()
    assert "6 of 66 rows are copies of others, target included" in (folder / "answer.md").read_text()


def test_other_new_rows_are_another_run(gpsuite: Gpsuite, table: Path) -> None:
    for value in ("0.25", "0.75"):
        Path("new.csv").write_text(f"a,b\n0.5,{value}\n")
        assert gpsuite(*RUN, "dataset.target=y", "dataset.new=new.csv").code == 0
    folders = list(Path("results/guarantee").iterdir())
    assert len(folders) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("predict",), "a run's folder and a file are needed"),
        (("predict", "nowhere", "new.csv"), "nowhere: no model of a run"),
        ((*RUN, "dataset.target=y", "dataset.new=none.csv"), "dataset.new"),
        ((*RUN, "dataset.target=[a,y]"), "dataset.target"),
        ((*RUN, "dataset.target=y", "test_share=0.99"), "test_share=0.99: 60 rows leave"),
        ((*RUN, "dataset.target=y", "preparation=0.95"), "preparation=0.95: 60 rows leave"),
    ],
)
def test_mistakes_end_with_two(gpsuite: Gpsuite, table: Path, words: tuple[str, ...], told: str) -> None:
    ended = gpsuite(*words)
    assert ended.code == 2
    assert told in ended.err
    assert len(ended.err.splitlines()) <= 4


def test_how_new_rows_are_read_is_reported_and_correcting_it_predicts_again(gpsuite: Gpsuite, table: Path) -> None:
    frame = pd.read_csv(table)
    frame["a"] *= 1e4
    frame.round(2).to_csv(table, index=False, sep=";", decimal=",")
    Path("new.csv").write_text("a;b\n12.500;0\n-3.250;0\n")
    first = gpsuite(*RUN, "dataset.target=y", "dataset.new=new.csv", "run_name=one")
    assert first.code == 0, first.err
    assert "dataset.new: numbers are read as the table's are: '12.500' is 12500." in first.out
    other = gpsuite(*RUN, "dataset.target=y", "dataset.new=new.csv", "run_name=two", "dataset.thousands=")
    assert other.code == 2  # '12.500' is no number then
    predicted = gpsuite("predict", "results/guarantee/smoke~one", "new.csv", "output=out.csv")
    assert "new.csv: numbers are read as the table's are: '12.500' is 12500" in predicted.err
    own = pd.read_csv("results/guarantee/smoke~one/predictions.csv")
    assert pd.read_csv("out.csv")["prediction"].tolist() == own["prediction"].tolist()
    Path("new.csv").write_text("a;b\n12500;0\n-3250;0\n")
    same = gpsuite(*RUN, "dataset.target=y", "dataset.new=new.csv", "run_name=three")
    assert same.code == 0 and own.equals(pd.read_csv("results/guarantee/smoke~three/predictions.csv"))


def test_rows_of_the_table_are_called_by_their_lines(gpsuite: Gpsuite, table: Path) -> None:
    frame = pd.read_csv(table).astype({"b": object})
    frame.loc[::10, "b"] = ""  # these rows are left out
    frame.to_csv(table, index=False)
    assert gpsuite(*RUN, "dataset.target=y", "run_name=own").code == 0
    own = pd.read_csv("results/guarantee/smoke~own/predictions.csv")
    lines = table.read_text().splitlines()
    Path("new.csv").write_text("\n".join([lines[0], *(lines[line - 1] for line in own["line"])]))
    assert gpsuite("predict", "results/guarantee/smoke~own", "new.csv", "output=out.csv").code == 0
    assert pd.read_csv("out.csv")["prediction"].tolist() == own["prediction"].tolist()


def test_a_table_stored_three_times_is_answered_and_its_copies_are_reported(gpsuite: Gpsuite, table: Path) -> None:
    """With this seed one of the test rows is no copy of a row that the model saw."""
    pd.concat([pd.read_csv(table)] * 3).to_csv(table, index=False)
    ended = gpsuite(*RUN, "dataset.target=y", "most_rows=1000", "seed=9")
    assert ended.code == 0, ended.err
    (answer,) = Path("results/guarantee").glob("*/answer.md")
    assert "of 1 test row." in answer.read_text() and "on 1 test row, " in ended.out
    assert "o not rely on" not in ended.out


def test_a_rare_input_of_huge_values_does_not_make_the_bound_false(gpsuite: Gpsuite, workplace: Path) -> None:
    """0 in the rows that choose the scale and 1e10 in some others: the kept model is the certified one."""
    rng = np.random.default_rng(11)

    def drawn(n: int) -> pd.DataFrame:
        a, b, rare = rng.normal(size=n), rng.normal(size=n), rng.uniform(size=n) < 0.06
        size = np.where(rare, rng.uniform(1e10, 5e10, n), 0.0).round()
        y = a + b + 2.0 * rare + 0.2 * rng.normal(size=n)
        return pd.DataFrame({"a": a.round(3), "b": b.round(3), "size": size, "y": y.round(3)})

    drawn(100).to_csv("table.csv", index=False)
    fresh = drawn(2000)
    fresh.to_csv("new.csv", index=False)
    ended = gpsuite("run", "experiment=guarantee", "scale=quick", *RUN[3:], "dataset.target=y", "run_name=far")
    assert ended.code == 0, ended.err
    assert gpsuite("predict", "results/guarantee/quick~far", "new.csv", "output=out.csv").code == 0
    errors = np.abs(pd.read_csv("out.csv")["prediction"] - fresh["y"])
    bounds = pd.read_csv("results/guarantee/quick~far/tables/guarantee.csv")
    for limit, bound in zip(bounds["error, kept model"], bounds["PAC-Bayes bound, kept model"], strict=True):
        assert np.mean(errors > limit) <= bound
    assert np.sqrt(np.mean(errors**2)) < 1.0


def test_rows_that_cannot_be_read_are_marked_in_a_run_and_by_predict(gpsuite: Gpsuite, table: Path) -> None:
    Path("new.csv").write_text("a,b\n0.5,0.25\n,0.5\n0.5,x\n1.5,0.25\n")
    ended = gpsuite(*RUN, "dataset.target=y", "dataset.new=new.csv", "run_name=own")
    assert ended.code == 0, ended.err
    told = "2 of 4 rows not predicted: line 3, column 'a': the cell is empty; line 4, column 'b': 'x' is not a number"
    assert f"dataset.new: {told}." in ended.out
    predicted = gpsuite("predict", "results/guarantee/smoke~own", "new.csv", "output=out.csv")
    assert predicted.code == 0 and told in predicted.err
    own, again = pd.read_csv("results/guarantee/smoke~own/predictions.csv"), pd.read_csv("out.csv")
    assert own["row"].tolist() == again["row"].tolist() == [1, 2, 3, 4]
    assert own["prediction"].isna().tolist() == [False, True, True, False]
    for name in ("prediction", "jackknife_low", "not_predicted"):
        pd.testing.assert_series_equal(own[name], again[name])
    refused = gpsuite("predict", "results/guarantee/smoke~own", "new.csv", "strict=true")
    assert refused.code == 2 and "fix each, or remove its row" in refused.err
    assert gpsuite("predict", "results/guarantee/smoke~own", "new.csv", "strict=perhaps").code == 2


def test_new_rows_bring_their_likelihood_ratios(gpsuite: Gpsuite, table: Path) -> None:
    frame = pd.read_csv(table)
    frame.assign(ratio=np.exp(frame["a"])).to_csv("table.csv", index=False)
    pd.DataFrame({"a": [0.0, 9.0], "b": [0.0, 0.0], "ratio": [1.0, 1e9]}).to_csv("new.csv", index=False)
    words = ("dataset.target=y", "dataset.weights=ratio", "dataset.new=new.csv", "coverage=0.6")
    ended = gpsuite(*RUN, *words)
    assert ended.code == 0, ended.err
    (folder,) = Path("results/guarantee").iterdir()
    told = pd.read_csv(folder / "predictions.csv")
    assert np.isfinite(told["spread_low"]).tolist() == [True, False]
    predicted = gpsuite("predict", str(folder), "new.csv", "output=out.csv")
    assert predicted.code == 0, predicted.err
    again = pd.read_csv("out.csv")
    for name in ("spread_low", "spread_high", "jackknife_spread_low"):
        assert np.array_equal(again[name], told[name])
    pd.DataFrame({"a": [0.0], "b": [0.0]}).to_csv("bare.csv", index=False)
    refused = gpsuite("predict", str(folder), "bare.csv")
    assert refused.code != 0
    assert "ratio" in refused.err
