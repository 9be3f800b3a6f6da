"""Ranks without shared memory read each other's trajectories over a network, here the loopback device."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gpu_ranks import TRAJECTORIES, WINDOWS, batches, filled, together, whole
from relive import ClientTls, ServerTls, errors, gpu

NETWORK = gpu.Network(host="127.0.0.1", shared_memory=False)


@pytest.mark.parametrize("sampling", ["weighted", gpu.Prioritized(0.7, 0.5), "top_k"], ids=str)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_over_a_network_are_bit_identical(sampling: Any, prefetch: int) -> None:
    alone = together(1, lambda group: batches(group, sampling, 6))[0]

    def work(group: gpu.Group) -> list[gpu.Batch]:
        with filled(group, network=NETWORK) as store:
            with store.loader(6 // group.replicas, WINDOWS, sampling=sampling, seed=5, prefetch=prefetch) as loader:
                drawn = [next(loader) for _ in range(3)]
                group.all_gather(b"")
                return drawn

    shares = together(3, work)
    for number, expected in enumerate(alone):
        drawn = [share[number] for share in shares]
        for field in ("indices", "steps", "lengths", "weights", "probabilities"):
            np.testing.assert_array_equal(whole(drawn, field), getattr(expected, field), err_msg=field)
        for name in WINDOWS:
            rows = np.stack([share.data[name] for share in drawn], axis=1).reshape(expected.data[name].shape)
            np.testing.assert_array_equal(rows, expected.data[name])


def test_some_ranks_share_memory_and_some_do_not() -> None:
    """Simulates two machines with two ranks each: ranks that differ in `shared_memory` are reached over the network."""

    def work(group: gpu.Group) -> Any:
        network = gpu.Network(host="127.0.0.1", shared_memory=group.rank < 2)
        with filled(group, network=network) as store:
            group.all_gather(b"")
            every = np.arange(TRAJECTORIES)[::-1]
            windows = {"x": gpu.Window(-3, 4, pad="tail", value=7)}
            batch = store.collect(every, windows)
            group.all_gather(b"")
            return batch.data["x"], batch.valid["x"]

    def alone(group: gpu.Group) -> Any:
        return filled(group).collect(np.arange(TRAJECTORIES)[::-1], {"x": gpu.Window(-3, 4, pad="tail", value=7)})

    expected = together(1, alone)[0]
    for data, valid in together(4, work):
        np.testing.assert_array_equal(data, expected.data["x"])
        np.testing.assert_array_equal(valid, expected.valid["x"])


def test_ranks_without_shared_memory_require_a_network() -> None:
    def work(group: gpu.Group) -> None:
        filled(group, network=NETWORK if group.rank == 1 else None)

    with pytest.raises(errors.UnavailableError, match=r"ranks \[0\] have no network; give network=relive.gpu.Network"):
        together(2, work)


def test_an_invalid_host_is_reported_to_all_ranks() -> None:
    texts: list[str] = []

    def work(group: gpu.Group) -> None:
        network = gpu.Network(host="192.0.2.1" if group.rank == 1 else "127.0.0.1", shared_memory=False)
        with pytest.raises(errors.ReverbError) as failed:
            filled(group, network=network)
        texts.append(str(failed.value))

    together(2, work)
    assert sum("listen for other ranks" in text for text in texts) == 2, texts
    assert any(text.startswith("rank 1 cannot continue") for text in texts), texts


def test_over_tls(tmp_path: pathlib.Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )
    network = gpu.Network(
        host="localhost", shared_memory=False, tls=ServerTls(cert=cert, key=key), client_tls=ClientTls(ca=cert),
    )

    def work(group: gpu.Group) -> Any:
        with filled(group, network=network) as store:
            group.all_gather(b"")
            found = store.collect([11, 0, 5, 6], {"x": gpu.Window(-1, 1)}).data["x"].tolist()
            group.all_gather(b"")
            return found

    assert together(2, work) == [[[1101], [0], [500], [601]]] * 2
    missing = gpu.Network(host="localhost", shared_memory=False, tls=ServerTls(cert=key, key=key), client_tls=ClientTls(ca=cert))
    with pytest.raises(errors.InvalidArgumentError, match="the PEM text has no certificate"):
        together(2, lambda group: filled(group, network=missing))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"port": 1 << 16}, "port is 65536"),
        ({"timeout": 0.0}, "timeout is 0.0"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"tls": "cert.pem", "client_tls": ClientTls()}, "tls is a str; give a relive.ServerTls"),
        ({"tls": ServerTls(cert=pathlib.Path("a"), key=pathlib.Path("b"))}, "give both tls and client_tls"),
    ],
)
def test_invalid_networks_are_refused(options: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        gpu.Network(host="localhost", **options)


def test_a_network_requires_a_group() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="give group="):
        gpu.Store({"x": "int64"}, capacity=1, max_steps=1, network=NETWORK)
    with pytest.raises(errors.InvalidArgumentError, match="network is a str"):
        gpu.Store({"x": "int64"}, capacity=1, max_steps=1, network="localhost")  # type: ignore[arg-type]
    assert gpu.Network(host="::1").address(7) == "[::1]:7"


OTHER = """
    import sys
    import numpy as np
    from relive import gpu
    network = gpu.Network(host="127.0.0.1", shared_memory=False)
    store = gpu.Store({{"x": "int64"}}, capacity=2, max_steps=2, name={name!r}, rank=1, ranks=2, network=network)
    for number in range(2):
        store.insert({{"x": np.full(2, 10 + number)}})
    print("ready", flush=True)
    sys.stdin.read()
