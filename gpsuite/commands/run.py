"""`gpsuite run`: one experiment, several one after another with -m, or the tour; --help shows the settings."""

from __future__ import annotations

import contextlib
import csv
import io
import shlex
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpsuite.commands import MULTIRUN
from gpsuite.commands.tables import number, say, show_json
from gpsuite.config.explain import Setting, explain_settings
from gpsuite.config.files import conf_dir, group_choices, read_file
from gpsuite.config.grammar import with_experiment
from gpsuite.config.overrides import expand_sweeps, read_overrides
from gpsuite.config.spelling import as_typed, hints, in_full, stored
from gpsuite.errors import UserError
from gpsuite.reporting.catalogue import read_experiments
from gpsuite.reporting.files import read_bytes
from gpsuite.text import visible, visible_lines
from gpsuite.waiting import doing, done

if TYPE_CHECKING:
    from gpsuite.engine.plans import RunOptions
    from gpsuite.engine.runner import RunReport
    from gpsuite.experiments.tasks import Request

HELP = """
gpsuite run <family>/<name> [key=value ...]      --key value is the same

  scale=smoke|quick|paper   smallest, default, the paper's own setting
  method=NAME | methods=[A,B]   swap methods            dataset=NAME   swap the dataset
  datasets=[A,B]            where an experiment runs over several
  dataset=FILE dataset.target=COLUMN   your data (gpsuite data describe FILE shows how it is read)
  predict=FILE              new rows to predict, with experiment=guarantee
  seed=0                    another seed                 kernel=NAME   another kernel
  parallel=auto|serial|processes [parallel.workers=N]    threads=1     per process
  parallel=dask parallel.address=tcp://HOST:PORT         a running Dask scheduler
  results_dir=results  run_name=NAME  force=true  on_error=continue|raise  wait=true  debug=true
  format=text|quiet|json    the answer and paths, only the folder, or one JSON object per run on stdout
  output=FILE               a file for what stdout would get
  budget.seconds=S          wall-clock limit per task. The best valid answer is kept

gpsuite run -m experiment=A,B seed=0,1     every combination, one after another
gpsuite run NAME --help                    its settings: values, meanings, what is allowed
gpsuite run tour                           one quick experiment of each family, the answers, the report

The same command resumes after an interruption. Exit codes: 0 done, 1 some tasks failed, 2 wrong input,
3 not possible (a plan without a safe measurement), 130 interrupted. For several runs the smallest that is not 0.
"""
TOUR = "experiment=tour"
_WORST_FIRST = (1, 2, 3, 0)
LONGEST_KEY, WIDEST, NARROWEST = 34, 120, 60  # letters of `key=value` before its meaning, and of a line


def main(words: list[str]) -> int:
    """Run what the words request. Everything is validated before anything is computed."""
    began = time.monotonic()
    runs, tour = expanded_runs(words)
    quiet = all("format=quiet" in run for run in runs)
    doing("loading", quiet=quiet, line=True)

    from gpsuite.config.request import read_request
    from gpsuite.engine.runner import TaskFailedError, run_experiment

    doing("reading settings and data", quiet=quiet, line=True)
    requests = [read_request(run, allow_absent=True) for run in runs]
    requests[0] = (requests[0][0], replace(requests[0][1], began=began))
    _refuse_one_folder(requests)
    _prepare(runs, requests, words)
    code, answers = 0, []
    for request, options in requests:
        try:
            report = run_experiment(request, options)
        except TaskFailedError as failed:
            print(f"gpsuite: {visible_lines(str(failed))}", file=sys.stderr)
            return 1
        except UserError as error:  # another run holds the folder, for example: the other runs continue
            if len(requests) == 1:
                raise
            text = as_typed(str(error), options.command[2:])
            print(f"gpsuite: {request.experiment}: {visible_lines(text)}", file=sys.stderr)
            code = min(code, 2, key=_WORST_FIRST.index)
            continue
        code = min(code, report.exit_code, key=_WORST_FIRST.index)
        for label, reason, trace in report.failures:
            print(f"failed: {visible(f'{label}: {reason}')}\n  traceback: {visible(str(trace))}", file=sys.stderr)
        with contextlib.suppress(BrokenPipeError):  # a closed pipe does not end the other runs
            shown = "quiet" if tour and options.format == "text" else options.format
            _tell(request, report, shown, time.monotonic() - began)
        began = time.monotonic()
        answers += [f"{request.experiment}: {line}" for line in report.answer[:1]]
    if tour:
        _end_tour(requests[0][1], answers)
    return code


