"""The files under conf/: their places and the names they offer. Nothing is composed, no experiment imported."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpsuite.data.catalogue import dataset_names
from gpsuite.errors import UserError
from gpsuite.plugins import conf_files, shipped_conf_dir


def conf_dir() -> Path:
    """Return conf/: inside the installed package, or at the top of a checkout."""
    return shipped_conf_dir()


def group_choices() -> dict[str, list[str]]:
    """Return the names each configuration group offers."""
    return _choices(conf_dir())


def method_families() -> dict[str, str]:
    """Return method -> family of every conf/method/FAMILY/NAME.yaml. Methods are known only by their name.

    Raises:
        UserError: if two families have a method of one name.
    """
    return _families(conf_dir())


def families_of_methods(experiment: str) -> set[str]:
    """Return the families of an experiment's methods: those of the methods in its file, otherwise the experiment's."""
    named, families = read_file("experiment", experiment).get("methods") or [], method_families()
    return {families[str(name)] for name in named if str(name) in families} or {experiment.split("/")[0]}


@cache
def _choices(root: Path) -> dict[str, list[str]]:
    names = {group: sorted(conf_files(root, group)) for group in ("experiment", "model", "parallel")}
    return {**names, "method": sorted(_families(root)), "dataset": dataset_names(root)}


@cache
def _families(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in conf_files(root, "method"):
        family, name = path.split("/")
        if name in found:
            raise UserError(f"method={name}: named twice, in conf/method/{found[name]} and {family}", key="method")
        found[name] = family
    return found


def read_file(group: str, name: str) -> dict[str, Any]:
    """Return one file of a group as plain values, without composing."""
    inside = f"{method_families()[name]}/{name}" if group == "method" else name
    content = yaml.safe_load(conf_file(group, inside).read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def conf_file(group: str, name: str) -> Path:
    """Return `GROUP/NAME.yaml` of ours or of a plug-in."""
    return conf_files(conf_dir(), group).get(name, conf_dir() / group / f"{name}.yaml")
