"""Experiments over a list of datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpsuite.config.files import group_choices, read_file
from gpsuite.config.request import read_request
from gpsuite.errors import DataError

LOSSES = "experiment=pac_bayes/loss_exp"
SMOKE = (LOSSES, "scale=smoke")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without network or files; only what is embedded is there."""
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)
    monkeypatch.chdir(tmp_path)


def test_the_shipped_list_is_prepared_in_its_order() -> None:
    request, options = read_request(SMOKE)
    assert list(request.datasets) == ["pol", "kin40k", "sarcos"]
    assert [data.name for data in request.prepared] == ["pol", "kin40k", "sarcos"]
    assert request.dataset is None
    assert all(data.stand_in for data in request.prepared)
    assert (options.tag, options.changed) == (None, ())


def test_the_users_list_takes_its_place_and_is_science() -> None:
    request, options = read_request([LOSSES, "datasets=[diabetes]", "seed=3"])
    [(name, data)] = request.datasets.items()
    assert (name, data.name, data.stand_in, data.rows) == ("diabetes", "diabetes", False, 442)
    assert set(options.changed) == {"datasets", "seed"}
    assert options.tag is not None
    assert list(request.options["datasets"]) == ["diabetes"]


def test_one_name_is_a_list_of_one() -> None:
    assert list(read_request([LOSSES, "datasets=diabetes"])[0].datasets) == ["diabetes"]


def test_names_make_the_tag_their_order_does_not() -> None:
    lists = ("[pol,kin40k]", "[kin40k,pol]", "[pol]", "[sarcos,pol,kin40k]")
    two, turned, one, shipped = (read_request([*SMOKE, f"datasets={names}"])[1].tag for names in lists)
    assert two == turned != one
    assert shipped is None


def test_each_name_is_replaced_by_a_stand_in_on_its_own() -> None:
    request, _ = read_request([*SMOKE, "datasets=[diabetes,pol]"])
    assert [data.stand_in for data in request.prepared] == [False, True]
    assert len({data.content_hash for data in request.prepared}) == 2


def test_the_message_for_a_missing_dataset_says_how_to_go_on_without() -> None:
    with pytest.raises(DataError) as error:
        read_request([LOSSES, "datasets=[diabetes,pol,kin40k]"])
    lines = str(error.value).splitlines()
    assert len(lines) == 4
    assert "pol_train_data.asc" in lines[0]
    assert lines[3].endswith("or leave it out: datasets=[diabetes,kin40k]")
    with pytest.raises(DataError) as error:
        read_request([LOSSES, "datasets=[pol]"])
    assert "leave it out" not in str(error.value)


def test_an_experiment_with_one_dataset_has_none_of_this() -> None:
    request, _ = read_request(["experiment=pac_bayes/regression"])
    assert request.datasets == {}
    assert [data.name for data in request.prepared] == ["diabetes"]
    assert "datasets" not in request.options


def test_the_list_of_experiments_tells_every_dataset_needed() -> None:
    several = {name: read_file("experiment", name) for name in group_choices()["experiment"]}
    found = {name: content for name, content in several.items() if "datasets" in content}
    assert found
    assert all(content["meta"]["data"] == content["datasets"] for content in found.values())
