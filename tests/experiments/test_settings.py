"""Settings: rules at the fields, default values in the YAML and nowhere else."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import Annotated, Any, get_type_hints

import pytest
from omegaconf import OmegaConf

from gpsuite.config.files import group_choices, read_file
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.experiments.settings import (
    Count,
    Positive,
    Share,
    at_least,
    check_settings,
    filled,
    increasing,
    not_negative,
    one_of,
    unique,
    within,
)

NAMES = [name for name in group_choices()["experiment"] if "/" in name]


@dataclass
class Inner:
    width: Positive


@dataclass
class Example:
    rows: Annotated[int, at_least(2)]
    level: Annotated[int, within(1, 3)]
    delta: Share
    slack: Annotated[float, not_negative]
    limit: Positive | None
    sizes: Annotated[list[Count], filled, unique, increasing]
    kind: Annotated[str, one_of(("plain", "fancy"))]
    inner: Inner
    offset: float
    anything: str

    def check(self) -> None:
        if self.anything == f"{self.rows}":
            raise UserError("anything: as rows", key="anything")


GOOD = Example(2, 1, 0.5, 0.0, None, [1, 2], "plain", Inner(1.0), -3.0, "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 1}, "rows=1: must be 2 or more"),
        ({"level": 4}, "level=4: must be from 1 to 3"),
        ({"delta": 0.0}, "delta=0.0: must lie between 0 and 1"),
        ({"delta": 1.0}, "delta=1.0: must lie between 0 and 1"),
        ({"delta": math.nan}, "delta=nan: must lie between 0 and 1"),
        ({"slack": -1e-300}, "slack=-1e-300: must be 0 or more, and finite"),
        ({"slack": math.inf}, "slack=inf: must be 0 or more, and finite"),
        ({"limit": 0.0}, "limit=0.0: must be a number above 0"),
        ({"limit": math.nan}, "limit=nan: must be a number above 0"),
        ({"limit": math.inf}, "limit=inf: must be a number above 0"),
        ({"sizes": []}, r"sizes=\[\]: needs at least one value"),
        ({"sizes": [1, 1]}, r"sizes=\[1, 1\]: must not have a value twice"),
        ({"sizes": [2, 1]}, r"sizes=\[2, 1\]: must increase"),
        ({"sizes": [0, 1]}, "sizes=0: must be 1 or more"),
        ({"kind": "fanci"}, "kind=fanci: unknown kind. Did you mean 'fancy'?"),
        ({"inner": Inner(0.0)}, "inner.width=0.0: must be a number above 0"),
        ({"offset": math.nan}, "offset=nan: must be a finite number"),
        ({"offset": -math.inf}, "offset=-inf: must be a finite number"),
        ({"anything": "2"}, "anything: as rows"),
    ],
)
def test_a_field_s_rule_names_key_value_and_what_is_allowed(change: dict[str, Any], message: str) -> None:
    check_settings(GOOD)
    with pytest.raises(UserError, match=message.replace("?", r"\?")) as caught:
        check_settings(replace(GOOD, **change))
    assert caught.value.key == message.split("=")[0].split(":")[0]


def test_a_value_that_may_be_missing_is_checked_when_it_is_there() -> None:
    check_settings(replace(GOOD, limit=3.0))
    with pytest.raises(UserError, match=r"method\.limit=-3\.0"):
        check_settings(replace(GOOD, limit=-3.0), "method.")


def _leaves(settings: type, prefix: str = "") -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(settings)
    for each in fields(settings):
        hint = hints[each.name]
        if is_dataclass(hint):
            assert isinstance(hint, type)
            yield from _leaves(hint, f"{prefix}{each.name}.")
        yield f"{prefix}{each.name}", each


@pytest.mark.parametrize("name", NAMES)
def test_default_values_are_in_the_yaml_and_nowhere_else(name: str) -> None:
    importlib.import_module(f"gpsuite.experiments.{name.split('/')[0]}")
    content = OmegaConf.create(dict(read_file("experiment", name)))
    for key, each in _leaves(EXPERIMENTS.get(name).settings):
        assert each.default is MISSING and each.default_factory is MISSING, f"{key} has a second default"
        assert OmegaConf.select(content, key, default=MISSING) is not MISSING, f"{key} is not in the file"


@pytest.mark.parametrize("name", NAMES)
def test_shipped_values_meet_their_rules(name: str) -> None:
    importlib.import_module(f"gpsuite.experiments.{name.split('/')[0]}")
    settings, content = EXPERIMENTS.get(name).settings, read_file("experiment", name)
    for scale in content["scales"].values():
        merged = OmegaConf.merge(dict(content), scale)
        own = {each.name: merged[each.name] for each in fields(settings)}
        check_settings(OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(settings), own)))