"""


def other_rank(name: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(OTHER).format(name=name)], stdin=-1, stdout=-1,
    text=True)


def test_a_killed_rank_is_named() -> None:
    name = f"network-killed-{os.getpid()}"
    process = other_rank(name)
    network = gpu.Network(host="127.0.0.1", shared_memory=False, timeout=20.0)
    with gpu.Store({"x": "int64"}, capacity=2, max_steps=2, name=name, rank=0, ranks=2, network=network) as store:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        store.insert({"x": np.zeros(2, int)})
        assert store.collect([2, 0, 3], {"x": gpu.Window(-1, 1)}).data["x"].tolist() == [[10], [0], [11]]
        process.kill()
        process.communicate()
        with pytest.raises(errors.UnavailableError, match=r"rank 1 at 127\.0\.0\.1:\d+"):
            store.collect([2], {"x": gpu.Window(-1, 1)})
        assert store.collect([0], {"x": gpu.Window(-1, 1)}).data["x"].tolist() == [[0]]
    # A killed process leaves its memory behind.
    os.unlink(f"/dev/shm/{name}.1")


def connections() -> Iterator[tuple[int, socket.socket]]:
    """Yields a duplicate of each TCP connection of this process, and its inode number."""
    for number in os.listdir("/proc/self/fd"):
        try:
            if "socket:" not in os.readlink(f"/proc/self/fd/{number}"):
                continue
            with socket.socket(fileno=os.dup(int(number))) as copy:
                if copy.family == socket.AF_INET and not copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    yield os.fstat(copy.fileno()).st_ino, copy
        except OSError:
            # The connection was closed in the meantime.
            continue


def cut_all_but(others: set[int]) -> int:
    """Breaks connections like a network failure; returns their number."""
    ended = 0
    for inode, connection in connections():
        if inode not in others:
            # The other side may have closed it.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
                ended += 1
    return ended


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_ranks_continue_after_cut_connections(prefetch: int) -> None:
    """Lost connections change no batch, and no rank falls behind."""
    others = {inode for inode, _ in connections()}

    def work(group: gpu.Group, cuts: bool) -> list[gpu.Batch]:
        with filled(group, network=NETWORK) as store:
            with store.loader(3, WINDOWS, sampling="weighted", seed=5, prefetch=prefetch) as loader:
                drawn = []
                for number in range(8):
                    group.all_gather(b"")
                    if cuts and group.rank == 0 and number in (2, 5):
                        assert cut_all_but(others) > 0
                    group.all_gather(b"")
                    drawn.append(next(loader))
                group.all_gather(b"")
                return drawn

    expected, found = (together(2, functools.partial(work, cuts=cuts)) for cuts in (False, True))
    for rank in range(2):
        for one, other in zip(expected[rank], found[rank], strict=True):
            np.testing.assert_array_equal(other.indices, one.indices)
            np.testing.assert_array_equal(other.data["x"], one.data["x"])


def interrupt_once_in(function: str) -> None:
    """Sends SIGINT to this process once the main thread is in a function of this name."""
    main = threading.main_thread().ident
    assert main is not None
    until = time.monotonic() + 30.0
    while sys._current_frames()[main].f_code.co_name != function and time.monotonic() < until:
        pass
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_a_wait_for_another_rank() -> None:
    name = f"network-stopped-{os.getpid()}"
    process = other_rank(name)
    with gpu.Store({"x": "int64"}, capacity=2, max_steps=2, name=name, rank=0, ranks=2, network=NETWORK) as store:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        assert len(store.collect([2], {"x": gpu.Window()}, steps=[0]).indices) == 1
        process.send_signal(signal.SIGSTOP)
        interrupter = threading.Thread(target=interrupt_once_in, args=("_collect",))
        try:
            with pytest.raises(KeyboardInterrupt):
                interrupter.start()
                store.collect([2], {"x": gpu.Window()}, steps=[0])
        finally:
            interrupter.join()
            process.send_signal(signal.SIGCONT)
        # The connection is reestablished.
        assert store.collect([3], {"x": gpu.Window()}, steps=[0]).data["x"].tolist() == [[11]]
    process.communicate("")
