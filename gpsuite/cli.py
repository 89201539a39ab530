"""Words to functions, and how they ended to exit codes.

Exit codes: 0 done; 1 some tasks failed; 2 the user's input is wrong; 3 what was asked for is not possible (a plan
without a safe measurement); 130 interrupted, resumable.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TextIO

from gpsuite import __version__
from gpsuite.commands import COMMANDS, MULTIRUN
from gpsuite.config.spelling import as_typed, with_experiment, without_dashes
from gpsuite.errors import UserError, unknown
from gpsuite.text import line_width, visible, visible_lines, wrapped

INTERRUPTED = 130
# how the system says that a library has no room
NO_MEMORY = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")
TRACED = {f"debug={yes}" for yes in ("true", "1", "yes", "on")}
# how the words begin that any experiment understands
COMMON = ("dataset", "scale=", "seed=", "results_dir=", "data_dir=")


def entry() -> int:
    """Return how `main` ended; the console script calls this. An interruption after its end changes nothing."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def main() -> int:
    """Run the command line in `sys.argv` and return the exit code."""
    words = sys.argv[1:]
    typed = words
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end
    code = None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it may know few characters, and names need not be UTF-8
            stream.reconfigure(errors="backslashreplace")
    try:
        words = without_dashes(typed)
        code = dispatch(words)
        sys.stdout.flush()
        return code
    except UserError as error:
        if TRACED & {word.lower() for word in words}:
            traceback.print_exc()
        text = as_typed(str(error), _of_run(words))
        print(four_lines(f"gpsuite: {visible_lines(text)}", visible(corrected(words, error))), file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        resumable = "interrupted; run the same command again to resume"
        print(f"gpsuite: {str(error) or resumable}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _silence(sys.stdout, sys.stderr)
        if code is None:  # a run is not finished by it
            return INTERRUPTED if words[:1] == ["run"] else 0
        return code
    except (MemoryError, ImportError, OSError) as error:
        if _lacks_memory(error):
            print("gpsuite: not enough memory\nallow more (ulimit -v unlimited), or ask for less", file=sys.stderr)
            return 2
        if not isinstance(error, OSError) or error.filename is not None or not _refuses(sys.stdout, error.errno):
            raise
        print(f"gpsuite: cannot write to stdout: {error.strerror}", file=sys.stderr)
        _silence(sys.stdout)
        return 2


def _lacks_memory(error: MemoryError | ImportError | OSError) -> bool:
    """Whether the memory has ended; the system loads no library then, which Python takes for one that is missing."""
    if isinstance(error, ImportError):
        return any(text in str(error) for text in NO_MEMORY)
    return isinstance(error, MemoryError) or error.errno == errno.ENOMEM


def _refuses(stream: TextIO, number: int | None) -> bool:
    """Whether a stream refuses even an empty line, with this error number."""
    try:
        stream.write("\n")
        stream.flush()
    except OSError as error:
        return error.errno == number
    return False


def _silence(*streams: TextIO) -> None:
    # what is still in their buffers would fail again at the program's end
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream.fileno())


def dispatch(words: Sequence[str]) -> int:
    """Call the command that the first word names.

    Raises:
        UserError: for an unknown command.
    """
    if words[:1] == ["help"] and len(words) == 2:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] == "--version":
        print(f"gpsuite {__version__}")
        return 0
    command, rest = words[0], list(words[1:])
    if command not in COMMANDS:
        raise unknown(f"{command}: unknown command", command, list(COMMANDS))
    module = importlib.import_module(f"gpsuite.commands.{command}")
    if "--help" in rest or "-h" in rest:
        asked = [word for word in rest if word not in ("-h", "--help", *MULTIRUN)]
        named = any(word.startswith("experiment=") for word in with_experiment(asked))
        if hasattr(module, "explain") and named:
            return int(module.explain(asked))
        print(module.HELP.strip())
        return 0
    run: Callable[[list[str]], int] = module.main
    return run(rest)


def usage() -> str:
    """Return the text of `gpsuite --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    head = "gpsuite: Gaussian processes with guarantees, rerun, checked and extended"
    end = "gpsuite COMMAND --help says more; start with: gpsuite run tour"
    return "\n".join([head, "", *lines, "", end])


def corrected(words: Sequence[str], error: UserError) -> str:
    """Return the user's command put right, to be pasted into a shell; empty if nothing is known that would.

    For another experiment only the settings are kept that every experiment has.
    """
    if error.better is not None:
        return _with_name(words, *error.better)
    fix = dict(error.fix)
    if not fix:
        return ""
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
    return shlex.join(["gpsuite", *kept[:1], *first, *kept[1:], *rest])


def _of_run(words: Sequence[str]) -> list[str]:
    """Return the words after the command, with the experiment that it has where it names none."""
    return [*(["experiment=guarantee"] if words[:1] == ["certify"] else []), *words[1:]]


def _with_name(words: Sequence[str], wrong: str, right: str) -> str:
    """Return the command with a name replaced, as a word, a key, a value or an entry of a list; empty without it."""
    whole = re.compile(rf"(?<![\w./-]){re.escape(wrong)}(?![\w./-])")
    found = [whole.sub(lambda _: right, word) for word in words]
    return shlex.join(["gpsuite", *found]) if found != list(words) else ""


def four_lines(text: str, command: str) -> str:
    """Return a message of at most four lines of a terminal; the command that ends it is never cut.

    Words are wrapped on a terminal only: a pipe gets each line whole.
    """
    width, wraps = line_width(sys.stderr), sys.stderr.isatty()
    room = 4 - -(-len(command) // width) if command else 4
    told: list[str] = []
    for line in text.split("\n"):
        parts = wrapped(line, width)
        if len(parts) > room:
            parts = [*parts[: max(room, 1) - 1], f"{parts[max(room, 1) - 1][: width - 4]} ..."] if room > 0 else []
        told += parts if wraps else [" ".join(parts)] if parts else []
        room -= len(parts)
    return "\n".join([*told, command] if command else told)


if __name__ == "__main__":
    sys.exit(main())
