"""Model files: one .npz of plain arrays and a JSON description, nothing pickled; the files are whole or not there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.atomic import write_atomically
from gpsuite.errors import UserError

T = TypeVar("T")


class ModelFileError(UserError):
    """A model file is missing, damaged, or not one of ours."""


@dataclass(frozen=True)
class ModelFile:
    """One kind of model file.

    Attributes:
        format: its name in the description.
        version: of the format.
        noun: what it holds, in messages.
    """

    format: str
    version: int
    noun: str

    def write(self, path: Path, description: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> None:
        """Write the arrays under their names, and as `description` the JSON text with format and version."""
        text = json.dumps({"format": self.format, "version": self.version, **description})
        entries = {"description": np.array(text), **arrays}
        write_atomically(path, lambda stream: np.savez(stream, **entries))

    def read(self, path: Path, rebuild: Callable[[Mapping[str, Any], Mapping[str, FloatArray]], T]) -> T:
        """Return what `rebuild` makes of description and arrays.

        Raises:
            ModelFileError: if the file is missing, damaged, of another format or version, or `rebuild` fails.
        """
        arrays = self._arrays(path)
        try:
            description = json.loads(str(arrays["description"]))
            self._require_format(description)
            return rebuild(description, arrays)
        except KeyError as error:
            raise ModelFileError(f"{path}: not a complete {self.noun} file, {error} is missing") from error
        except (UserError, ValueError, TypeError) as error:
            raise ModelFileError(f"{path}: not a usable {self.noun} file: {error}") from error

    def _arrays(self, path: Path) -> dict[str, FloatArray]:
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except FileNotFoundError as error:
            raise ModelFileError(f"{path}: there is no such {self.noun} file") from error
        except Exception as error:
            # Damaged bytes surface from zipfile, zlib or numpy as almost any exception.
            raise ModelFileError(f"{path}: not a {self.noun} file, or damaged ({error})") from error

    def _require_format(self, description: Mapping[str, Any]) -> None:
        if description["format"] != self.format or description["version"] != self.version:
            raise ValueError(
                f"format {description['format']} version {description['version']}, "
                f"expected {self.format} version {self.version}"
            )
