"""Starts and stops the two kinds of servers."""

from __future__ import annotations

import base64
import ctypes
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading

import reverb
from google.protobuf import text_format
from reverb.server_executable import reverb_config_pb2

from . import raw
from .wait import PATIENCE_S, Background


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """Ensures that no server remains after an interrupted run, for example one that reached its time limit."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class ServerFailed(AssertionError):
    """The error for a server that did not start or did not end properly; contains the server's output."""


class Running:
    """A server that accepts connections, and ways to reach it."""

    def __init__(self, launcher, tables, port: int, handle) -> None:
        self._launcher = launcher
        self._tables = tables
        self._raw_clients: list[raw.Client] = []
        self.port = port
        self.handle = handle

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self) -> reverb.Client:
        return reverb.Client(self.address)

    def raw(self) -> raw.Client:
        """Returns a gRPC client with its own connection, which is closed with the server."""
        client = raw.Client(self.address)
        self._raw_clients.append(client)
        return client

    def stop(self) -> None:
        """Stops the server; idempotent. Fails if the server does not end properly."""
        for client in self._raw_clients:
            client.close()
        self._raw_clients.clear()
        handle, self.handle = self.handle, None
        if handle is not None:
            self._launcher.stop(self.port, handle)

    def start_again(self) -> None:
        """Restarts with empty tables of the same configuration, on the same port."""
        self.port, self.handle = self._launcher.launch(self._tables, self.port)


    def start_rival(self) -> None:
        """Starts another server of the same configuration on the same port."""
        self._launcher.launch(self._tables, self.port)


class ReverbServers:
    """dm-reverb servers, all in one other process; in this process, clients would bypass the network."""

    def __init__(self) -> None:
        host = pathlib.Path(__file__).with_name("reverb_host.py")
        self._process = subprocess.Popen(
            [sys.executable, str(host)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, bufsize=1,
            preexec_fn=die_with_parent)
        self._ready = False

    def start(self, *tables) -> Running:
        return Running(self, tables, *self.launch(tables, 0))

    def launch(self, tables, port: int):
        encoded = [base64.b64encode(table.SerializeToString()).decode() for table in tables]
        answer = self._ask({"start": encoded, "port": port})
        return answer["port"], object()

    def stop(self, port: int, _handle) -> None:
        self._ask({"stop": port})

    def close(self) -> None:
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    def _ask(self, command: dict) -> dict:
        if not self._ready:
            self._answer()
            self._ready = True
        self._process.stdin.write(json.dumps(command) + "\n")
        return self._answer()

    def _answer(self) -> dict:
        line = Background(self._process.stdout.readline).result(60.0)
        if not line:
            raise ServerFailed(f"the dm-reverb host ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ServerFailed(answer["error"])
        return answer


class ReliveServers:
    """Relive's servers, one process each: `relive serve --config FILE --port N`."""

    def __init__(self, binary: pathlib.Path) -> None:
        self._binary = binary
        self._folder = tempfile.TemporaryDirectory(prefix="relive-interop-")
        self._count = 0

    def start(self, *tables, arguments=()) -> Running:
        return Running(self, tables, *self.launch(tables, 0, arguments))

    def launch(self, tables, port: int, arguments=()):
        config = reverb_config_pb2.ReverbServerConfig(tables=tables)
        return self.launch_text(text_format.MessageToString(config), "textproto", port, arguments)

    def launch_text(self, text: str, kind: str, port: int = 0, arguments=()):
        """Starts a server from the text of a configuration file, with further arguments."""
        self._count += 1
        path = pathlib.Path(self._folder.name, f"server{self._count}.{kind}")
        path.write_text(text)
        handle = _Process(self._binary, path, port, arguments)
        return handle.port, handle

    def start_text(self, text: str, kind: str) -> Running:
        return Running(self, None, *self.launch_text(text, kind))

    def stop(self, _port: int, handle: "_Process") -> None:
        handle.stop()

    def close(self) -> None:
        self._folder.cleanup()


class _Process:
    """One server process; its output is kept for the report on a failure."""

    def __init__(self, binary: pathlib.Path, config: pathlib.Path, port: int, arguments=()) -> None:
        command = [str(binary), "serve", "--config", str(config), "--port", str(port), *arguments]
        self._stdout: list[str] = []
        self._stderr: list[str] = []
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=die_with_parent)
        self._readers = [
            threading.Thread(target=_collect, args=(self._process.stdout, self._stdout), daemon=True),
            threading.Thread(target=_collect, args=(self._process.stderr, self._stderr), daemon=True),
        ]
        first_line = Background(self._process.stdout.readline).result()
        for reader in self._readers:
            reader.start()
        ready = re.fullmatch(r"relive listening on 127\.0\.0\.1:(\d+)\n", first_line)
        if not ready:
            self._process.kill()
            status = self._wait()
            raise ServerFailed(f"relive serve ended with {status} after {first_line!r}: {self.stderr}")
        self.port = int(ready[1])

    @property
    def stderr(self) -> str:
        return "".join(self._stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """Ends the server without a shutdown, as a crash would."""
        self._process.kill()
        self._wait()

    def stop(self) -> None:
        """Ends the server as a user would; it must end in time, with status 0, and must not have panicked before."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        elif self._process.returncode == -signal.SIGKILL:
            return
        try:
            status = self._wait()
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise ServerFailed(f"relive serve did not end within {PATIENCE_S} s of SIGTERM: {self.stderr}") from None
        if status != 0 or "panicked" in self.stderr:
            raise ServerFailed(f"relive serve ended with {status}: {self.stderr}")

    def _wait(self) -> int:
        status = self._process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return status


def _collect(stream, lines: list[str]) -> None:
    for line in stream:
        lines.append(line)
