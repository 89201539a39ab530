"""Errors that the user can fix: one clear message, exit code 2, no traceback."""

from __future__ import annotations

import difflib
import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence

NEAR = 0.65  # likeness from which on a name counts as near, from 0 to 1
SHOWN_LETTERS = 140  # of a list of names in a message


class UserError(Exception):
    """The user's input is wrong. The message names the key, the value and what is allowed.

    Args:
        message: one to four short lines.
        key: the configuration key, file or option at fault, if there is one.
        fix: settings that correct it: the command line shows the user's command with them, ready to paste.
        better: a wrong name and the nearest right one, which the command line puts in its place.
    """

    def __init__(
        self,
        message: str,
        key: str | None = None,
        fix: Mapping[str, str] | None = None,
        better: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.key = key
        self.fix = dict(fix or {})
        self.better = better


class DataError(UserError):
    """A dataset is missing, changed, or not usable as asked."""


class MissingDataError(DataError):
    """A dataset's files were not found, and could not be downloaded."""


class ResultsError(UserError):
    """Results cannot be written, or another run holds them."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return the allowed name closest to `name`, or an empty string if none is near."""
    names = list(allowed)
    # the same letters, or the last part of a dotted key or of FAMILY/NAME
    same = [each for each in names if name and re.search(rf"(^|[./]){re.escape(name)}$", each, re.IGNORECASE)]
    return (same or difflib.get_close_matches(name, names, n=1, cutoff=NEAR) or [""])[0]


def unknown(text: str, name: str, allowed: Sequence[str], key: str | None = None) -> UserError:
    """Build the error for a name that is not among those allowed: the nearest one, or, if none is near, what there is.

    Args:
        text: what is wrong, such as `scale=qick: unknown scale`.
        name: the wrong name.
        allowed: the names, in the order in which they are shown.
        key: of the error.
    """
    near = nearest(name, allowed)
    if near:
        return UserError(f"{text}. Did you mean '{near}'?", key=key, better=(name, near))
    return UserError(f"{text}\nvalid: {few(allowed)}", key=key)


def few(names: Sequence[str]) -> str:
    """Return names with commas between them, as many as fit into two lines of a terminal, and how many more."""
    kept, length = 0, 0
    for name in names:
        length += len(name) + 2
        if length > SHOWN_LETTERS:
            break
        kept += 1
    left = len(names) - kept
    return ", ".join(names) if left <= 1 else f"{', '.join(names[:kept])} and {left} more"


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> UserError:
    """Build the error for a value that is not in a table of names."""
    return unknown(f"{kind}={name}: unknown {kind}", name, sorted(allowed), kind)


def missing_package(package: str, extra: str, asked: str, instead: str) -> UserError | None:
    """Return the error for a package that only some runs need, or None if it is installed.

    Args:
        package: the name it is imported by.
        extra: the extra of gpsuite that installs it.
        asked: the setting or command that needs it, as typed.
        instead: what works without it.
    """
    if importlib.util.find_spec(package) is not None:
        return None
    return UserError(
        f"{asked}: the package {package} is not installed\npip install 'gpsuite[{extra}]', or {instead}",
        key=asked.split("=")[0],
    )
