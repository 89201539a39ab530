"""Message about wrong input: at most four lines, with the corrected command if it is known."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence

from gpsuite.config.grammar import with_experiment
from gpsuite.config.spelling import as_typed
from gpsuite.errors import UserError
from gpsuite.text import line_width, visible, visible_lines, wrapped, wrapped_command

CUT = " ..."  # at the end of a message that continues
# how the words begin that any experiment understands
COMMON = ("dataset", "scale=", "seed=", "results_dir=", "data_dir=")


def mistake(error: UserError, words: Sequence[str]) -> str:
    """Return what stderr says of an error: its message about what was typed, and the corrected command."""
    text = as_typed(str(error), _of_run(words))
    return four_lines(f"gpsuite: {visible_lines(text)}", corrected(words, error))


def corrected(words: Sequence[str], error: UserError) -> list[str]:
    """Return the words of the user's command put right. None if nothing is known that would.

    For another experiment only the settings are kept that every experiment has.
    """
    if error.better is not None:
        return _with_name(words, *error.better)
    fix = dict(error.fix)
    if not fix:
        return []
    kept = [word for word in words if word.partition("=")[0] not in fix]
    if "experiment" in fix:
        named = with_experiment(kept[1:])
        kept = [word for word in [*kept[:1], *named] if "=" not in word or word.startswith(COMMON)]
    if "dataset.path" in fix and any(word.startswith("dataset=") for word in kept):
        path = fix.pop("dataset.path")
        kept = [f"dataset={path}" if word.startswith("dataset=") else word for word in kept]
    if kept[:1] == ["certify"] and "dataset.target" in fix:
        file = next(place for place, word in enumerate(kept) if place and "=" not in word)
        kept.insert(file + 1, fix.pop("dataset.target"))
    first = [f"experiment={fix['experiment']}"] if "experiment" in fix else []
    rest = [f"{key}={value}" for key, value in fix.items() if key != "experiment"]
    return ["gpsuite", *kept[:1], *first, *kept[1:], *rest]


def _of_run(words: Sequence[str]) -> list[str]:
    """Return the words after the command, with the experiment that it has where it names none."""
    return [*(["experiment=guarantee"] if words[:1] == ["certify"] else []), *words[1:]]


def _with_name(words: Sequence[str], wrong: str, right: str) -> list[str]:
    """Return the command with a name replaced, as a word, a key, a value or an entry of a list. None without it."""
    whole = re.compile(rf"(?<![\w./-]){re.escape(wrong)}(?![\w./-])")
    found = [whole.sub(lambda _: right, word) for word in words]
    return ["gpsuite", *found] if found != list(words) else []


def four_lines(text: str, command: Sequence[str]) -> str:
    """Return a message of at most four lines of a terminal. The command that ends it is never cut.

    Words are wrapped on a terminal only: a pipe gets each line whole.
    """
    width, wraps = line_width(sys.stderr), sys.stderr.isatty()
    ready = (wrapped_command(command, width) if wraps else [shlex.join(command)]) if command else []
    told = [part for line in text.split("\n") for part in (wrapped(line, width) if wraps else [line])]
    room = max(4 - len(ready), 1)
    if len(told) > room:
        last = told[room - 1]
        if wraps and len(last) > width - len(CUT):
            last = last[: width - len(CUT)].rpartition(" ")[0]
        told = [*told[: room - 1], f"{last}{CUT}"]
    return "\n".join([*told, *map(visible, ready)])
