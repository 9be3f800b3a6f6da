"""Running the server as a process of its own."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator

from parent import die_with_parent

STOP_PATIENCE_S = 20.0


class ServerError(Exception):
    """The server did not start, or did not end well."""


@contextlib.contextmanager
def run_server(binary: pathlib.Path, config: pathlib.Path) -> Iterator[str]:
    """The address of a server on a free port; it is stopped at the end, however that comes."""
    if not binary.is_file():
        raise ServerError(f"there is no server binary at {binary}; `cargo xtask demo` builds it")
    command = [str(binary), "serve", "--config", str(config), "--port", "0"]
    # In a session of its own, so that Ctrl-C reaches us, and we stop it in the right order.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=die_with_parent,
        env={"RUST_LOG": "warn", **os.environ})
    try:
        # The server writes this one line when it is ready; when it cannot start, it ends and the line is empty.
        line = process.stdout.readline()
        ready = re.fullmatch(r"relive listening on (\S+)\n", line)
        if not ready:
            raise ServerError(f"the server did not start (status {process.wait(STOP_PATIENCE_S)}); its reason is above")
        yield ready[1]
    finally:
        process.terminate()
        try:
            process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
