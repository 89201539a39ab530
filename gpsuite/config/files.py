"""The files under conf/: where they are and which names they offer."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpsuite.data.catalogue import dataset_names, shipped_conf_dir


def conf_dir() -> Path:
    """Return conf/: inside the installed package, or at the top of a checkout."""
    return shipped_conf_dir()


@cache
def group_choices() -> dict[str, list[str]]:
    """Return the names each configuration group offers."""
    root = conf_dir()
    names = {group: _names(root / group) for group in ("experiment", "method", "model", "parallel")}
    return {**names, "dataset": dataset_names(root)}


def read_file(group: str, name: str) -> dict[str, Any]:
    """Return one file of a group as plain values, without composing."""
    path = conf_dir() / group / f"{name}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))
