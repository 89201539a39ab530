"""What is noted of code, machine and processor, and whether another processor's records are comparable."""

from __future__ import annotations

import platform
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.data.loading import PreparedDataset
from gpsuite.engine import provenance
from gpsuite.engine.folder import limitations, not_comparable
from gpsuite.engine.plans import with_data_of
from gpsuite.engine.provenance import dataset_provenance
from gpsuite.experiments.base import Request
from tests.engine import tiny


def test_versions_are_those_that_run() -> None:
    found = provenance.versions()
    assert found["numpy"] == np.__version__
    assert found["python"] == platform.python_version()
    assert "not installed" not in found.values()


def test_the_commit_is_gits() -> None:
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        pytest.skip("not a git checkout")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
    assert provenance.git_state()["commit"] == head.stdout.strip()


def test_an_installed_package_has_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "site-packages" / "gpsuite" / "engine" / "x.py"))
    assert provenance.git_state.__wrapped__() == {"commit": None, "dirty": None}


def test_the_machine_is_described() -> None:
    found = provenance.machine()
    assert found["processor"]
    assert found["cores"] >= 1
    assert found["memory_gb"] is None or found["memory_gb"] > 0


AMD, INTEL = "AMD EPYC", "Intel(R) Xeon(R)"
WITHOUT = {"NPY_DISABLE_CPU_FEATURES": provenance.AVX512}


@pytest.mark.parametrize(
    ("here", "record", "environment"),
    [
        (("yes", ""), ("yes", ""), {}),
        (("yes", ""), ("no", ""), {**WITHOUT, "OPENBLAS_CORETYPE": "Zen"}),
        (("yes", "Haswell"), ("no", ""), {**WITHOUT, "OPENBLAS_CORETYPE": "Zen"}),
        (("yes", "Haswell"), ("no", "Haswell"), WITHOUT),
        (("yes", "Haswell"), ("yes", "Nehalem"), {"OPENBLAS_CORETYPE": "Nehalem"}),
        (("yes", "Haswell"), ("yes", ""), {"OPENBLAS_CORETYPE": ""}),
        (("no", ""), ("no", ""), {}),
        (("no", ""), ("no", "Zen"), {}),
        (("no", "Haswell"), ("no", ""), {"OPENBLAS_CORETYPE": "Zen"}),
        (("no", ""), ("yes", ""), {}),
        (("no", ""), ("yes", "SkylakeX"), {}),
        (("yes", ""), ("unknown", "Nehalem"), {}),
    ],
)
def test_a_record_without_avx512_or_of_named_kernels_can_be_had(
    monkeypatch: pytest.MonkeyPatch, here: tuple[str, str], record: tuple[str, str], environment: dict[str, str]
) -> None:
    keys = ("avx512", "openblas_coretype")
    own = {"processor": AMD, **dict(zip(keys, here, strict=True))}
    monkeypatch.setattr(provenance, "origin", lambda: own)
    assert provenance.environment_of({"processor": AMD, **dict(zip(keys, record, strict=True))}) == environment


def test_intels_processors_choose_other_kernels_and_an_old_record_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {"processor": INTEL, "avx512": "yes", "openblas_coretype": ""}
    monkeypatch.setattr(provenance, "origin", lambda: own)
    found = provenance.environment_of({**own, "avx512": "no"})
    assert found == {**WITHOUT, "OPENBLAS_CORETYPE": "Haswell"}
    assert provenance.environment_of({"processor": INTEL, "openblas_coretype": ""}) == {}
    monkeypatch.setattr(provenance, "origin", lambda: {**own, "openblas_coretype": "Haswell"})
    assert provenance.environment_of({"processor": INTEL, "openblas_coretype": ""}) == {"OPENBLAS_CORETYPE": ""}


def test_a_record_that_names_no_processor_may_come_from_another() -> None:
    here = provenance.origin()
    assert provenance.same_arithmetic(here)
    for key in provenance.ARITHMETIC:
        without = {name: value for name, value in here.items() if name != key}
        assert not provenance.same_arithmetic(without)


@pytest.mark.parametrize(("dirty", "commit"), [(False, "0123456789ab"), (True, "0123456789ab with changes")])
def test_a_record_tells_that_its_checkout_was_changed(
    monkeypatch: pytest.MonkeyPatch, dirty: bool, commit: str
) -> None:
    provenance.origin.cache_clear()
    monkeypatch.setattr(provenance, "git_state", lambda: {"commit": "0123456789abcdef", "dirty": dirty})
    try:
        assert provenance.origin()["commit"] == commit
    finally:
        provenance.origin.cache_clear()


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
def test_stand_ins_and_settings_other_than_the_dataset_forbid_comparison(
    request_: Request[Any], changed: tuple[str, ...], why: str
) -> None:
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
