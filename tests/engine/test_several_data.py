"""What a run over several datasets says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpsuite.data.loading import PreparedDataset
from gpsuite.engine.folder import limitations, not_comparable
from gpsuite.engine.plans import with_data_of
from gpsuite.engine.provenance import dataset_provenance
from gpsuite.experiments.base import Request
from tests.engine import tiny


def data(name: str, *, stand_in: bool = False) -> PreparedDataset:
    spec = {"licence": f"licence of {name}", "citation": f"citation of {name}"}
    return PreparedDataset(name, "regression", 9, f"hash of {name}", stand_in, spec, {})


def over(*datasets: PreparedDataset) -> Request[Any]:
    return replace(tiny.request(), datasets={each.name: each for each in datasets})


def test_run_json_describes_every_dataset() -> None:
    found = dataset_provenance(over(data("a"), data("b", stand_in=True)))
    assert found["dataset"] is None
    assert [(each["name"], each["stand_in"], each["licence"]) for each in found["datasets"]] == [
        ("a", False, "licence of a"),
        ("b", True, "licence of b"),
    ]


def test_run_json_of_one_dataset_or_none_is_as_before() -> None:
    one = dataset_provenance(replace(tiny.request(), dataset=data("a")))
    assert one == {
        "dataset": {
            "name": "a",
            "stand_in": False,
            "content_hash": "hash of a",
            "licence": "licence of a",
            "citation": "citation of a",
        }
    }
    assert dataset_provenance(tiny.request()) == {"dataset": None}


def test_only_the_made_up_ones_are_named() -> None:
    mixed = over(data("a"), data("b", stand_in=True), data("c", stand_in=True))
    assert limitations(mixed, []) == ["stand-in data, not b, c"]
    assert limitations(over(data("a")), []) == []


@pytest.mark.parametrize(
    ("request_", "changed", "why"),
    [
        (over(data("a"), data("b")), (), ""),
        (over(data("a")), ("datasets",), ""),  # its statistics name the dataset they are of
        (over(data("a")), ("datasets", "seed"), "settings differ from the shipped experiment: seed"),
        (over(data("a"), data("b", stand_in=True)), ("datasets",), "stand-in data"),
    ],
)
def test_what_may_be_compared(request_: Request[Any], changed: tuple[str, ...], why: str) -> None:
    assert not_comparable(request_, [], changed) == why


def test_a_dataset_that_only_tasks_work_on_is_named_too() -> None:
    request = replace(tiny.request(), dataset=data("a"))
    tasks = [
        request.task(tiny.Square(1, "square"), label="", axes={}, dataset=each)
        for each in (None, data("b", stand_in=True), data("b", stand_in=True))
    ]
    whole = with_data_of(request, tasks)
    assert [each.name for each in whole.prepared] == ["a", "b"]
    found = dataset_provenance(whole)
    assert found["dataset"]["name"] == "a"
    assert [each["name"] for each in found["datasets"]] == ["a", "b"]
    assert "stand-in data, not b" in limitations(whole, [])
    assert with_data_of(request, tasks[:1]) == request
