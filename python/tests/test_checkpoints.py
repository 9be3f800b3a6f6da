"""Checkpointers: written and read data, formats, and killed servers."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive
from relive import errors
from relive.checkpointers import DefaultCheckpointer

Begin = Callable[..., relive.Server]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts servers with a checkpointer with these options; all are stopped at the end of the test."""
    servers: list[relive.Server] = []

    def start(table: relive.Table | None = None, path: object = None, **options: Any) -> relive.Server:
        checkpointer = DefaultCheckpointer(str(path or tmp_path / "root"), **options)
        servers.append(relive.Server(tables=[table or uniform_table()], checkpointer=checkpointer))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def write(server: relive.Server, *values: float) -> relive.Client:
    client = relive.Client(f"localhost:{server.port}", timeout=PATIENCE_S)
    for value in values:
        client.insert(np.float32(value), {"table": value})
    return client


def values(server: relive.Server) -> list[float]:
    """Returns the contents of the table, in order of insertion."""
    client = relive.Client(f"localhost:{server.port}", timeout=PATIENCE_S)
    return [item.priority for item in client.items("table")]


@pytest.mark.parametrize("format", ["relive", "reverb"])
def test_a_server_resumes_from_its_newest_checkpoint(begin: Begin, tmp_path: Path, format: str) -> None:
    server = begin(format=format)
    path = write(server, 1, 2).checkpoint()
    assert os.path.dirname(path) == str(tmp_path / "root")
    assert Path(path).is_dir() == (format == "reverb")
    write(server, 3)
    server.stop()
    assert values(begin(format=format)) == [1, 2]


@pytest.mark.parametrize("format", ["relive", "reverb"])
@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_data_under_any_codec_is_kept(begin: Begin, format: str, codec: str) -> None:
    server = begin(format=format)
    client = relive.Client(f"localhost:{server.port}", transport="tcp", timeout=PATIENCE_S)
    with client.trajectory_writer(2, codec=codec) as writer:
        for step in range(2):
            writer.append(np.full(1_000, step, np.int64))
        writer.create_item("table", 1.0, writer.history[:])
    client.checkpoint()
    server.stop()
    again = relive.Client(f"localhost:{begin(format=format).port}", transport="tcp", timeout=PATIENCE_S)
    (sample,) = again.sample("table", emit_timesteps=False)
    assert np.asarray(sample.data[0]).tolist() == [[0] * 1_000, [1] * 1_000]


def test_either_format_is_read_whatever_is_written(begin: Begin, tmp_path: Path) -> None:
    for value, format in enumerate(["reverb", "relive", "reverb", "relive"]):
        server = begin(format=format)
        assert values(server) == list(range(value))
        path = write(server, value).checkpoint()
        assert path.endswith(".relive") == (format == "relive")
        server.stop()


@pytest.mark.parametrize("format", ["relive", "reverb"])
def test_a_fallback_is_read_while_there_is_no_checkpoint(begin: Begin, tmp_path: Path, format: str) -> None:
    old = begin(path=tmp_path / "old", format=format)
    path = write(old, 1, 2).checkpoint()
    old.stop()
    for fallback in (path, tmp_path / "old"):
        server = begin(fallback_checkpoint_path=fallback)
        assert values(server) == [1, 2]
        server.stop()
    server = begin(fallback_checkpoint_path=path)
    write(server, 3).checkpoint()
    server.stop()
    assert values(begin(fallback_checkpoint_path=path)) == [1, 2, 3]
    assert values(begin(path=tmp_path / "other", fallback_checkpoint_path=tmp_path / "nowhere")) == []


def test_checkpoints_are_kept_and_one_can_be_chosen(begin: Begin, tmp_path: Path) -> None:
    server = begin(keep=2)
    paths = [write(server, value).checkpoint() for value in range(4)]
    assert [Path(path).exists() for path in paths] == [False, False, True, True]
    server.stop()
    server = begin(path=paths[2])
    assert values(server) == [0, 1, 2]
    assert os.path.dirname(write(server, 9).checkpoint()) == str(tmp_path / "root")
    server.stop()
    assert values(begin()) == [0, 1, 2, 9]


def test_checkpoints_are_written_periodically_and_at_shutdown(begin: Begin) -> None:
    server = begin(every=datetime.timedelta(seconds=1), at_shutdown=True)
    client = write(server, 1)
    paths = set()
    while len(paths) < 2:
        status = client.checkpoint_status()
        paths |= {status.last_saved.path} if status.last_saved else set()
    write(server, 2)
    server.stop()
    assert values(begin()) == [1, 2]


