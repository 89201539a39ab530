"""A report sheet for tests of tables and figures that need no plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpsuite.experiments.base import MethodOptions, Report, Request
from gpsuite.models.config import ModelSpec


def made_up_report(
    folder: Path,
    titles: Mapping[str, str] | None = None,
    *,
    experiment: str = "active_learning/toy",
    settings: Any = None,
    note: str | None = None,
) -> Report[Any]:
    """Return a sheet without records, for methods of these titles."""
    methods = {name: MethodOptions("none", title, "none") for name, title in (titles or {}).items()}
    return Report(Request(experiment, "paper", 0, settings, methods, ModelSpec()), (), folder, note)
