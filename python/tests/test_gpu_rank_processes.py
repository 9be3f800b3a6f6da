"""Ranks that are processes, and how they find each other."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest
from gpu_ranks import WINDOWS, filled, together
from relive import errors, gpu

SCRIPT = """
    import json, sys
    import numpy as np
    from relive import gpu
    {setup}
    with gpu.Store({{"x": "int64"}}, capacity=4, max_steps=3, name={name!r}, {where}) as store:
        for number in range(4 * store.rank, 4 * store.rank + 4):
            store.insert({{"x": np.full(3, number)}}, weight=number)
        with store.loader(8, {{"x": gpu.Window()}}, sampling="weighted", seed=2) as loader:
            batch = next(loader)
            assert (batch.data["x"][:, 0] == batch.indices).all()
            store.update_weights(batch.indices, np.ones(8), batch.generations)
            batch = next(loader)
            print(json.dumps([store.rank, batch.indices.tolist()]), flush=True)
        store.update_weights([], [])
    {end}
"""


def run_ranks(ranks: int, **parts: str) -> list[Any]:
    """Returns the output of processes, by rank."""
    import json

    processes = []
    for rank in range(ranks):
        script = textwrap.dedent(SCRIPT).format(**{"setup": "", "end": "", **parts}).replace("RANK", str(rank)).replace("RANKS", str(ranks))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        processes.append(
            subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        )
    found = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        found.append(json.loads(out.splitlines()[-1]))
    return [indices for _, indices in sorted(found)]


@functools.cache
def two_threads() -> list[Any]:
    def work(group: gpu.Group) -> Any:
        store = gpu.Store({"x": "int64"}, capacity=4, max_steps=3, group=group)
        for number in range(4 * store.rank, 4 * store.rank + 4):
            store.insert({"x": np.full(3, number)}, weight=number)
        with store.loader(8, {"x": gpu.Window()}, sampling="weighted", seed=2) as loader:
            batch = next(loader)
            store.update_weights(batch.indices, np.ones(8), batch.generations)
            return next(loader).indices.tolist()

    return together(2, work)


def test_processes_that_find_each_other_by_name() -> None:
    name = f"ranks-by-name-{os.getpid()}"
    assert run_ranks(2, name=name, where="rank=RANK, ranks=2") == two_threads()


def test_processes_of_torch_distributed() -> None:
    pytest.importorskip("torch.distributed")
    for group in ("dist", "dist.group.WORLD"):
        port = _free_port()
        setup = (
            f"import torch.distributed as dist; dist.init_process_group('gloo', init_method='tcp://127.0.0.1:{port}', rank=RANK, world_size=2)"
        )
        name = f"ranks-torch-{os.getpid()}"
        found = run_ranks(2, name=name, where=f"group={group}", setup=setup, end="dist.barrier(); dist.destroy_process_group()")
        assert found == two_threads()


def test_processes_of_a_topology() -> None:
    """As in DeepSpeed and Megatron: two data-parallel ranks of two processes each."""
    pytest.importorskip("torch.distributed")
    setup = (
        f"import torch.distributed as dist; dist.init_process_group('gloo', init_method='tcp://127.0.0.1:{_free_port()}', rank=RANK, "
        "world_size=4); from types import SimpleNamespace as Space; "
        "grid = Space(get_data_parallel_rank=lambda: RANK // 2, get_data_parallel_world_size=lambda: 2)"
    )
    found = run_ranks(4, name=f"ranks-grid-{os.getpid()}", where="group=grid", setup=setup, end="dist.barrier(); dist.destroy_process_group()")
    assert found[0] == found[1] and found[2] == found[3] and found[0] != found[2]


def _free_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_communicator_of_mpi() -> None:
    class Communicator:
        def Get_rank(self) -> int:
            return 0

        def Get_size(self) -> int:
            return 1

        def allgather(self, told: bytes) -> list[bytes]:
            return [told]

    with gpu.Store({"x": "int64"}, capacity=2, max_steps=2, group=Communicator()) as store:
        assert (store.rank, store.ranks) == (0, 1)


def test_a_killed_rank_is_detected_and_leaves_nothing_behind() -> None:
    name = f"ranks-killed-{os.getpid()}"
    script = textwrap.dedent(f"""
        import numpy as np
        from relive import gpu
        store = gpu.Store({{"x": "int64"}}, capacity=2, max_steps=2, name={name!r}, rank=1, ranks=2)
        store.insert({{"x": np.ones(2, int)}})
        loader = store.loader(4, {{"x": gpu.Window()}}, prefetch=2)
        for batch in loader:
            print("there", flush=True)
    """)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with gpu.Store({"x": "int64"}, capacity=2, max_steps=2, name=name, rank=0, ranks=2) as store:
        for number in range(2):
            store.insert({"x": np.full(2, number)})
        with store.loader(4, {"x": gpu.Window()}, prefetch=2) as loader:
            for _ in range(10):
                next(loader)
            process.kill()
            process.communicate()
            with pytest.raises(errors.UnavailableError, match="rank 1 has ended"):
                for _ in range(10):
                    next(loader)
        # The trajectories that the rank was reading can be replaced. If there is no room, an insertion sweeps
        # automatically.
        assert store.sweep() == 1
        for number in range(4):
            store.insert({"x": np.full(2, 10 + number)})
        assert store.collect([0, 1], {"x": gpu.Window(-1, 1)}).data["x"].tolist() == [[12], [13]]
    # The store's name can be reused.
    gpu.Store({"x": "int64"}, capacity=2, max_steps=2, name=f"{name}.1").close()


def test_missing_ranks_are_awaited_until_the_deadline() -> None:
    with pytest.raises(errors.DeadlineExceededError, match=r"ranks \[1, 2\] have not connected within 0.1 s"):
        gpu.LocalGroup(f"alone-{os.getpid()}", 0, 3, timeout=0.1)
    with pytest.raises(errors.DeadlineExceededError, match="rank 0 has not connected within 0.1 s"):
        gpu.LocalGroup(f"alone-{os.getpid()}", 1, 3, timeout=0.1)


def test_foreign_connections_do_not_block_a_group() -> None:
    name = f"strangers-{os.getpid()}"
    found: list[gpu.LocalGroup] = []
    root = threading.Thread(target=lambda: found.append(gpu.LocalGroup(name, 0, 2, timeout=30.0)))
    root.start()

    def stranger() -> socket.socket:
        deadline = time.monotonic() + 30.0
        while True:
            other = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                other.connect(f"\0relive-gpu-{name}")
            except OSError:
                other.close()
                assert time.monotonic() < deadline
            else:
                return other

    with stranger() as silent, stranger() as loud:
        stranger().close()
        loud.sendall(b"GET / HTTP/1.1\r\n\r\n and more")
        with stranger() as short:
            short.sendall(b"RLV")
            other = gpu.LocalGroup(name, 1, 2, timeout=30.0)
            root.join()
            assert silent.fileno() >= 0
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(other.all_gather(b"one")))
    thread.start()
    assert found[0].all_gather(b"zero") == [b"zero", b"one"]
    thread.join()
    assert told == [[b"zero", b"one"]]
    other.close()
    found[0].close()


def test_another_user_cannot_take_the_place_of_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"other-user-{os.getpid()}"
    user = os.getuid()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as root:
        root.bind(f"\0relive-gpu-{name}")
        root.listen()
        # To this process, the listener belongs to another user.
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
        with pytest.raises(errors.UnavailableError, match="rank 0 of the group 'other-user-.*' belongs to another user"):
            gpu.LocalGroup(name, 1, 2, timeout=30.0)
        peer, _ = root.accept()
        with peer:
            assert peer.recv(1) == b"", "it is not greeted"


def test_a_local_group_names_ended_ranks() -> None:
    name = f"ends-{os.getpid()}"
    others: list[gpu.LocalGroup] = []
    thread = threading.Thread(target=lambda: others.append(gpu.LocalGroup(name, 1, 2, timeout=30.0)))
    thread.start()
    with pytest.raises(errors.UnavailableError, match="rank 1 has ended"):
        group = gpu.LocalGroup(name, 0, 2, timeout=30.0)
        thread.join()
        others[0].close()
        group.all_gather(b"")
    group.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rank": 0}, "give both"),
        ({"rank": 0, "ranks": 2}, "name="),
        ({"rank": 2, "ranks": 2, "name": "x"}, "must be 0 to 1"),
        ({"group": object()}, "group is a object"),
    ],
)
def test_invalid_groups_are_refused(options: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        gpu.Store({"x": "int64"}, capacity=2, max_steps=2, **options)


def test_another_process_reads_one_rank_and_does_not_draw() -> None:
    name = f"ranks-read-{os.getpid()}"

    def work(group: gpu.Group) -> None:
        with filled(group, name=name):
            # Rank 1 has inserted its trajectories.
            group.all_gather(b"")
            if group.rank == 0:
                with gpu.attach(name, rank=1) as reader:
                    assert (reader.rank, reader.ranks) == (1, 2)
                    assert reader.collect([7], {"x": gpu.Window(-1, 1)}).data["x"].tolist() == [[702]]
                    with pytest.raises(errors.NotFoundError, match="belongs to rank 0"):
                        reader.collect([0], {"x": gpu.Window(-1, 1)})
                    with pytest.raises(errors.InvalidArgumentError, match="rank 1 of 2, which draw together"):
                        reader.loader(1, WINDOWS)
            group.all_gather(b"")

    together(2, work)