def expanded_runs(words: Sequence[str]) -> tuple[list[list[str]], bool]:
    """Return the words of each run, several with -m, and whether the tour is among them. Set the thread limit."""
    multirun = any(word in MULTIRUN for word in words)
    words = with_experiment([word for word in words if word not in MULTIRUN])
    runs = [in_full(run) for run in (expand_sweeps(words, group_choices()) if multirun else [words])]
    tour = any(TOUR in run for run in runs)
    runs = [stop for run in runs for stop in _stops(run)]
    _limit_threads(runs)
    return runs, tour


def _stops(run: Sequence[str]) -> list[list[str]]:
    """Return the words of each run: the tour is one run per entry of its file, or the first `stops=` entries."""
    if TOUR not in run:
        return [list(run)]
    for key in ("method", "methods"):
        if any(word.startswith(f"{key}=") for word in run):
            advice = "leave it out, or name one experiment, as in experiment=robustness/safety method=laplace"
            raise UserError(f"{key}: every stop of the tour has its own methods\n{advice}", key=key)
    stops = read_file("experiment", "tour")["stops"]
    counts = [word.removeprefix("stops=") for word in run if word.startswith("stops=")]
    allowed = [str(count) for count in range(1, len(stops) + 1)]
    if any(count not in allowed for count in counts):
        fault = f"the tour has {len(stops)} stops\nvalid: {', '.join(allowed)}"
        raise UserError(f"stops={counts[0]}: {fault}", key="stops")
    others = [word for word in run if word != TOUR and not word.startswith("stops=")]
    return [[*stop, *others] for stop in stops[: int(counts[-1]) if counts else None]]


def _limit_threads(runs: Sequence[Sequence[str]]) -> None:
    """Give BLAS and TensorFlow the thread count requested: sums on one and two threads differ in last bits."""
    from gpsuite.engine.worker import limit_threads

    asked = [word.partition("=")[2] for run in runs for word in run if word.startswith("threads=")]
    threads = int(asked[0]) if asked and asked[0].isdigit() else 1
    limit_threads(max(threads, 1))


def _refuse_one_folder(requests: Sequence[tuple[Request[object], RunOptions]]) -> None:
    """Raise if runs of different settings share the folder of one `run_name`, before any is computed."""
    from gpsuite.engine.folder import run_folder

    seen: dict[Path, str] = {}
    for request, options in requests:
        folder = run_folder(options.results_dir, request.experiment, request.scale, options.tag)
        if options.named and seen.setdefault(folder, options.science) != options.science:
            fault = f"several runs with different settings would write {folder}. Leave run_name out"
            raise UserError(f"run_name={options.tag}: {fault}", key="run_name")


def _prepare(
    runs: Sequence[Sequence[str]], requests: Sequence[tuple[Request[object], RunOptions]], words: Sequence[str]
) -> None:
    """Require the data of every run, then say what was decided in reading them."""
    from gpsuite.engine.runner import require_data

    for request, options in requests:
        require_data(request, options)
    done()
    _say_decisions([request for request, options in requests if options.format != "quiet"])
    say_hints([run for run, (_, options) in zip(runs, requests, strict=True) if options.format != "quiet"], words)


def say_hints(runs: Sequence[Sequence[str]], words: Sequence[str]) -> None:
    """Say on stderr which settings were given by an earlier name. `words` as typed."""
    if not {"output=json", "output=text"}.isdisjoint(words):
        say("gpsuite: output= names a file now. What is printed is format=, and this version takes both", sys.stderr)
    for hint in dict.fromkeys(hint for run in runs for hint in hints(run)):
        say(f"gpsuite: {hint}", sys.stderr)


def _say_decisions(requests: Sequence[Request[object]]) -> None:
    # once per decision that was made when the user's own tables were read
    read = [request.dataset for request in requests if request.dataset is not None]
    for note in dict.fromkeys(note for dataset in read for note in dataset.notes):
        say(f"dataset=csv: {visible(note)}", sys.stderr)


