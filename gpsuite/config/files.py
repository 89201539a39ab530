"""The files under conf/: where they are and which names they offer; nothing is composed, no experiment imported."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpsuite.data.catalogue import dataset_names, shipped_conf_dir
from gpsuite.errors import UserError


def conf_dir() -> Path:
    """Return conf/: inside the installed package, or at the top of a checkout."""
    return shipped_conf_dir()


def group_choices() -> dict[str, list[str]]:
    """Return the names each configuration group offers."""
    return _choices(conf_dir())


def method_families() -> dict[str, str]:
    """Return method -> family of every conf/method/FAMILY/NAME.yaml; methods are known only by their name.

    Raises:
        UserError: if two families have a method of one name.
    """
    return _families(conf_dir())


def method_family(experiment: str) -> str:
    """Return the family of the methods that an experiment takes: that of those in its file, else its own."""
    named = read_file("experiment", experiment).get("methods") or [""]
    return method_families().get(str(named[0]), experiment.split("/")[0])


@cache
def _choices(root: Path) -> dict[str, list[str]]:
    names = {group: _names(root / group) for group in ("experiment", "model", "parallel")}
    return {**names, "method": sorted(_families(root)), "dataset": dataset_names(root)}


@cache
def _families(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((root / "method").glob("*/*.yaml")):
        family, name = path.parent.name, path.stem
        if name in found:
            raise UserError(f"method={name}: named twice, in conf/method/{found[name]} and {family}", key="method")
        found[name] = family
    return found


def read_file(group: str, name: str) -> dict[str, Any]:
    """Return one file of a group as plain values, without composing."""
    inside = f"{method_families()[name]}/{name}" if group == "method" else name
    path = conf_dir() / group / f"{inside}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))
