from __future__ import annotations

import pytest

from gpsuite.config.overrides import Several, expand_sweeps, read_overrides
from gpsuite.errors import UserError

CHOICES = {
    "experiment": ["a/one", "a/two", "b/one", "tour"],
    "dataset": ["csv", "boston"],
    "method": ["kl_pac_gp"],
    "model": ["se"],
    "parallel": ["auto"],
}


def test_groups_and_values_are_distinguished() -> None:
    read = read_overrides(["experiment=a/one", "seed=3", "epsilons=[0.2,1]", "force=true"], CHOICES)
    assert read.groups == {"experiment": "a/one"}
    assert read.values == {"seed": 3, "epsilons": [0.2, 1], "force": True}


@pytest.mark.parametrize("text", ["1,2", "range(3)", "choice(1,2)"])
def test_values_of_several_runs_are_distinguished_from_one_value(text: str) -> None:
    assert read_overrides([f"seed={text}"], CHOICES).values == {"seed": Several(text)}


@pytest.mark.parametrize(
    "value", ["a, b=c [d] ~e.csv", "Straße – 数.csv", "${x}", "'quoted'", '"', "1.0", "a=b", "", " x "]
)
@pytest.mark.parametrize(
    "key", ["dataset.path", "dataset.target", "dataset.inputs", "results_dir", "data_dir", "run_name"]
)
def test_file_and_column_names_are_taken_literally(key: str, value: str) -> None:
    assert read_overrides([f"{key}={value}"], CHOICES).values[key] == value
    assert expand_sweeps([f"{key}={value}"], CHOICES) == [[f"{key}={value}"]]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("foo", "expected key=value"),
        ("=3", "expected key=value"),
        ("+seed=1", "settings cannot be added"),
        ("++seed=1", "settings cannot be added"),
        ("~seed=1", "cannot be deleted"),
        ("--seed", "unknown option"),
        ("method=kl_pac_gp,full_gp", "Add -m"),
        ("uncertain=[area (m^2)]", "quote values with special characters: uncertain=.\\['...','...'\\]"),
        ("along=area (m^2)", "quote values with special characters: along=\"'...'\""),
        ("+foo", "settings cannot be added. An existing one is set without .: foo=VALUE"),
        ("~delta", "cannot be deleted. Leave delta out"),
        ("epsilon=[1", "cannot be read"),
        ("experiment=a/on", "Did you mean 'a/one'"),
        ("experiment=[a]", "expected one name"),
    ],
)
def test_a_wrong_word_is_refused_with_what_to_write(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_overrides([word], CHOICES)
    assert len(str(caught.value).splitlines()) <= 4


@pytest.mark.parametrize("pair", [["seed=1", "seed=1"], ["dataset=csv", "dataset=boston"]])
def test_a_key_given_twice_is_refused(pair: list[str]) -> None:
    with pytest.raises(UserError, match="given twice"):
        read_overrides(pair, CHOICES)


def test_sweeps_expand_to_their_product_in_the_order_typed() -> None:
    runs = expand_sweeps(["experiment=a/one,b/one", "seed=range(0,2)", "delta=0.01"], CHOICES)
    assert runs == [
        ["experiment=a/one", "seed=0", "delta=0.01"],
        ["experiment=a/one", "seed=1", "delta=0.01"],
        ["experiment=b/one", "seed=0", "delta=0.01"],
        ["experiment=b/one", "seed=1", "delta=0.01"],
    ]


def test_glob_selects_nested_names() -> None:
    assert expand_sweeps(["experiment=glob(*)"], CHOICES) == [[f"experiment={n}"] for n in CHOICES["experiment"]]
    assert expand_sweeps(["experiment=glob(a/*)"], CHOICES) == [["experiment=a/one"], ["experiment=a/two"]]
    with pytest.raises(UserError, match="no name matches"):
        expand_sweeps(["experiment=glob(c/*)"], CHOICES)
    with pytest.raises(UserError, match="works for"):
        expand_sweeps(["seed=glob(*)"], CHOICES)