def _tell(request: Request[object], report: RunReport, output: str, seconds: float) -> None:
    from gpsuite.engine.progress import clock, tell

    if output == "json":
        show_json(_plain(request, report))
        return
    for line in report.answer if output == "text" else ():
        say(visible_lines(line))
    for warning in report.warnings:
        say(f"warning: {visible_lines(warning)}", sys.stderr)
    print(visible(str(report.folder)))
    for path in _files(report.folder) if output == "text" else ():
        print(f"  {visible(str(path))}")
    if output == "text":
        first = _first_file(report.folder)
        tell(visible(f"took {clock(seconds)}" + (f". Open {first} first" if first else "")))


def _plain(request: Request[object], report: RunReport) -> dict[str, Any]:
    return {
        "experiment": request.experiment,
        "scale": request.scale,
        "folder": str(report.folder),
        "exit_code": report.exit_code,
        "tasks": dict(report.counts),
        "answer": list(report.answer),
        "warnings": list(report.warnings),
        "failures": [
            {"task": label, "reason": reason, "traceback": str(trace)} for label, reason, trace in report.failures
        ],
        "tables": {path.stem: _numbers(path) for path in sorted(report.folder.glob("tables/*.csv"))},
        "comparison": _numbers(report.folder / "comparison.csv"),
        "files": [str(path) for path in sorted(report.folder.rglob("*")) if path.is_file()],
    }


def _numbers(path: Path) -> list[dict[str, str | float | None]]:
    """Return a table's rows, numbers as numbers. None if there is no such file."""
    if not path.is_file():
        return []
    rows = csv.DictReader(io.StringIO(read_bytes(path).decode("utf-8"), newline=""))
    return [{key: number(cell) for key, cell in row.items()} for row in rows]


def _files(folder: Path) -> list[Path]:
    patterns = ("tables/*.md", "figures/*.png", "comparison.csv")  # what a user opens first
    return [path for pattern in patterns for path in sorted(folder.glob(pattern))]


def _first_file(folder: Path) -> Path | None:
    patterns = ("page.html", "answer.md", "figures/*.png", "tables/*.md")
    return next((path for pattern in patterns for path in sorted(folder.glob(pattern))), None)


def _end_tour(options: RunOptions, answers: Sequence[str]) -> None:
    """Print the first answer of every stop, and write the page of all results."""
    from gpsuite.commands.report import show_page

    if options.format == "text":
        for line in ["", *answers, ""]:
            say(visible_lines(line))
    # with format=json stdout has an object per run and nothing else
    show_page(options.results_dir, sys.stderr if options.format == "json" else None)


def explain(words: Sequence[str]) -> int:
    """Print the settings of the experiment named: values for these words, meanings, what is allowed."""
    from gpsuite.config.request import experiment_name

    overrides = stored(read_overrides(in_full(words), group_choices()))
    name = experiment_name(overrides)
    stops = read_file("experiment", name).get("stops")
    note = read_experiments(conf_dir())[name]
    print(textwrap.fill(f"{name}: {note.title}", _line_width()))
    print(f"source: {'; '.join(filter(None, (note.paper, note.figure))) or 'none'}")
    cost = ", ".join(f"scale={scale} {time}" for scale, time in note.cost.items())
    print(f"cost: {cost}. Data: {', '.join(note.data) or 'none'}")
    if stops is not None:
        print("\nit is these runs, one after another. stops=N runs the first N")
        for stop in stops:
            print(f"  gpsuite run {shlex.join(stop)}")
        return 0
    for title, settings in explain_settings(name, overrides).items():
        print(f"\n{title}")
        for setting in settings:
            _print(setting)
    print(f"\ngpsuite show {' '.join(words)}   shows settings, tasks and their cost without running them")
    return 0


def _print(setting: Setting) -> None:
    typed = f"  {setting.key}={setting.value}"
    meaning = f"{setting.meaning.rstrip('.')} ({setting.allowed})" if setting.allowed else setting.meaning
    indents: dict[str, Any] = dict.fromkeys(("initial_indent", "subsequent_indent"), " " * (LONGEST_KEY + 2))
    lines = textwrap.wrap(meaning, _line_width(), break_long_words=False, break_on_hyphens=False, **indents)
    if lines and len(typed) < LONGEST_KEY + 1:
        lines[0] = f"{typed:<{LONGEST_KEY + 2}}{lines[0].strip()}"
    else:
        lines.insert(0, typed)
    print("\n".join(lines))


def _line_width() -> int:
    if not sys.stdout.isatty():
        return WIDEST
    return min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
