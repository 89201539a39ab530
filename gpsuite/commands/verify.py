"""`gpsuite verify`: an independent check of a certificate, by the kind that it states."""

from __future__ import annotations

import importlib
import math
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpsuite.certificates.envelope import MOST_MINUTES, read_envelope
from gpsuite.certificates.risk import UNNAMED_TARGET
from gpsuite.commands.tables import number, show_json
from gpsuite.config.files import conf_dir
from gpsuite.config.spelling import is_table, with_tables
from gpsuite.data.catalogue import read_spec
from gpsuite.data.dataset import Dataset, Task
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CSV_OPTIONS, CsvSpec, csv_value, from_plain, to_plain
from gpsuite.data.table.describe import ask_target
from gpsuite.errors import DataError, UserError, unknown_name
from gpsuite.text import visible, visible_name
from gpsuite.untrusted import UnusableFileError, file_pair, guard_links, read_file, refuse_links
from gpsuite.waiting import doing, done

HELP = """
gpsuite verify CERTIFICATE [dataset=NAME] [minutes=10] [format=json]
gpsuite verify RUN          every certificate of a run's folder, on the run's own table unless another is given
gpsuite verify CERTIFICATE dataset=my.csv dataset.target=NAME [dataset.inputs=...] [dataset.KEY=... as in the run]

Checks a certificate without the code that found it. CERTIFICATE is the name of either of its files, NAME.npz and
NAME.json. Prints what it is about, what it claims, and what was checked.

A certificate of a range is checked on three levels:

(a) The bound holds for the stored posterior. Boxes are rebuilt from the cuts. Every bound is computed again in a
    simpler way, with its rounding added. Witnesses are evaluated.
(b) The stored posterior is the one of the stored rows and labels: Laplace, EP or variational, for several classes
    Laplace with the softmax. Of a regression it is exact, or sparse at the optimum of its bound. Its stationarity
    equations hold within 1e-6. That is the mean in prior standard deviations and the covariance relative to the
    prior's, at any input, and for EP the moments of every site. Hyperparameters, inducing inputs and jitter are taken
    as stated.
(c) Those rows, labels and the point are the dataset's, to the last bit. This is checked if the dataset is given.

What must be trusted besides this program: numpy, scipy and LAPACK, the C library's exp and erfc, and the processor's
floats of 64 and 80 bits. Where long floats are no longer than 64 bits nothing is checked (exit code 2). Bounds of
rounding assume errors of a few units in the last place. There is no interval arithmetic and no proof checker.
Such a certificate holds its training rows, at most 160 MB (4,400 rows). Share it as you would share the data.
`gpsuite publish` leaves it out.

A certificate of a risk (pac_bayes, pac_bayes_classes) holds the predictor. Risk, KL and bound are computed again from
it and the dataset, which must be given.

A check that would take more than 10 minutes is refused with the command that allows more (minutes=).

Exit code 0: nothing refuted, and (a) confirmed. 1: refuted, with the reason. 2: not a usable certificate, or not the
dataset that a certificate of a risk is checked on.
"""

CSV_KEYS = tuple(key for key in CSV_OPTIONS if key not in ("safety", "limit", "candidates"))

Checker = Callable[[Path, dict[str, Any], Dataset | None, float], tuple[int, list[str]]]
"""From the certificate's path, its description, the dataset given, if any, and the most minutes to exit code and what
to print."""


@dataclass(frozen=True)
class Kind:
    """One kind of certificate and its check.

    Attributes:
        module: its `verify_certificate` is a `Checker`.
        task: what a CSV is read as if `dataset.task` does not say.
    """

    module: str
    task: Task


CONFIG, LARGEST_CONFIG = "config.yaml", 1 << 20  # of a run's folder. Bytes that are read of it
VERDICTS = {0: "confirmed", 1: "refuted"}
UNUSABLE = "not usable"
RANGES = "gpsuite.certificates.verification"
KINDS = {
    "classification": Kind(RANGES, "classification"),
    "regression": Kind(RANGES, "regression"),
    "pac_bayes": Kind("gpsuite.certificates.risk_verification", "regression"),
    "pac_bayes_classes": Kind("gpsuite.certificates.class_risk_verification", "classification"),
}


