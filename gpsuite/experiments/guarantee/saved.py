"""The model that a run of guarantee keeps, on disk: arrays and a description, nothing pickled."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.atomic import write_atomically
from gpsuite.experiments.guarantee.saved_classifier import SavedClassifier
from gpsuite.experiments.guarantee.saved_regression import SavedRegression
from gpsuite.models.storage import ModelFileError

FORMAT, VERSION = "gpsuite-guarantee-model", 2
PREFIX, DESCRIPTION = "model_", "model_description"  # of the arrays of a record
ARRAYS, TEXT = "model.npz", "model.json"  # in the run's folder `model`
FOLDER = "model"

Saved = SavedRegression | SavedClassifier
KINDS: Mapping[str, type[Saved]] = {each.task: each for each in (SavedRegression, SavedClassifier)}


def packed(saved: Saved) -> dict[str, npt.NDArray[Any]]:
    """Return a model as arrays of a record."""
    return {
        DESCRIPTION: np.array(json.dumps(_description(saved))),
        **{f"{PREFIX}{name}": array for name, array in saved.arrays.items()},
    }


def unpacked(arrays: Mapping[str, npt.NDArray[Any]], guarantee: Sequence[str] = ()) -> Saved:
    """Return the model in a record's arrays, with what the run proved."""
    values = json.loads(str(arrays[DESCRIPTION]))
    kept = {
        name.removeprefix(PREFIX): array
        for name, array in arrays.items()
        if name.startswith(PREFIX) and name != DESCRIPTION
    }
    return KINDS[values["task"]].rebuilt({**values, "guarantee": list(guarantee)}, kept)


def write_model(saved: Saved, folder: Path) -> None:
    """Write `folder`/model.npz and model.json, which names the arrays' hash: files of two runs do not fit.

    Raises:
        OSError: if a file cannot be written.
    """
    buffer = io.BytesIO()
    np.savez(buffer, **saved.arrays)
    content = buffer.getvalue()
    description = {
        "format": FORMAT,
        "version": VERSION,
        **_description(saved),
        "arrays_sha256": hashlib.sha256(content).hexdigest(),
    }
    text = json.dumps(description, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_atomically(folder / ARRAYS, lambda stream: stream.write(content))
    write_atomically(folder / TEXT, lambda stream: stream.write(text.encode()))


def load(run: str | Path) -> Saved:
    """Return the model of a run of guarantee, for predictions and as GPflow's (`gpflow_model`).

    Args:
        run: the run's folder.

    Raises:
        ModelFileError: if the folder holds no model, or a damaged one.
    """
    folder = Path(run) / FOLDER
    try:
        content, text = (folder / ARRAYS).read_bytes(), (folder / TEXT).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFileError(
            f"{run}: no model of a run\ngive the folder of a run of experiment=guarantee, such as "
            "results/guarantee/quick~1a2b3c4d"
        ) from error
    try:
        values = json.loads(text)
        if (values.pop("format"), values.pop("version")) != (FORMAT, VERSION):
            raise ValueError("of another format or version; run experiment=guarantee again")
        if values.pop("arrays_sha256") != hashlib.sha256(content).hexdigest():
            raise ValueError(f"{ARRAYS} and {TEXT} are not of one run, or damaged")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return KINDS[values["task"]].rebuilt(values, {name: file[name] for name in file.files})
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{folder}: not a usable model: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _description(saved: Saved) -> dict[str, Any]:
    values = {each.name: getattr(saved, each.name) for each in fields(saved) if each.name != "arrays"}
    return {
        "task": saved.task,
        **{name: _plain(value) for name, value in values.items()},
    }
