"""Every setting says what it means and what it may be, from its own declaration."""

from __future__ import annotations

import importlib
import re
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import pytest

from gpsuite.config.compose import read_method
from gpsuite.config.explain import allowed, explain_settings, field_meanings
from gpsuite.config.files import group_choices
from gpsuite.config.overrides import Overrides
from gpsuite.config.typed import RunSettings
from gpsuite.data.spec import CsvSpec
from gpsuite.experiments.base import EXPERIMENTS, METHODS
from gpsuite.models.config import ModelSpec

NAMES = [name for name in group_choices()["experiment"] if name != "tour"]
INTERNAL = re.compile(r"keys? of [A-Z]{3}|[a-z_]+\.[A-Z]{3}")


def schemas() -> dict[str, type]:
    for name in NAMES:
        importlib.import_module(f"gpsuite.experiments.{name.split('/')[0]}")
    found: dict[str, type] = {name: EXPERIMENTS.get(name).settings for name in NAMES}
    found |= {name: METHODS.get(str(read_method(name)["builder"])).options for name in group_choices()["method"]}
    return {**found, "run": RunSettings, "model": ModelSpec, "csv": CsvSpec}


@pytest.mark.parametrize("name", schemas())
def test_every_setting_has_a_meaning_in_plain_words(name: str) -> None:
    check(schemas()[name])


def check(schema: Any) -> None:
    meanings = field_meanings(schema)
    for each in fields(schema):
        hint = get_type_hints(schema, include_extras=True)[each.name]
        if is_dataclass(hint):
            check(hint)
        else:
            told = f"{meanings[each.name]} {allowed(hint)}"
            assert meanings[each.name] and not allowed(hint).startswith("must"), each.name
            assert each.name == "builder" or not INTERNAL.search(told), f"{each.name}: {told}"


def test_settings_are_reported_with_the_values_of_the_words() -> None:
    words = Overrides({"experiment": "pac_bayes/regression", "method": "kl_pac_sgp"}, {"epsilon": 0.5, "seed": 3})
    sections = explain_settings("pac_bayes/regression", words)
    assert list(sections) == ["settings", "parts", "method kl_pac_sgp", "model", "every run"]
    found = {setting.key: setting for part in sections.values() for setting in part}
    values = {key: found[key].value for key in ("epsilon", "seed", "scale", "dataset", "methods", "kernel", "wait")}
    assert values == {
        "epsilon": "0.5", "seed": "3", "scale": "quick", "dataset": "diabetes", "methods": "[kl_pac_sgp]",
        "kernel": "se", "wait": "false",
    }  # fmt: skip
    assert found["delta"].allowed == "a number, between 0 and 1"
    assert found["seed"].allowed == "a whole number, 0 or more"
    assert found["accuracy"].allowed == "a number above 0, at most 1e100, or null"
    assert found["scaling"].allowed == "one of all, train"
    assert "method.inducing" in found


def test_a_table_of_the_users_own_need_not_be_named_yet() -> None:
    words = Overrides({"experiment": "perturbation/region", "dataset": "csv"}, {})
    table = {each.key: each for each in explain_settings("perturbation/region", words)["your table"]}
    assert table["dataset.path"].value == ""
    assert table["dataset.strict"].value == "false"
