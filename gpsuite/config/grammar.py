"""Spellings of `key=value` on the command line. Nothing heavy is imported here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpsuite.errors import UserError

OPTIONS = ("-h", "--help", "-m", "--multirun", "--version")  # no settings
FORMATS = ("text", "quiet", "json")  # of what a run prints. Once `output=`
FLAGS = ("force", "wait", "debug", "strict", "dataset.strict")  # true if no value follows


def without_dashes(words: Sequence[str]) -> list[str]:
    """Return the words with `--key value` and `--key=value` as `key=value`. A flag without value is true."""
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word in OPTIONS or word == "--":
            found.append(word)
            continue
        key, equals, value = word[2:].partition("=")
        key = key.replace("-", "_")
        if not equals and key in FLAGS and rest[:1] not in (["true"], ["false"]):
            value = "true"
        elif not equals:
            if not rest or (rest[0].startswith("-") and not re.match(r"-[\d.]", rest[0])):
                raise UserError(f"{word}: a value is missing. Write {word} VALUE or {key}=VALUE", key=key)
            value = rest.pop(0)
        found.append(f"{key}={value}")
    return found


def with_experiment(words: Sequence[str]) -> list[str]:
    """Return the words with the first bare one as the experiment, if no word names one."""
    bare = [word for word in words if "=" not in word and not word.startswith(("-", "+", "~"))]
    if not bare or any(word.startswith("experiment=") for word in words):
        return list(words)
    return [f"experiment={word}" if word == bare[0] else word for word in words]
