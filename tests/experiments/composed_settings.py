"""Settings for tests: those of the YAML, where default values stand, with what a test changes."""

from __future__ import annotations

from typing import Any

from gpsuite.config.compose import compose_run
from gpsuite.config.overrides import Overrides


def composed_settings(experiment: str, scale: str = "paper", **changed: Any) -> Any:
    """Return the checked settings of an experiment at a scale."""
    values = {"scale": scale, **changed}
    return compose_run(experiment, Overrides({"experiment": experiment}, values)).settings