def main(words: list[str]) -> int:
    """Check the certificate named and print what follows from it."""
    if not words or words[0].startswith("-"):
        raise UserError("verify: name one certificate, for example: gpsuite verify point_7.npz")
    words, as_json = _without_format(with_tables(words))
    path = Path(words[0])
    given, minutes = _minutes(words[1:])
    if path.is_dir():
        answers = _verify_run(guard_links(path), given, minutes, as_json)
    else:
        try:
            answers = [_verify(_existing(path), given, minutes, as_json)]
        except UnusableFileError as error:
            again = "" if "\n" in str(error) else "\nask the sender for both files again"
            raise UnusableFileError(f"{error}{again}") from error
    if as_json:
        show_json({"certificates": answers} if path.is_dir() else answers[0])
    return max(int(answer["exit_code"]) for answer in answers)


def _verify_run(run: Path, given: Sequence[str], minutes: float, as_json: bool) -> list[dict[str, Any]]:
    """Check every certificate of a run. One that is not usable does not end the check of the others."""
    answers = []
    for path in _certificates(run):
        try:
            answers.append(_verify(path, given, minutes, as_json, run))
        except UnusableFileError as error:
            done()
            found = [[UNUSABLE, *str(error).splitlines()]]
            answers.append({"certificate": path, "verdict": None, "exit_code": 2, "found": found})
            if not as_json:
                print(f"{visible(str(path))}\t{UNUSABLE}: {visible(' '.join(found[0][1:]))}")
    if not as_json and len(answers) > 1:
        counts = Counter(answer["verdict"] or UNUSABLE for answer in answers)
        print(f"{len(answers)} certificates\t{', '.join(f'{count} {name}' for name, count in counts.items())}")
    return answers


def _verify(path: Path, given: Sequence[str], minutes: float, as_json: bool, run: Path | None = None) -> dict[str, Any]:
    """Check one certificate, on the table that the words name, otherwise on that of its run.

    Print what follows from it.
    """
    description = read_envelope(path)
    kind = _kind(description, path)
    dataset = _dataset(given, kind.task, _target(description)) if given or run is None else _table_of(run, kind.task)
    doing("checking")
    check: Checker = importlib.import_module(kind.module).verify_certificate
    code, lines = check(path, description, dataset, minutes)
    done()
    for line in () if as_json else lines:
        print("\t".join(map(visible, line.split("\t"))))
    return {"certificate": path, "verdict": VERDICTS.get(code), "exit_code": code, "found": _found(lines[1:])}


def _certificates(run: Path) -> list[Path]:
    """Return the certificates in a run's folder.

    Raises:
        UserError: if there is none.
    """
    refuse_links(run / "certificates")
    found = sorted((run / "certificates").glob("*.npz"))
    if not found:
        single = sorted(run.glob("*.npz"))
        named = f"name one: gpsuite verify {shlex.quote(str(single[0]))}" if single else ""
        fix = named or "run its experiment with force=true"
        raise UserError(f"{run}: no certificate in its folder certificates/\n{fix}")
    return found