def test_rules_come_from_the_checkpoint_or_the_code(begin: Begin) -> None:
    server = begin()
    write(server, 1, 2, 3).checkpoint()
    server.stop()
    for config, max_size, kept in (("checkpoint", 1_000, [1, 2, 3]), ("code", 2, [2, 3])):
        server = begin(uniform_table(max_size=2), config=config)
        assert server.localhost_client().server_info()["table"].max_size == max_size
        assert values(server) == kept
        server.stop()


@pytest.mark.parametrize("format", ["relive", "reverb"])
def test_damage_is_refused_with_advice_and_can_be_salvaged(begin: Begin, format: str) -> None:
    server = begin(format=format, keep=3)
    old, new = (write(server, value).checkpoint() for value in (1, 2))
    server.stop()
    damaged = Path(new) if format == "relive" else Path(new, "items.tfrecord")
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(errors.DataLossError) as refused:
        begin()
    assert str(refused.value).startswith(f"cannot load the newest checkpoint: {damaged}")
    assert str(refused.value).endswith(
        f'; salvage=True loads the intact part; "{old}" as the path loads an older one, which does not need that file'
    )
    server = begin(salvage=True)
    assert set(values(server)) <= {1, 2}
    server.stop()
    assert values(begin(path=old)) == [1]


def test_a_folder_belongs_to_one_server_until_that_is_stopped(begin: Begin, tmp_path: Path) -> None:
    server = begin()
    write(server, 1).checkpoint()
    with pytest.raises(errors.FailedPreconditionError, match=f"process {os.getpid()} writes its checkpoints here"):
        begin()
    server.stop()
    again = begin()
    assert values(again) == [1]
    again.stop()
    # Several servers may read dm-reverb's format, but only one may write it.
    one, other = begin(format="reverb"), begin(format="reverb")
    write(one, 2).checkpoint()
    assert (values(one), values(other)) == ([1, 2], [1])
    with pytest.raises(errors.InternalError, match="another process writes its checkpoints here"):
        other.localhost_client().checkpoint()
    one.stop()
    assert Path(other.localhost_client().checkpoint()).is_dir()


FORKED = """
import os, sys, tempfile
import relive
path = tempfile.mkdtemp()
def begin():
    table = relive.Table("table", relive.selectors.Uniform(), relive.selectors.Fifo(), 10, relive.rate_limiters.MinSize(1))
    return relive.Server([table], checkpointer=relive.checkpointers.DefaultCheckpointer(path))
server = begin()
reading, writing = os.pipe()
child = os.fork()
if child == 0:
    del server
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
try:
    begin()
    sys.exit("the child gave the parent's lock away")
except relive.errors.FailedPreconditionError:
    pass
server.stop()
begin().stop()
os.close(writing)
os.waitpid(child, 0)
print("done")
"""


def test_a_fork_neither_keeps_nor_releases_a_folder_lock() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


