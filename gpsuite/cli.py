"""Words to functions, and how they ended to exit codes.

Exit codes: 0 done; 1 some tasks failed; 2 the user's input is wrong; 3 what was asked for is not possible (a plan
without a safe measurement); 130 interrupted, resumable.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from gpsuite import __version__
from gpsuite.commands import COMMANDS, MULTIRUN
from gpsuite.errors import UserError, unknown_name
from gpsuite.plugins import left_out
from gpsuite.text import visible, visible_lines

INTERRUPTED = 130
# how the system says that a library has no room
NO_MEMORY = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")
TRACED = {f"debug={yes}" for yes in ("true", "1", "yes", "on")}
# what plug-ins offer, too: a name may be unknown because one is left out
OFFERED = ("experiment", "dataset", "datasets", "method", "methods", "model")
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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the end
    code = None
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it may know few characters, and names need not be UTF-8
            stream.reconfigure(errors="backslashreplace")
    try:
        code = dispatch(words)
        sys.stdout.flush()
        return code
    except UserError as error:
        if TRACED & {word.lower() for word in words}:
            traceback.print_exc()
        print(f"gpsuite: {_four_lines(str(error), corrected(words, error.fix))}", file=sys.stderr)
        if error.key in OFFERED:
            for fault in left_out():
                print(f"gpsuite: {fault}", file=sys.stderr)
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
    if words[0] in ("-V", "--version"):
        print(f"gpsuite {__version__}")
        return 0
    command, rest = words[0], list(words[1:])
    if command not in COMMANDS:
        raise unknown_name("command", command, COMMANDS)
    module = importlib.import_module(f"gpsuite.commands.{command}")
    if "--help" in rest or "-h" in rest:
        asked = [word for word in rest if word not in ("-h", "--help", *MULTIRUN)]
        if hasattr(module, "explain") and any(word.startswith("experiment=") for word in asked):
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
    end = "gpsuite COMMAND --help says more; start with: gpsuite run experiment=tour"
    return "\n".join([head, "", *lines, "", end])


def corrected(words: Sequence[str], fix: Mapping[str, str]) -> str:
    """Return the user's command with other settings, to be pasted into a shell; empty without settings.

    For another experiment only the settings are kept that every experiment has.
    """
    if not fix:
        return ""
    kept = [word for word in words if word.partition("=")[0] not in fix]
    if "experiment" in fix:
        kept = [word for word in kept if "=" not in word or word.startswith(COMMON)]
    first = [f"experiment={fix['experiment']}"] if "experiment" in fix else []
    rest = [f"{key}={value}" for key, value in fix.items() if key != "experiment"]
    return shlex.join(["gpsuite", *kept[:1], *first, *kept[1:], *rest])


def _four_lines(text: str, command: str) -> str:
    lines = visible_lines(text).split("\n")
    return "\n".join([*lines[:3], visible(command)] if command else lines[:4])


if __name__ == "__main__":
    sys.exit(main())
