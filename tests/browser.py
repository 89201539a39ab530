"""A headless Chromium, spoken to over a pipe: only what the tests of the page need."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


def installed() -> str | None:
    """Return where a browser is, if one is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A page in a browser; what it asks of the network and what its console says are kept."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read = os.fdopen(write, "wb"), os.fdopen(read, "rb")
        self._number, self._session = 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []

    def open(self, path: Path, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        """Open a file at a width in pixels."""
        target = self.tell("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Network", "Runtime", "Log"):
            self.tell(f"{part}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.tell("Emulation.setDeviceMetricsOverride", **size)
        self.tell("Page.navigate", url=path.resolve().as_uri())
        self.value(
            "new Promise((done) => document.readyState === 'complete' ? done(1) : addEventListener('load', done))"
        )

    def value(self, script: str) -> Any:
        """Return what an expression of JavaScript gives."""
        found = self.tell("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def close(self) -> None:
        """End the conversation; the browser then ends too."""
        self._write.close()
        self._read.close()

    def picture(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self.tell("Page.captureScreenshot")["data"]))

    def tell(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command of the DevTools protocol and return its answer."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._number, "method": method, "params": values, **session}
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer.get("method", ""), answer.get("params", {}))

    def _receive(self) -> dict[str, Any]:
        content = bytearray()
        while (letter := self._read.read(1)) != b"\0":
            assert letter, "the browser has ended"
            content += letter
        answer: dict[str, Any] = json.loads(content)
        return answer

    def _note(self, event: str, about: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif event == "Runtime.exceptionThrown" or (event == "Runtime.consoleAPICalled" and about["type"] == "error"):
            self.complaints.append(json.dumps(about)[:500])
        elif event == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.complaints.append(about["entry"]["text"])


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile; it ends with the block."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars")

    def hand_over() -> None:  # the protocol's pipe is file 3 and 4
        first, second = os.dup(theirs_in), os.dup(theirs_out)
        high = [os.dup2(first, 13), os.dup2(second, 14)]
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    process = subprocess.Popen(
        [program, *options, f"--user-data-dir={profile}", "about:blank"],
        preexec_fn=hand_over,
        close_fds=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    page = Browser(ours_out, ours_in)
    try:
        yield page
    finally:
        page.close()
        process.terminate()
        process.wait(timeout=30)
