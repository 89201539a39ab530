"""Typed sections of a configuration: values set one by one, and what is allowed told in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gpsuite.data.dataset import TASKS
from gpsuite.data.spec import CSV_OPTIONS, CSV_SYNONYMS, csv_value
from gpsuite.errors import UserError, nearest

ONE, MANY = (
    {int: "a whole number", float: "a number", bool: "true or false", str: "a text"},
    {int: "whole numbers", float: "numbers", bool: "true or false", str: "texts"},
)


def structured(schema: type, content: Mapping[str, Any], where: str) -> DictConfig:
    """Return a section with the fields of a dataclass and the values of a file.

    Raises:
        UserError: for a key that the dataclass has not, or a value of another type.
    """
    typed: DictConfig = OmegaConf.structured(schema)
    OmegaConf.set_readonly(typed, False)
    for key, value in content.items():
        set_value(typed, key, value, f"{where}: {key}")
    return typed


def has(part: DictConfig, key: str) -> bool:
    """Whether a dotted key is a setting of a section, not a group of settings."""
    node = _node(part, key)
    return node is not None and not isinstance(node, DictConfig)


def set_value(target: DictConfig, key: str, value: Any, name: str) -> None:
    """Set one typed value; a single value for a list becomes a list of one, and a text is never an interpolation.

    Args:
        target: a typed section.
        key: of the section, dotted.
        value: plain.
        name: the key in messages.

    Raises:
        UserError: for a key that the section has not, or a value of another type.
    """
    node = _node(target, key)
    if node is None:
        raise UserError(f"{name}: unknown key{nearest(key, list(map(str, target)))}", key=name)
    if isinstance(node, ListConfig) and not isinstance(value, list | tuple | ListConfig):
        value = [value]
    hint = node._metadata.ref_type
    kind = in_words(hint | None if node._is_optional() else hint)
    if hint is bool and isinstance(value, int | float) and value not in (0, 1):
        raise UserError(f"{name}={value}: must be {kind}", key=name)
    if _misshapen(value, node, kind):
        raise UserError(f"{name}={value}: must be {kind}", key=name)
    try:
        OmegaConf.update(target, key, literal(value))
    except OmegaConfBaseException as error:
        reason = f"must be {kind}" if kind else str(error).splitlines()[0]
        if value == "":
            raise UserError(
                f"{name}=: no value: it {reason}; leave {name} out for its default", key=name
            ) from error
        shown = {None: "null", True: "true", False: "false"}.get(value, value) if _simple(value) else value
        raise UserError(f"{name}={shown}: {reason}", key=name) from error


def _misshapen(value: Any, node: Any, kind: str) -> bool:
    """Whether a value has parts where plain ones belong, or is a text that an interpolation would stand for."""
    parts = value if isinstance(node, ListConfig) else [value]
    if kind in ("", "a list"):  # of what its fields say
        return False
    nested = any(isinstance(each, list | tuple | dict) for each in parts)
    return nested or ("text" not in kind and any(isinstance(each, str) and "${" in each for each in parts))


def literal(value: Any) -> Any:
    """Return a value whose texts OmegaConf reads back as they are: `${` would begin an interpolation."""
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", lambda found: rf"{found[1]}{found[1]}\${{", value)
    return [literal(each) for each in value] if isinstance(value, list | tuple) else value


def in_words(hint: Any) -> str:
    """Return what a field's type allows: `a whole number`, `a list of numbers`; empty where the type does not say."""
    if get_origin(hint) is Annotated:
        return in_words(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        kinds = [in_words(each) for each in get_args(hint) if each is not NoneType]
        return " or ".join([*kinds, "null"]) if all(kinds) else ""
    if get_origin(hint) is list:
        element = get_args(hint)[0]
        plain = get_args(element)[0] if get_origin(element) is Annotated else element
        return f"a list of {MANY[plain]}" if plain in MANY else "a list"
    return ONE.get(hint, "")


def _simple(value: Any) -> bool:
    return value is None or isinstance(value, bool)


def _node(part: DictConfig, key: str) -> Any:
    """Return the node of a dotted key, or None."""
    node: Any = part
    for name in key.split("."):
        if not isinstance(node, DictConfig):
            return None
        node = node._get_node(name, validate_access=False)  # also where it has no value yet
    return node


def set_table_option(dataset: DictConfig | None, key: str, rest: str, value: Any) -> None:
    """Set what the user says of a table of their own.

    Args:
        dataset: section of the dataset; None if the experiment has none.
        key: as typed, `dataset.` and the option.
        rest: the option.
        value: given.

    Raises:
        UserError: if the dataset is not a table of the user's, and for unknown options and values.
    """
    if dataset is None or dataset.get("loader") != "csv":
        name = dataset.get("name") if dataset is not None else "none"
        raise UserError(
            f"{key}: dataset {name} has no settings; for a file of your own add dataset=csv\n"
            f"its settings: {', '.join(CSV_OPTIONS)}",
            key=key,
        )
    if rest not in CSV_OPTIONS:
        synonym = CSV_SYNONYMS.get(rest.casefold())
        known = f"; did you mean '{synonym}'?" if synonym else nearest(rest, CSV_OPTIONS)
        raise UserError(
            f"{key}: unknown{known}\nvalid: {', '.join(f'dataset.{n}' for n in CSV_OPTIONS)}",
            key=key,
        )
    if rest == "task" and value not in TASKS:
        raise UserError(f"{key}={value}: valid: {', '.join(TASKS)}", key=key)
    set_value(dataset, rest, csv_value(rest, value), key)
