"""Words to functions, and how they ended to exit codes.

Exit codes: 0 done, 1 some tasks failed, 2 the user's input is wrong, 3 what was requested is not possible (a plan
without a safe measurement), 130 interrupted, resumable.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import TextIO

from gpsuite import __version__
from gpsuite.commands import COMMANDS, MULTIRUN
from gpsuite.config.grammar import FORMATS, with_experiment, without_dashes
from gpsuite.errors import UserError, unknown
from gpsuite.plugins import left_out
from gpsuite.text import line_width, typed_path, visible, wrapped
from gpsuite.waiting import doing, done

INTERRUPTED = 130
# errors by which the system reports a lack of memory
NO_MEMORY = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")
TRACED = {f"debug={yes}" for yes in ("true", "1", "yes", "on")}
# what plug-ins offer, too: a name may be unknown because one is left out
OFFERED = ("experiment", "dataset", "datasets", "method", "methods", "model")
# With less address space OpenBLAS, once it is being loaded, waits for memory without end.
COMPUTING, LEAST_MEMORY = {"bench", "certify", "predict", "recheck", "run", "show", "verify"}, 1 << 29
QUIET = {"format=quiet", "output=quiet"}


def entry() -> int:
    """Return how `main` ended. The console script calls this. An interruption after its end changes nothing."""
    code = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def main() -> int:
    """Run the command line in `sys.argv` and return the exit code."""
    words = sys.argv[1:]
    code = None
    _ready_streams()
    try:
        words = without_dashes(words)
        code = _shown(words)
        sys.stdout.flush()
        return code
    except UserError as error:
        if TRACED & {word.lower() for word in words}:
            traceback.print_exc()
        from gpsuite.commands.mistakes import mistake

        print(mistake(error, words), file=sys.stderr)
        if error.key in OFFERED:
            for fault in left_out():
                print(f"gpsuite: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        resumable = "interrupted. Run the same command again to resume"
        print(f"gpsuite: {str(error) or resumable}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has seen enough
        _silence(sys.stdout, sys.stderr)
        if code is None:  # a run is not finished by it
            return INTERRUPTED if words[:1] == ["run"] else 0
        return code
    except (MemoryError, ImportError, OSError) as error:
        if _lacks_memory(error):
            print("gpsuite: not enough memory\nallow more (ulimit -v unlimited), or run less", file=sys.stderr)
            return 2
        if not isinstance(error, OSError) or error.filename is not None or not _refuses(sys.stdout, error.errno):
            raise
        print(f"gpsuite: cannot write to stdout: {error.strerror}", file=sys.stderr)
        _silence(sys.stdout)
        return 2


def _ready_streams() -> None:
    """Make stdout and stderr take every text that is printed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it may know few characters, and names need not be UTF-8
            stream.reconfigure(errors="backslashreplace")


def _lacks_memory(error: MemoryError | ImportError | OSError) -> bool:
    """Return whether the memory has ended.

    The system loads no library then, which Python reports as missing.
    """
    if isinstance(error, ImportError):
        return any(text in str(error) for text in NO_MEMORY)
    return isinstance(error, MemoryError) or error.errno == errno.ENOMEM


def _refuses(stream: TextIO, number: int | None) -> bool:
    """Return whether a stream refuses even an empty line, with this error number."""
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


def _shown(words: list[str]) -> int:
    """Call the command. Until it prints something, say that it is being loaded."""
    quiet = words[:1] == ["completion"] or not QUIET.isdisjoint(words)
    doing("loading", quiet=quiet, line=words[:1] in (["run"], ["certify"]))
    try:
        return _dispatch_to_file(words)
    finally:
        done()


def _dispatch_to_file(words: list[str]) -> int:
    """Call the command. With `output=FILE` the file gets what stdout would, and stdout the file's name.

    `gpsuite predict` writes its own file: what it prints and what it stores are two things.
    """
    given = [word for word in words if word.startswith("output=") and word.partition("=")[2] not in FORMATS]
    if not given or words[:1] == ["predict"]:
        return dispatch(words)
    path = typed_path(given[-1].partition("=")[2])
    if path.exists() or not path.parent.is_dir():
        why = "file exists. Choose another name" if path.exists() else "name a file in an existing folder"
        raise UserError(f"{given[-1]}: {why}", key="output")
    kept = io.StringIO()
    with contextlib.redirect_stdout(kept):
        code = dispatch([word for word in words if word not in given])
    from gpsuite.reporting.files import write_text

    write_text(path, kept.getvalue())
    print(visible(str(path)))
    return code


def dispatch(words: Sequence[str]) -> int:
    """Call the command that the first word names.

    Raises:
        UserError: for an unknown command.
        MemoryError: if the process may have less address space than its libraries need.
    """
    if words[:1] == ["help"] and len(words) == 2:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        done()
        print(usage())
        return 0
    if words[0] in ("-V", "--version"):
        done()
        print(f"gpsuite {__version__}")
        return 0
    command, rest = words[0], list(words[1:])
    if command not in COMMANDS:
        raise unknown(f"{command}: unknown command", command, list(COMMANDS))
    if command in COMPUTING and 0 <= resource.getrlimit(resource.RLIMIT_AS)[0] < LEAST_MEMORY:
        raise MemoryError
    module = importlib.import_module(f"gpsuite.commands.{command}")
    done()
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
    longest = max(map(len, COMMANDS))
    lines, indent = [f"  {name:<{longest}}  {text}" for name, text in COMMANDS.items()], " " * (longest + 4)
    head = "gpsuite: Gaussian processes with guarantees, rerun, checked and extended"
    end = "every command: --key value is key=value, format=json gives numbers, output=FILE keeps what is printed"
    more = "gpsuite COMMAND --help says more. Start with: gpsuite run tour"
    width = line_width(sys.stdout)
    told = [each for line in [*lines, "", end, more] for each in wrapped(line, width, indent)]
    return "\n".join([head, "", *told])


if __name__ == "__main__":
    sys.exit(main())
