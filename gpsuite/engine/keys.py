"""A task's key: a hash of all values that decide its numbers, and of no others."""

from __future__ import annotations

import hashlib
import json

from gpsuite.experiments.base import Task
from gpsuite.experiments.tasks import plain


def canonical_json(value: object) -> str:
    """Return JSON with sorted keys and no white space: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def short_hash(value: object, length: int = 20) -> str:
    """Return the first `length` hex digits of the SHA-256 of the value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "backslashreplace")).hexdigest()[:length]


def task_key(task: Task[object]) -> str:
    """Return the task's key: the hash of parameters, dataset content and method version, which decide its numbers."""
    content = task.dataset.content_hash if task.dataset is not None else None
    science = {
        "family": task.experiment.split("/")[0],
        "params": plain(task.params),
        "dataset": content,
        "version": task.version,
    }
    return short_hash(science)