KILLED = FORKED.split("server = begin()")[0] + """
server = begin()
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, b".")
    os.read(0, 1)
    os._exit(0)
os.read(reading, 1)
print(path, flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_fork_does_not_keep_the_folder_lock_of_a_killed_server() -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", KILLED],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    with process:
        assert process.stdout is not None
        path = process.stdout.readline().strip()
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
        relive.Server([uniform_table()], checkpointer=DefaultCheckpointer(path)).stop()


def test_a_server_reports_the_checkpoint_it_started_from(begin: Begin) -> None:
    server = begin()
    path = write(server, 1).checkpoint()
    assert server.localhost_client().checkpoint_status().loaded is None
    server.stop()
    status = begin().localhost_client().checkpoint_status()
    assert (status.loaded, status.last) == (path, None)


def test_invalid_checkpoint_options_are_refused(tmp_path: Path) -> None:
    for options, told in (
        ({"format": "zip"}, "format must be one of"),
        ({"config": "both"}, "config must be one of"),
        ({"keep": 0}, "keep \\(0\\) must be at least 1"),
        ({"every": 0.999}, "every \\(0.999 s\\) must be from one second to one week"),
        ({"every": datetime.timedelta(days=8)}, "to one week"),
        ({"keep": 2**64}, r"keep is 18446744073709551616, .* below 2\*\*63"),
        ({"fallback_checkpoint_path": "a\ud800"}, "fallback_checkpoint_path is .*, which UTF-8 cannot encode"),
    ):
        with pytest.raises(ValueError, match=told):
            DefaultCheckpointer(tmp_path, **options)  # type: ignore[arg-type]
    for wrong, told in (
        ({"keep": 1.5}, "keep is 1.5, but it must be a whole number"),
        ({"keep": True}, "keep is True, but it must be a whole number"),
        ({"every": "10m"}, "every must be seconds or a datetime.timedelta, not '10m'"),
        ({"every": True}, "every must be seconds or a datetime.timedelta, not True"),
        ({"at_shutdown": "x"}, "at_shutdown must be True or False, got 'x'"),
        ({"salvage": "x"}, "salvage must be True or False, got 'x'"),
        ({"group": 5}, "group must be a string, got 5"),
    ):
        with pytest.raises(TypeError, match=told):
            DefaultCheckpointer(tmp_path, **wrong)  # type: ignore[arg-type]


def test_buckets_keep_relives_format_only() -> None:
    with pytest.raises(ValueError, match="unknown storage `ftp`"):
        relive.Server([uniform_table()], checkpointer=DefaultCheckpointer("ftp://bucket/run"))


def test_a_checkpointer_that_returns_something_else_is_refused() -> None:
    class Own(relive.checkpointers.CheckpointerBase):
        def internal_checkpointer(self) -> relive.checkpointers.Checkpointer:
            return "/tmp"  # type: ignore[return-value]

    with pytest.raises(TypeError, match="internal_checkpointer.*'/tmp'"):
        relive.Server([uniform_table()], checkpointer=Own())


SERVER = """
import sys
import relive
port, path = int(sys.argv[1]), sys.argv[2]
table = relive.Table("table", relive.selectors.Uniform(), relive.selectors.Fifo(), 1_000, relive.rate_limiters.MinSize(1))
checkpointer = relive.checkpointers.DefaultCheckpointer(path, every=1)
server = relive.Server([table], port=port, checkpointer=checkpointer)
print("ready", flush=True)
server.wait()
"""


def serve_elsewhere(port: int, path: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port), str(path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout as lines:
        assert lines.readline() == "ready\n"
    return process


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        return int(taken.getsockname()[1])


class Loop(threading.Thread):
    """Repeats an operation and counts the repetitions; `check` raises its exceptions."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._ending = False
        self._turn = threading.Condition()
        self._count = 0
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        while not self._ending and self._error is None:
            try:
                self._work()
            except BaseException as error:
                self._error = error
            with self._turn:
                self._count += 1
                self._turn.notify_all()

    def goes_on(self, turns: int = 20) -> None:
        with self._turn:
            wanted = self._count + turns
            came = self._turn.wait_for(lambda: self._error is not None or self._count >= wanted, 2 * PATIENCE_S)
        if self._error is not None:
            raise self._error
        assert came, "it does not go on"

    def end(self) -> None:
        self._ending = True
        self.join(2 * PATIENCE_S)


def test_clients_recover_when_their_server_is_killed_and_restarted(tmp_path: Path) -> None:
    port = free_port()
    process = serve_elsewhere(port, tmp_path / "root")
    client = relive.Client(f"localhost:{port}", timeout=2 * PATIENCE_S)
    writer = client.trajectory_writer(num_keep_alive_refs=1)

    def append() -> None:
        writer.append([np.arange(100, dtype=np.float32)])
        writer.create_item("table", 1.0, [writer.history[0][-1:]])
        writer.flush(block_until_num_items=10)

    batches = iter(client.batches("table", batch_size=8))
    work = (
        append,
        lambda: client.insert([np.arange(100, dtype=np.float32)], {"table": 1.0}),
        lambda: next(batches),
        lambda: next(client.sample("table", 1)),
    )
    loops: list[Loop] = []
    try:
        # The table has an item before the first sample, so that all items have the same structure.
        work[0]()
        writer.flush()
        loops = [Loop(one) for one in work]
        for _ in range(3):
            for loop in loops:
                loop.goes_on()
            client.checkpoint()
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = serve_elsewhere(port, tmp_path / "root")
        for loop in loops:
            loop.goes_on()
    finally:
        for loop in loops:
            loop.end()
        process.kill()
        process.wait()


def test_a_relative_folder_stays_the_same_if_the_working_directory_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    table = relive.Table.queue("queue", 100)
    checkpointer = DefaultCheckpointer("saved")
    with relive.Server([table], checkpointer=checkpointer, spill_dir="spilled", max_bytes=1 << 20, listen=False) as server:
        monkeypatch.chdir(tmp_path / "there")
        client = server.localhost_client()
        for number in range(16):
            client.insert(np.random.default_rng(number).bytes(1 << 18), {"queue": 1.0})
        saved = client.checkpoint()
    assert Path(saved).parent == tmp_path / "here" / "saved"
    assert not list((tmp_path / "there").iterdir())
