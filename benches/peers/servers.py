"""The compared servers, each in its own process, and the resources that these processes use."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

SERVERS = ("reverb", "relive")
PRIORITY_EXPONENT = 0.6
STOP_PATIENCE_S = 30.0

CONFIG = """
[[table]]
name = "t"
sampler = {sampler}
remover = "fifo"
max_size = {max_size}
rate_limiter = {{ min_size = 1 }}
"""


SAMPLERS = {"uniform": '"uniform"', "prioritized": f"{{ prioritized = {PRIORITY_EXPONENT} }}"}


@dataclass
class Server:
    address: str
    pid: int

    def cpu_seconds(self) -> float:
        """Returns the user and system time of all threads so far."""
        # The name of the program, in parentheses, may contain spaces; fields are counted after it.
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        user_ticks, system_ticks = int(fields[11]), int(fields[12])
        return (user_ticks + system_ticks) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        pages = int(pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def connections(self) -> int:
        """Returns the number of established TCP connections, over IPv4 and IPv6."""
        port = f":{int(self.address.rpartition(':')[2]):04X}"
        rows = [row.split() for name in ("tcp", "tcp6") for row in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        return sum(1 for row in rows if row[1].endswith(port) and row[3] == "01")


@contextlib.contextmanager
def serve(
    kind: str, binary: pathlib.Path, max_size: int, *, sampler: str = "uniform", reverb_python: str = sys.executable,
) -> Iterator[Server]:
    """Provides a server with one table `t`, sampled uniformly or `prioritized`; the server is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="relive-peers-") as folder:
        if kind == "relive":
            config = pathlib.Path(folder, "server.toml")
            config.write_text(CONFIG.format(max_size=max_size, sampler=SAMPLERS[sampler]))
            command = [str(binary), "serve", "--config", str(config), "--port", "0"]
        else:
            script = pathlib.Path(__file__).with_name("reverb_server.py")
            command = [reverb_python, str(script), str(max_size), sampler]
        with started(command) as server:
            yield server


@contextlib.contextmanager
def started(command: list[str]) -> Iterator[Server]:
    """Provides the server that a command starts and that prints its address; it is stopped at the end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline()
        ready = re.search(r"listening on \S+:(\d+)$", line)
        if not ready:
            raise SystemExit(f"the server did not start; try it by hand: {' '.join(command)}")
        yield Server(f"localhost:{ready[1]}", process.pid)
    finally:
        process.terminate()
        try:
            process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
