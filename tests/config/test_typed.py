"""Values are set as typed: texts come back as they are, and a wrong type is told in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from gpsuite.config.typed import has, in_words, set_value, structured
from gpsuite.errors import UserError
from gpsuite.experiments.settings import at_least


@dataclass
class Part:
    many: Annotated[int, at_least(1)]
    limit: float | None


@dataclass
class Settings:
    name: str
    count: int
    share: float
    sure: bool
    names: list[str]
    part: Part


GIVEN = {"name": "a", "count": 1, "share": 0.5, "sure": True, "names": ["a"], "part": {"many": 2, "limit": None}}


def set_one(key: str, value: Any) -> Any:
    section = structured(Settings, GIVEN, "settings")
    set_value(section, key, value, key)
    plain: Any = OmegaConf.to_object(section)
    for name in key.split("."):
        plain = getattr(plain, name)
    return plain


@given(st.lists(st.sampled_from(["$", "{", "}", "\\", "oc.env:HOME", "ü", "[", ",", " ", "'", "x"])).map("".join))
def test_any_text_comes_back_as_it_is(text: str) -> None:
    assert set_one("name", text) == text
    assert set_one("names", [text, "b"]) == [text, "b"]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("count", 2.5, "count=2.5: must be a whole number"),
        ("count", [1, 2], r"count=\[1, 2\]: must be a whole number"),
        ("count", None, "count=null: must be a whole number"),
        ("share", "", "share=: no value: it must be a number. Leave share out"),
        ("sure", 3, "sure=3: must be true or false"),
        ("sure", "maybe", "sure=maybe: must be true or false"),
        ("part.many", "x", "part.many=x: must be a whole number"),
        ("part.limit", "x", "part.limit=x: must be a number or null"),
        ("nmae", "x", "nmae: unknown key. Did you mean 'name'"),
    ],
)
def test_a_wrong_type_is_reported_in_plain_words(key: str, value: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        set_one(key, value)


def test_settings_are_distinguished_from_groups_of_settings() -> None:
    section = structured(Settings, GIVEN, "settings")
    assert has(section, "part.many")
    assert not has(section, "part")
    assert not has(section, "part.few")
    assert in_words(list[Annotated[float, at_least(1)]]) == "a list of numbers"
