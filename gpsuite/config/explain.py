"""Settings of an experiment: keys, values, meanings and rules, from the settings' declarations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, ListConfig, OmegaConf

from gpsuite.config.compose import METHOD_FIXED, compose_sections, fitting_datasets, fitting_methods, fitting_models
from gpsuite.config.files import group_choices, read_file
from gpsuite.config.overrides import Overrides
from gpsuite.config.spelling import ERRORS, PAIR, public_names
from gpsuite.config.typed import RunSettings, in_words
from gpsuite.data.spec import CSV_OPTIONS, CsvSpec
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.experiments.settings import OneOf, Rule
from gpsuite.models.config import ModelSpec

ERRORS_MEANING = "largest error of each of these inputs, in its units. Without an amount: radius. Empty: all inputs"


@dataclass(frozen=True)
class Setting:
    """One setting: dotted key and value as typed (empty if one must be given), and type and rules in words."""

    key: str
    value: str
    meaning: str
    allowed: str


def explain_settings(experiment: str, overrides: Overrides) -> dict[str, list[Setting]]:
    """Return the settings of an experiment by section, with the values that the user's words give them.

    Raises:
        UserError: as `compose_run`, but not for a value that is still missing.
    """
    sections = compose_sections(experiment, overrides).sections
    entry = EXPERIMENTS.get(experiment)
    own = _settings(entry.settings, sections["settings"], "", renamed=public_names(experiment))
    found = {"settings": _public(experiment, list(own))}
    found["parts"] = list(_choices(experiment, overrides, sections))
    chosen = [name for name in sections if name.startswith("method/")]
    for name in chosen:
        title = f"method {name.removeprefix('method/')}"
        schema = OmegaConf.get_type(sections[name])
        found[title] = list(_settings(schema, sections[name], "method.", without=METHOD_FIXED))
    if entry.model_keys:
        parts = _settings(ModelSpec, sections["model"], "model.", only=entry.model_keys)
        kernels = {"model.kernel": f"{', '.join(entry.kernels[:-1])} or {entry.kernels[-1]}."}
        found["model"] = [replace(each, meaning=kernels.get(each.key, each.meaning)) for each in parts]
    if "dataset" in sections and sections["dataset"].get("loader") == "csv":
        found["your table"] = list(_settings(CsvSpec, sections["dataset"], "dataset.", only=CSV_OPTIONS))
    found["every run"] = list(_settings(RunSettings, sections["run"], ""))
    return {title: settings for title, settings in found.items() if settings}


def _public(experiment: str, settings: list[Setting]) -> list[Setting]:
    """Return the settings under their public names: of several with one name the first, of two that are one both."""
    names = public_names(experiment)
    values = {each.key: each.value for each in settings}
    found: dict[str, Setting] = {}
    for each in settings:
        if each.key == PAIR[1]:
            continue
        if each.key == PAIR[0]:
            typed = values[PAIR[0]] if values[PAIR[1]] == "[]" else _paired(values[PAIR[0]], values[PAIR[1]])
            found[ERRORS] = Setting(ERRORS, typed, ERRORS_MEANING, "{NAME: AMOUNT, ...} or [NAME, ...]")
            continue
        key = names.get(each.key, each.key)
        found.setdefault(key, replace(each, key=key))
    return list(found.values())


def _paired(names: str, amounts: str) -> str:
    pairs = zip(names[1:-1].split(","), amounts[1:-1].split(","), strict=False)
    return f"{{{','.join(f'{name}:{amount}' for name, amount in pairs)}}}"


def _choices(experiment: str, overrides: Overrides, sections: Mapping[str, DictConfig]) -> Iterator[Setting]:
    entry, groups = EXPERIMENTS.get(experiment), group_choices()
    if entry.method_traits:
        names = [name.removeprefix("method/") for name in sections if name.startswith("method/")]
        valid = f"of {', '.join(fitting_methods(experiment))}"
        yield Setting("methods", f"[{','.join(names)}]", "methods to run. method=NAME runs one", valid)
    if entry.several_datasets:
        meaning = "datasets to run over. The experiment's own by default"
        yield Setting("datasets", "", meaning, _one(fitting_datasets(experiment)))
    elif entry.variants:
        meaning = "its files, prepared for one pair of outputs or another"
        yield Setting("dataset", str(sections["dataset"]["name"]), meaning, _one(list(entry.variants)))
    elif entry.dataset_tasks:
        name = str(sections["dataset"]["name"]) if "dataset" in sections else ""
        kinds = f"a {' or '.join(entry.dataset_tasks)} dataset, or csv for your table"
        yield Setting("dataset", name, kinds, "see gpsuite list datasets")
    if entry.model_keys:
        shown = OmegaConf.to_container(sections["model"])
        model = next((name for name in groups["model"] if read_file("model", name) == shown), "")
        yield Setting("kernel", model, "or set its parts below", _one(fitting_models(experiment)))
    parallel = overrides.groups.get("parallel", "auto")
    yield Setting("parallel", parallel, "place where tasks run", _one(groups["parallel"]))


def _settings(
    schema: Any,
    section: DictConfig,
    prefix: str,
    without: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Setting]:
    meanings, hints = field_meanings(schema), get_type_hints(schema, include_extras=True)
    names = [each.name for each in fields(schema) if each.name not in without]
    for name in names if not only else [name for name in only if name in names]:
        node = section._get_node(name)
        if isinstance(node, DictConfig) and is_dataclass(hints[name]):
            yield from _settings(hints[name], node, f"{prefix}{name}.")
        else:
            value = "" if OmegaConf.is_missing(section, name) else _as_typed(section[name])
            meaning = re.sub(r"`(\w+)`", lambda word: f"`{renamed.get(word[1], word[1])}`", meanings.get(name, ""))
            yield Setting(f"{prefix}{name}", value, meaning.replace("`", ""), allowed(hints[name]))


def _as_typed(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | ListConfig):
        return f"[{','.join(map(_as_typed, value))}]"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def allowed(hint: Any) -> str:
    """Return type and rules of a field in words: `a whole number, 1 or more`."""
    kind, rules = in_words(hint), [re.sub("^must (be|lie) ", "", rule) for rule in _rules(hint)]
    kind = "" if kind.startswith("a text") else kind
    told = any(rule.startswith(("one of", "a number", "a plain", "a folder")) for rule in rules)
    if told and kind.endswith(" or null"):
        rules.append("or null")
    return ", ".join(dict.fromkeys(rules if told or not kind else [kind, *rules]))


def _rules(hint: Any) -> Iterator[str]:
    if get_origin(hint) is Annotated:
        plain, *rules = get_args(hint)
        for rule in rules:
            if isinstance(rule, OneOf):
                yield _one(list(rule.names() if callable(rule.names) else rule.names))
            elif isinstance(rule, Rule):
                yield rule.allowed.split("\n")[-1].removeprefix("valid: ")
        yield from _rules(plain)
    elif get_origin(hint) is list:
        yield from (f"each {rule}" for rule in _rules(get_args(hint)[0]))
    elif get_origin(hint) in (Union, UnionType):
        for choice in get_args(hint):
            if choice is not NoneType:
                yield from _rules(choice)


def _one(names: list[str]) -> str:
    return f"one of {', '.join(names)}"


def field_meanings(schema: type) -> dict[str, str]:
    """Return what the `Attributes:` of a dataclass and its bases say of each field, on one line."""
    found: dict[str, str] = {}
    for each in reversed(schema.__mro__):
        _, _, listed = inspect.cleandoc(each.__dict__.get("__doc__") or "").partition("Attributes:\n")
        name = ""
        for line in listed.splitlines():
            text = line.strip()
            indent = len(line) - len(line.lstrip())
            if not text or indent == 0:
                break
            if indent == 4:
                name, _, text = (part.strip() for part in text.partition(":"))
                found[name] = text
            else:
                found[name] = f"{found[name]} {text}".strip()
    return {name: re.sub(r"\bNone\b", "null", text) for name, text in found.items()}
