"""One measurement in fresh processes."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
from dataclasses import asdict, dataclass

from grid.cases import REVERB_LOCAL_ITEMS, Case, Contender
from load_worker import READING, batch_size, burst_items, fill_items
from servers import Server, serve

HERE = pathlib.Path(__file__).parent.parent
PATIENCE_S = 240.0
# The maximum number of bytes in a server's table, since inserts of large items would otherwise fill the memory.
TABLE_BYTES = 2 << 30


@dataclass(frozen=True)
class Tools:
    """The programs to run."""

    relive: pathlib.Path
    """The binary."""
    limits: pathlib.Path
    peers_python: pathlib.Path
    reverb_python: pathlib.Path

    def python(self, package: str) -> str:
        return str(self.reverb_python if "reverb" in package else self.peers_python)


class Failed(Exception):
    """A measurement that was not possible; the text states the reason."""


def limits(tools: Tools, seconds: float) -> dict:
    return json.loads(output([str(tools.limits), str(seconds)]))


def measure(tools: Tools, case: Case, contender: Contender, seconds: float) -> dict:
    if contender.server is None:
        return local(tools, case, contender, seconds)
    if contender.client == "rust":
        with served(tools, case, contender) as server:
            return bench(tools, case, contender, seconds, server)
    # Started concurrently with the server: importing TensorFlow takes longer than most measurements.
    with Clients(tools, case, contender, seconds) as clients, served(tools, case, contender) as server:
        return clients.run(server)


def served(tools: Tools, case: Case, contender: Contender) -> contextlib.AbstractContextManager[Server]:
    max_size = min(1_000_000, max(1_000, TABLE_BYTES // case.nbytes))
    return serve(contender.server, tools.relive, max_size, sampler=case.sampler, reverb_python=str(tools.reverb_python))


def local(tools: Tools, case: Case, contender: Contender, seconds: float) -> dict:
    items = min(case.items, REVERB_LOCAL_ITEMS) if contender.name == "dm-reverb" else case.items
    job = asdict(case) | {"system": contender.name, "items": items, "seconds": seconds}
    heard = json.loads(output([tools.python(contender.name), str(HERE / "local_worker.py"), json.dumps(job)]))
    if "not_there" in heard:
        raise Failed(f"{contender.name} {heard['not_there']}")
    return heard


class Clients:
    """Python clients of either package."""

    def __init__(self, tools: Tools, case: Case, contender: Contender, seconds: float) -> None:
        self._case = case
        job = asdict(case) | {"package": contender.client, "transport": contender.transport, "seconds": seconds}
        command = [tools.python(contender.client), str(HERE / "load_worker.py"), json.dumps(job)]
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment())

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()

    def run(self, server: Server) -> dict:
        self._tell(server.address)
        self._process.stdout.readline()
        cpu, connections = server.cpu_seconds(), server.connections()
        self._tell("go")
        heard = self._process.communicate(timeout=PATIENCE_S)[0]
        if self._process.returncode != 0 or not heard:
            self._errors.seek(0)
            raise Failed(reason(self._errors.read()))
        return with_server(self._case, json.loads(heard), server, cpu) | {"connections": connections}

    def _tell(self, line: str) -> None:
        # If the process has ended, the reason is reported at the end of the measurement.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()


def bench(tools: Tools, case: Case, contender: Contender, seconds: float, server: Server) -> dict:
    """Measures clients of the Rust crate, each with a thread and a connection."""
    command = [str(tools.relive), "bench", server.address, "sample", "--table", "t", "--bytes", str(case.nbytes), "--json"]
    if has_transports(tools):
        command += ["--transport", contender.transport]
    elif contender.transport != "tcp":
        raise Failed("this build's `relive bench` has no option --transport")
    if case.operation in READING:
        output([*command, "--seconds", "0.2", "--fill", str(fill_items(case.nbytes))])
    command[3] = case.operation
    # Each client has two bursts or batches in flight.
    batch = burst_items(case.nbytes) if case.operation == "insert" else batch_size(case.nbytes, case.clients)
    command += ["--clients", str(case.clients), "--seconds", str(seconds), "--batch", str(batch)]
    cpu, client_cpu = server.cpu_seconds(), os.times()
    figures = json.loads(output(command))
    after = os.times()
    kinds = [figures[kind] for kind in ("insert", "sample") if figures[kind]]
    heard = {
        "items": sum(kind["items"] for kind in kinds), "items_per_s": sum(kind["items_per_s"] for kind in kinds),
        "client_cpu_s": after.children_user + after.children_system - client_cpu.children_user - client_cpu.children_system,
        "p50_ms": kinds[0]["latency_p50_ms"], "p99_ms": kinds[0]["latency_p99_ms"],
        "slowest_of_mean": min(kind["slowest_client"] for kind in kinds),
    }
    return with_server(case, heard, server, cpu)


def with_server(case: Case, heard: dict, server: Server, cpu_before: float) -> dict:
    server_cpu = server.cpu_seconds() - cpu_before
    items = max(1.0, heard["items"])
    return {
        "items_per_s": heard["items_per_s"], "gigabytes_per_s": heard["items_per_s"] * case.nbytes / 1e9,
        "cpu_us_per_item": (server_cpu + heard["client_cpu_s"]) / items * 1e6,
        "server_cpu_us_per_item": server_cpu / items * 1e6, "p50_ms": heard["p50_ms"], "p99_ms": heard["p99_ms"],
        "slowest_of_mean": heard["slowest_of_mean"], "resident_bytes": server.resident_bytes(),
    }


def has_transports(tools: Tools) -> bool:
    return "--transport" in output([str(tools.relive), "bench", "--help"])


def absent_transports(tools: Tools, transports: list[str]) -> dict[str, str]:
    """Returns the transports that a Python client of this build cannot use, each with its error message."""
    code = "import relive, sys; relive.Client(sys.argv[1], transport=sys.argv[2], timeout=10).server_info()"
    absent = {}
    with serve("relive", tools.relive, 10) as server:
        for transport in transports:
            try:
                output([str(tools.peers_python), "-c", code, server.address, transport])
            except Failed as failure:
                absent[transport] = str(failure)
    return absent


def output(command: list[str]) -> str:
    """Returns the output of a command, and removes its temporary files when it has ended."""
    with tempfile.TemporaryDirectory(prefix="relive-peers-") as folder:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S,
                                  env=environment() | {"TMPDIR": folder})
        except subprocess.TimeoutExpired:
            raise Failed(f"not through after {PATIENCE_S:.0f} s") from None
    if done.returncode != 0 or not done.stdout.strip() and done.stderr.strip():
        raise Failed(reason(done.stderr))
    return done.stdout if "--help" in command else (done.stdout.splitlines() or [""])[-1]


def environment() -> dict[str, str]:
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}


def reason(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1][:400] if lines else "it ended without a word"
