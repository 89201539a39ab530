"""Progress on stderr while nothing can be counted: a spinner on a terminal, otherwise a line after a second.

Nothing heavy is imported here: loading libraries is the first thing that takes time.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time

FIRST_SECONDS = 1.0  # what ends sooner is not mentioned off a terminal
FRAME_SECONDS = 0.1
FRAMES, PLAIN_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\"
CLEAR = "\r\x1b[K"


class _Waiting(threading.Thread):
    def __init__(self, text: str, line: bool) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self._text, self._line, self._stream = text, line, sys.stderr

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # a closed stderr ends nothing
            if self._stream.isatty():
                self._spin()
            elif self._line and not self.ended.wait(FIRST_SECONDS):
                print(f"{self._text} ...", file=self._stream, flush=True)

    def _spin(self) -> None:
        unicode = (self._stream.encoding or "").lower().startswith("utf")
        began, drawn = time.monotonic(), False
        for frame in itertools.cycle(FRAMES if unicode else PLAIN_FRAMES):
            if self.ended.wait(FRAME_SECONDS):
                break
            spent = time.monotonic() - began
            told = f"{frame} {self._text}" + (f"  {spent:.0f} s" if spent >= FIRST_SECONDS else "")
            self._stream.write(f"{CLEAR}{told[: os.get_terminal_size(self._stream.fileno()).columns - 1]}")
            self._stream.flush()
            drawn = True
        if drawn:
            self._stream.write(CLEAR)
            self._stream.flush()


_now: list[_Waiting] = []


def doing(text: str, *, quiet: bool = False, line: bool = False) -> None:
    """Show what is running from now until `done`, or until something else is. Off a terminal only with `line`."""
    done()
    if not quiet and (line or sys.stderr.isatty()):
        _now.append(_Waiting(text, line))
        _now[-1].start()


def done() -> None:
    """Take back what `doing` shows, before anything is printed."""
    while _now:
        waiting = _now.pop()
        waiting.ended.set()
        waiting.join()
