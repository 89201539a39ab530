from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpsuite.config.files import group_choices, read_file
from gpsuite.config.grammar import without_dashes
from gpsuite.config.overrides import Overrides
from gpsuite.config.request import read_request
from gpsuite.config.spelling import as_typed, hints, in_full, public_names, public_options, stored
from gpsuite.errors import UserError

EXPERIMENTS = [name for name in group_choices()["experiment"] if name != "tour"]
SAFETY = "robustness/safety"


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["certify", "a.csv", "--max-error", "5"], ["certify", "a.csv", "max_error=5"]),
        (["run", "--scale=smoke", "-m", "x"], ["run", "scale=smoke", "-m", "x"]),
        (["run", "--force", "--seed", "3"], ["run", "force=true", "seed=3"]),
        (["run", "--wait", "false"], ["run", "wait=false"]),
        (["run", "--shift", "-5", "--help"], ["run", "shift=-5", "--help"]),
        (["run", "--dataset.target", "a b"], ["run", "dataset.target=a b"]),
    ],
)
def test_dashes_are_another_way_to_write_a_setting(words: list[str], read: list[str]) -> None:
    assert without_dashes(words) == read


def test_a_setting_without_value_is_refused() -> None:
    for words in (["run", "--seed"], ["run", "--seed", "--force"]):
        with pytest.raises(UserError, match="a value is missing"):
            without_dashes(words)


def test_short_words_are_written_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert in_full(["guarantee", "seed=1"]) == ["experiment=guarantee", "seed=1"]
    assert in_full(["experiment=tour"]) == ["experiment=tour"]
    full = ["experiment=guarantee", "dataset=csv", "dataset.path=my.csv", "dataset.new=rows.csv"]
    assert in_full(["guarantee", "dataset=my.csv", "predict=rows.csv"]) == full
    assert in_full(["x", "dataset=diabetes"])[1] == "dataset=diabetes"
    Path("diabetes").write_text("", encoding="utf-8")
    Path("table").write_text("", encoding="utf-8")
    assert in_full(["x", "dataset=diabetes"])[1] == "dataset=diabetes", "the name of a dataset"
    assert in_full(["x", "dataset=table"])[1:] == ["dataset=csv", "dataset.path=table"]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_public_names_mean_one_setting(experiment: str) -> None:
    own, names = read_file("experiment", experiment), public_names(experiment)
    repeated = [name for name, count in Counter(names.values()).items() if count > 1]
    assert repeated in ([], ["max_train_rows"]), "the two limits of guarantee are set together"
    assert not set(names.values()) & set(own), "a public name must not be another setting's stored one"
    for key, name in names.items():
        assert key in stored(Overrides({"experiment": experiment}, {name: 7})).values


def test_old_and_new_names_are_the_same_run() -> None:
    pairs = [
        (
            ["guarantee", "max_train_rows=300", "gap=0.1"],
            ["guarantee", "most_rows=300", "band_rows=300", "tolerance=0.1"],
        ),
        (["guarantee", "--max-error", "5", "test_rows=9"], ["guarantee", "accuracy=5", "points=9"]),
        (["pac_bayes/regression", "kernel=se_ard"], ["pac_bayes/regression", "model=se_ard"]),
        (
            ["perturbation/region", "max_train_rows=90", "curve_points=7"],
            ["perturbation/region", "rows=90", "points=7"],
        ),
        (
            ["robustness/regression", "input_errors={age:2.0,bmi:0.5}"],
            ["robustness/regression", "uncertain=[age,bmi]", "within=[2.0,0.5]"],
        ),
        (["robustness/regression", "input_errors=[age]"], ["robustness/regression", "uncertain=[age]"]),
    ]
    for new, old in pairs:
        (now, one), (before, other) = (read_request(in_full(without_dashes(words))) for words in (new, old))
        assert (now.settings, one.science, one.tag) == (before.settings, other.science, other.tag)


def test_an_earlier_name_is_hinted_at() -> None:
    told = hints(["experiment=guarantee", "most_rows=3", "gap=0.1", "model=se"])
    assert [line.split(" ")[0] for line in told] == ["most_rows=", "model="]
    assert "max_train_rows" in told[0] and "kernel" in told[1]
    assert hints(["experiment=active_learning/plan", "kernel=matern52"]) == []


def test_two_names_for_one_setting_are_refused() -> None:
    with pytest.raises(UserError, match="given twice"):
        read_request(["experiment=robustness/safety", "tolerance=0.1", "gap=0.2"])
    with pytest.raises(UserError, match="one of the two"):
        read_request(["experiment=pac_bayes/regression", "model=se", "kernel=se"])


def test_messages_name_what_was_typed() -> None:
    assert as_typed("most_rows=3: must be 8", ["experiment=guarantee", "max_train_rows=3"]).startswith(
        "max_train_rows=3:"
    )
    assert as_typed("most_rows=3: must be 8", ["experiment=guarantee", "most_rows=3"]).startswith("most_rows=3:")
    assert as_typed("experiment=guarante: unknown", ["guarante"]) == "guarante: unknown"
    words = [f"experiment={SAFETY}", "dataset=my.csv"]
    assert as_typed("dataset.path=my.csv: no such file", words) == "dataset=my.csv: no such file"


def test_composed_settings_are_shown_by_their_public_names() -> None:
    shown = public_options(SAFETY, {"uncertain": ["age", "dose"], "within": [2.0], "tolerance": 0.1, "seed": 0})
    assert shown == {"input_errors": {"age": 2.0, "dose": None}, "gap": 0.1, "seed": 0}
