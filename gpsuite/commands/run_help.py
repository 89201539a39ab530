"""`gpsuite run experiment=X --help`: what can be set of one experiment."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Sequence

from gpsuite.config.explain import Setting, explain_settings
from gpsuite.config.files import conf_dir, group_choices, read_file
from gpsuite.config.overrides import read_overrides
from gpsuite.reporting.catalogue import read_experiments

LONGEST_KEY, WIDEST, NARROWEST = 34, 120, 60
"""Letters of `key=value` beside its meaning, and of a line."""


def explain(words: Sequence[str]) -> int:
    """Print the settings of the experiment named, with their values for these words, meanings and what is allowed."""
    overrides = read_overrides(words, group_choices())
    name = overrides.groups["experiment"]
    stops = read_file("experiment", name).get("stops")
    note = read_experiments(conf_dir())[name]
    print(textwrap.fill(f"{name}: {note.title}", _line_width()))
    print(f"source: {'; '.join(filter(None, (note.paper, note.figure))) or 'none'}")
    cost = ", ".join(f"scale={scale} {time}" for scale, time in note.cost.items())
    print(f"cost: {cost}; data: {', '.join(note.data) or 'none'}")
    if stops is not None:
        print(
            "\n".join(
                [
                    "",
                    "it is these runs, one after another; stops=N: the first N of them",
                    *(f"  gpsuite run {shlex.join(stop)}" for stop in stops),
                ]
            )
        )
        return 0
    for title, settings in explain_settings(name, overrides).items():
        print(f"\n{title}")
        for setting in settings:
            _print(setting)
    print(f"\ngpsuite show {' '.join(words)}   settings, tasks and their cost; nothing is run")
    return 0


def _print(setting: Setting) -> None:
    typed = f"  {setting.key}={setting.value}"
    meaning = f"{setting.meaning.rstrip('.')} ({setting.allowed})" if setting.allowed else setting.meaning
    below = " " * (LONGEST_KEY + 2)
    lines = textwrap.wrap(
        meaning,
        _line_width(),
        initial_indent=below,
        subsequent_indent=below,
        break_long_words=False,
        break_on_hyphens=False,
    )
    if lines and len(typed) < LONGEST_KEY + 1:
        lines[0] = f"{typed:<{LONGEST_KEY + 2}}{lines[0].strip()}"
    else:
        lines.insert(0, typed)
    print("\n".join(lines))


def _line_width() -> int:
    if not sys.stdout.isatty():
        return WIDEST
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