def _table_of(run: Path, task: Task) -> Dataset:
    """Return the dataset that a run's config.yaml names.

    Raises:
        UserError: if it names none that can be read.
    """
    try:
        asked = yaml.safe_load(read_file(run / CONFIG, LARGEST_CONFIG))
        stated, place = asked["dataset"], Path(asked["data_dir"])
        spec = from_plain({**stated, "new": None} if "new" in stated else stated)
    except (OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{run / CONFIG}: names no dataset\nadd dataset=NAME or dataset.path=FILE") from error
    try:
        return load(prepare(spec, cache_dir=place, default_task=task))
    except DataError as error:
        if not isinstance(spec, CsvSpec):
            raise
        fault = str(error).splitlines()[0]
        raise DataError(f"{fault}\nif the run's table is elsewhere now, add dataset.path=FILE", key=error.key) from None


def _without_format(words: Sequence[str]) -> tuple[list[str], bool]:
    """Return the other words, and whether the answer is one JSON object."""
    given = [word.removeprefix("format=") for word in words if word.startswith("format=")]
    for form in given:
        if form not in ("text", "json"):
            raise unknown_name("format", form, ["text", "json"])
    return [word for word in words if not word.startswith("format=")], given[-1:] == ["json"]


def _found(lines: Sequence[str]) -> list[list[str | float | None]]:
    """Return the lines' cells, numbers as numbers."""
    return [[number(cell) for cell in line.split("\t")] for line in lines]


def _minutes(words: Sequence[str]) -> tuple[list[str], float]:
    """Return the other words, and how long the check may take."""
    given = [word.removeprefix("minutes=") for word in words if word.startswith("minutes=")]
    if not given:
        return list(words), MOST_MINUTES
    try:
        minutes = float(given[-1])
    except ValueError:
        minutes = math.nan
    if not minutes > 0:
        raise UserError(f"minutes={given[-1]}: must be a number above 0", key="minutes")
    return [word for word in words if not word.startswith("minutes=")], minutes


def _existing(path: Path) -> Path:
    """Return the path of a certificate's files, or say what a certificate is."""
    arrays, description = file_pair(path)
    if description.exists():
        return path
    if arrays.exists():
        raise UserError(f"{description} is missing. A certificate is two files: ask the sender for this one too")
    state = "is not a certificate" if path.exists() else "is not there"
    raise UserError(
        f"{path} {state}. A certificate is two files, NAME.npz and NAME.json next to it\n"
        "runs of guarantee, robustness/safety, robustness/regression, pac_bayes/regression and pac_bayes/mnist write "
        "certificates/"
    )


def _kind(description: dict[str, Any], path: Path) -> Kind:
    kind = description.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise UnusableFileError(f"{path}: a certificate of an unknown kind; valid: {', '.join(KINDS)}")
    return KINDS[kind]


def _target(description: dict[str, Any]) -> str | None:
    """Return the target column that a certificate of a regression states. Those of classes state none."""
    about = {"regression": ("origin", "outputs"), "pac_bayes": ("dataset", "target")}.get(description["kind"])
    try:
        stated = None if about is None else description[about[0]][about[1]]
    except (KeyError, TypeError):  # no certificate, which its check reports
        return None
    name = stated[0] if isinstance(stated, list) and stated else stated
    return name if isinstance(name, str) and name != UNNAMED_TARGET else None


def _dataset(words: Sequence[str], task: Task, target: str | None) -> Dataset | None:
    """Return the dataset that `dataset=` and `dataset.KEY=` words name, or None.

    Args:
        words: of the command, after the certificate.
        task: what a CSV is read as if the words do not say.
        target: the column that the certificate states, if it does. A message names it.

    Raises:
        UserError: for other words or a dataset that cannot be read.
    """
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            named = f"\na table is given by dataset.path={shlex.quote(word)} dataset.target=COLUMN"
            table = named if is_table(word) else ""
            raise UserError(f"{word}: expected key=value. Verify checks one certificate at a time{table}")
        if key in given:
            raise UserError(f"{key}: given twice", key=key)
        if key not in ("dataset", "data_dir", *(f"dataset.{name}" for name in CSV_KEYS)):
            valid = ", ".join(["dataset", "data_dir", *(f"dataset.{name}" for name in CSV_KEYS)])
            raise UserError(f"{key}: unknown setting\nvalid: {valid}", key=key)
        given[key] = value
    data_dir = Path(given.pop("data_dir", "data"))
    if not given:
        return None
    spec = read_spec(conf_dir(), given.pop("dataset", "csv"))
    if given and not isinstance(spec, CsvSpec):
        raise UserError(f"{next(iter(given))}: only dataset=csv has settings", key="dataset")
    keys = {key: key.removeprefix("dataset.") for key in given}
    own = {keys[key]: csv_value(keys[key], value) for key, value in given.items()}
    if own.get("path") and not own.get("target"):
        if target is None:
            raise ask_target(str(own["path"]), task)
        told = f"dataset.target: name the column that the certificate is about, {visible_name(target)}"
        raise UserError(told, key="dataset.target", fix={"dataset.target": target})
    try:
        return load(prepare(from_plain({**to_plain(spec), **own}), cache_dir=data_dir, default_task=task))
    except UserError as error:
        if "experiment" not in error.fix:
            raise
        fault = str(error).splitlines()[0]
        raise UserError(f"{fault}\nthe certificate is about a {task}: give its dataset", key=error.key) from None
