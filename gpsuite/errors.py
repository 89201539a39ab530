"""Errors that the user can fix: one clear message, exit code 2, no traceback."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Iterable, Mapping


class UserError(Exception):
    """The user's input is wrong; the message names the key, the value and what is allowed.

    Args:
        message: one to four short lines.
        key: the configuration key, file or option at fault, if there is one.
        fix: settings that correct it: the command line shows the user's command with them, ready to paste.
    """

    def __init__(self, message: str, key: str | None = None, fix: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.fix = dict(fix or {})


class DataError(UserError):
    """A dataset is missing, changed, or not usable as asked."""


class MissingDataError(DataError):
    """A dataset's files were not found, and could not be downloaded."""


class ResultsError(UserError):
    """Results cannot be written, or another run holds them."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the allowed name closest to `name`, or an empty string if none is near."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def unknown_name(kind: str, name: str, allowed: Iterable[str]) -> UserError:
    """Build the error for a name that is not in a table, with the nearest valid name and the full list."""
    names = sorted(allowed)
    return UserError(f"{kind}={name}: unknown {kind}{nearest(name, names)}\nvalid: {', '.join(names)}", key=kind)


def missing_package(package: str, extra: str, asked: str, instead: str) -> UserError | None:
    """Return the error for a package that only some runs need, or None where it is installed.

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
