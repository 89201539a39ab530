"""Records of repetitions without running them: curves with a given error, safety and noise per repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.config.request import read_request
from gpsuite.experiments.active_learning.toy_tasks import ToySettings
from gpsuite.experiments.base import Record, Report


def record(
    method: str, repetition: int, rmse: Sequence[float], start: int = 12, status: str = "done", **own: Any
) -> Record:
    """Return a record whose RMSE curve is `rmse`; `own` gives arrays (sequences), metrics (numbers) or axes (words)."""
    steps = len(rmse)
    arrays = {
        "n_sum": np.arange(start, start + steps),
        "rmse": np.array(rmse),
        "log_density": -np.array(rmse),
        "safe_noisy": np.ones(steps),
        "safe_true": np.ones(steps),
        "precision_noisy": np.full(steps, 0.99),
        "precision_true": np.ones(steps),
        "p": np.zeros(steps),
        "row": np.arange(steps, dtype=np.float64),
    }
    axes: dict[str, str | int | float] = {"method": method, "repetition": repetition}
    metrics: dict[str, float | int | str | bool | None] = {}
    for name, value in own.items():
        if isinstance(value, str):
            axes[name] = value
        elif isinstance(value, int | float):
            metrics[name] = value
        else:
            arrays[name] = np.asarray(value)
    key = f"{method}{repetition}{axes}"
    return Record(key, "active_learning/toy", method, axes, status, "", metrics, {}, arrays=arrays)


def toy_report(folder: Path, note: str | None = None, **settings: Any) -> Report[ToySettings]:
    """Return an empty sheet of active_learning/toy, with some settings changed."""
    request, _ = read_request(["experiment=active_learning/toy", "scale=smoke"])
    return Report(replace(request, settings=replace(request.settings, **settings)), (), folder, note)  # type: ignore[arg-type, type-var]
