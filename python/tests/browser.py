"""A headless Chromium, controlled over a pipe with the DevTools protocol; requires only Debian's package."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")

# This program becomes the browser, which reads from descriptor 3 and writes to descriptor 4.
_TAKE_PIPES = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(pipe), fcntl.F_DUPFD, 20) for pipe in sys.argv[1:3]]
os.dup2(pipes[0], 3)
os.dup2(pipes[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

# Longer than any operation takes unless it hangs.
_PATIENCE_S = 60.0


def program() -> str:
    """Returns the path of the browser. If the browser is missing and the user may install it, installs Debian's
    package."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None and (apt := shutil.which("apt-get")):
        _install(apt)
        found = shutil.which("chromium")
    if found is None:
        pytest.fail("there is no Chromium, and no right to install it: apt-get install chromium, as root")
    return found


def _install(apt: str) -> None:
    """Installs Debian's package, if the user has permission."""
    if os.geteuid() == 0:
        rights = []
    elif sudo := shutil.which("sudo"):
        rights = [sudo, "-n"]
    else:
        return
    for step in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", "chromium"]):
        subprocess.run([*rights, apt, *step], check=False, capture_output=True, timeout=600)


class Page:
    """One page of a browser."""

    def __init__(self, to: int, replies: BinaryIO) -> None:
        self._to, self._from = to, replies
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._read()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                result: dict[str, Any] = reply["result"]
                return result
            self._note(reply)

    def _read(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self._from.read(1)) != b"\0":
            assert byte, "the browser has ended"
            text += byte
        reply: dict[str, Any] = json.loads(text)
        return reply

    def _note(self, event: dict[str, Any]) -> None:
        """Collects the errors of the browser's console."""
        method, about = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(about["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(about["args"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])

    def show(self, width: int, height: int, scheme: str) -> None:
        """Sets the size of the window, and the preferred color scheme, ``light`` or ``dark``."""
        self._call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, url: str) -> None:
        """Opens a page."""
        self._call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Evaluates JavaScript and returns its value."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, expression: str) -> Any:
        """Evaluates JavaScript until its value is true, and returns the value."""
        deadline = time.monotonic() + _PATIENCE_S
        while not (value := self.value(expression)):
            assert time.monotonic() < deadline, f"{expression} stays {value!r}; {self.complaints}"
            self.value("new Promise((done) => requestAnimationFrame(done))")
        return value

    def picture(self, path: Path) -> None:
        """Saves an image of the whole page."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def browse() -> Iterator[Page]:
    """Provides a page of a browser that is closed at the end of the block."""
    browser = program()
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-c", _TAKE_PIPES, str(in_read), str(out_write), browser]
        command += ["--headless=new", "--no-sandbox"]
        command += ["--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}"]
        process = subprocess.Popen(
            command, pass_fds=(in_read, out_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(in_read)
        os.close(out_write)
        try:
            with os.fdopen(out_read, "rb") as replies:
                yield Page(in_write, replies)
        finally:
            process.kill()
            process.wait()
            os.close(in_write)
