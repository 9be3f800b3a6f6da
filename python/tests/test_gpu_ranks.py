"""Several ranks draw the same trajectories as a single rank with all trajectories."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from relive import errors, gpu

TRAJECTORIES = 12
WINDOWS = {"x": gpu.Window(-2, 3), "length": gpu.Window()}


class Threads(gpu.Group):
    """Communication between ranks in threads of this process."""

    def __init__(self, rank: int, board: list[bytes], barrier: threading.Barrier, **share: int) -> None:
        super().__init__(rank, len(board), **share)
        self._board, self._barrier = board, barrier

    def all_gather(self, told: bytes) -> Sequence[bytes]:
        self._board[self.rank] = told
        self._barrier.wait(30)
        answers = list(self._board)
        self._barrier.wait(30)
        return answers


def together(ranks: int, work: Callable[[gpu.Group], Any], replicas: int | None = None) -> list[Any]:
    """Returns the results of all ranks; raises the exception of a rank that fails."""
    board, barrier = [b""] * ranks, threading.Barrier(ranks)
    found: list[Any] = [None] * ranks
    raised: list[BaseException] = []

    def run(rank: int) -> None:
        share = {} if replicas is None else {"replica": rank * replicas // ranks, "replicas": replicas}
        try:
            found[rank] = work(Threads(rank, board, barrier, **share))
        except BaseException as error:
            barrier.abort()
            raised.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if raised:
        raise next((error for error in raised if not isinstance(error, threading.BrokenBarrierError)), raised[0])
    return found


def trajectory(number: int) -> dict[str, npt.NDArray[Any]]:
    length = 1 + number % 5
    return {"x": 100 * number + np.arange(length), "length": np.full(length, length)}


def filled(group: gpu.Group, **options: Any) -> gpu.Store:
    """Returns a store with this rank's share of twelve trajectories, with their indices as values."""
    each = TRAJECTORIES // group.ranks
    store = gpu.Store({"x": "int64", "length": "int64"}, capacity=each, max_steps=5, group=group, **options)
    for number in range(group.rank * each, (group.rank + 1) * each):
        inserted = store.insert(trajectory(number), weight=number % 4)
        assert inserted.index == number
    return store


def batches(group: gpu.Group, sampling: Any, size: int, count: int = 3) -> list[gpu.Batch]:
    with filled(group) as store:
        with store.loader(size // group.replicas, WINDOWS, sampling=sampling, seed=5, prefetch=1) as loader:
            return [next(loader) for _ in range(count)]


def whole(shares: list[gpu.Batch], field: str) -> npt.NDArray[Any]:
    """Reassembles the list; each replica has every n-th row."""
    return np.stack([getattr(share, field) for share in shares], axis=1).reshape(-1)


SAMPLINGS = ["uniform", "weighted", "stratified", gpu.Prioritized(0.7, 0.5), "top_k", gpu.WithoutReplacement(0.5)]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("ranks", [2, 3])
def test_any_number_of_ranks_draws_the_same_rows(sampling: Any, ranks: int) -> None:
    """Defects 1, 2, 13 and 15: the weights of all ranks count, and each rank gets its own share of the rows."""
    alone = together(1, lambda group: batches(group, sampling, 6))[0]
    shares = together(ranks, lambda group: batches(group, sampling, 6))
    for number, expected in enumerate(alone):
        drawn = [share[number] for share in shares]
        for field in ("indices", "steps", "lengths", "weights", "probabilities"):
            np.testing.assert_array_equal(whole(drawn, field), getattr(expected, field), err_msg=field)
        for share in drawn:
            for row, (index, step) in enumerate(zip(share.indices, share.steps)):
                steps = trajectory(index)["x"]
                there = [steps[at] for at in range(step - 2, step + 1) if 0 <= at < len(steps)]
                assert share.data["x"][row].tolist() == [0] * (3 - len(there)) + there


def test_ranks_of_one_replica_read_the_same_rows() -> None:
    """A topology of two data-parallel ranks of two processes each: pipeline stages, or parts of tensors."""
    shares = together(4, lambda group: batches(group, "weighted", 6), replicas=2)
    for first, second in (shares[:2], shares[2:]):
        for one, other in zip(first, second):
            np.testing.assert_array_equal(one.indices, other.indices)
            np.testing.assert_array_equal(one.data["x"], other.data["x"])
    assert any((one.indices != other.indices).any() for one, other in zip(shares[0], shares[2]))


def test_fifo_alternates_between_ranks() -> None:
    shares = together(2, lambda group: [list(batch.indices) for batch in batches(group, "fifo", 4, count=1)])
    # The first trajectory of each rank, then the second trajectory of each rank. Trajectories 0, 4 and 8 have weight 0
    # and are not drawn.
    assert shares == [[[6, 7]], [[1, 2]]]


def test_collect_reads_rows_of_any_rank() -> None:
    def work(group: gpu.Group) -> Any:
        with filled(group) as store:
            group.all_gather(b"")
            found = store.collect([11, 0, 5, 6], {"x": gpu.Window(-1, 1)}).data["x"].tolist()
            group.all_gather(b"")
            return found

    for found in together(3, work):
        assert found == [[1101], [0], [500], [601]]


def test_rows_of_other_ranks_have_their_own_length() -> None:
    """Defect 19: adjacent steps of 1 to 24 bytes, from all ranks."""
    columns = {"byte": "uint8", "short": "int16", "wide": ("float64", (3,)), "flag": "bool", "half": ("float16", (5,))}

    def steps(number: int) -> dict[str, Any]:
        rng = np.random.default_rng(number)
        return {
            "byte": rng.integers(0, 256, 4, np.uint8), "short": rng.integers(-(2**15), 2**15, 4, np.int16), "wide": rng.normal(size=(4, 3)),
            "flag": rng.random(4) < 0.5, "half": rng.normal(size=(4, 5)).astype(np.float16),
        }

    def work(group: gpu.Group) -> None:
        with gpu.Store(columns, capacity=4, max_steps=4, group=group) as store:
            for number in range(4 * group.rank, 4 * group.rank + 4):
                store.insert(steps(number))
            group.all_gather(b"")
            indices = [9, 1, 4, 11, 0, 7, 9]
            batch = store.collect(indices, {name: gpu.Window(-4, 4) for name in columns})
            for name in columns:
                np.testing.assert_array_equal(batch.data[name], np.stack([steps(number)[name] for number in indices]))
            group.all_gather(b"")

    together(3, work)


def test_new_weights_reach_the_rank_that_has_the_trajectory() -> None:
    def work(group: gpu.Group) -> Any:
        with filled(group) as store:
            every = np.arange(TRAJECTORIES)
            mine = every[group.rank :: 2]
            generations = np.ones(len(mine), np.int64)
            changed = store.update_weights(mine, mine * 10.0, generations)
            stale = store.update_weights(mine, mine * 20.0, generations + 1)
            return store.weights(), changed, stale

    (first, *changed), (second, *stale) = together(2, work)
    np.testing.assert_array_equal(np.concatenate([first, second]), np.arange(TRAJECTORIES) * 10.0)
    assert changed == stale == [gpu.Changed(6, 0), gpu.Changed(0, 6)]


@pytest.mark.parametrize(
    ("indices", "weights", "generations", "kind"),
    [
        ([0, 6], [5, float("nan")], None, errors.InvalidArgumentError),
        ([0, 6], [5, -5], None, errors.InvalidArgumentError),
        ([0, 6], [5, 1e39], None, errors.InvalidArgumentError),
        ([0, 6], [5, 5], [1, -1], errors.NotFoundError),
        ([0, -1], [5, 5], None, errors.NotFoundError),
        ([0, 6], [[5, 5]], None, errors.InvalidArgumentError),
        ([[0, 6]], [5, 5], None, errors.InvalidArgumentError),
        ([True, False], [5, 5], None, TypeError),
        ([0, 6], [5], None, errors.InvalidArgumentError),
        ([0, TRAJECTORIES], [5, 5], None, errors.NotFoundError),
        ([0.0, 6.5], [5, 5], None, TypeError),
        (["a"], [5], None, TypeError),
        ([0], ["a"], None, TypeError),
        ([0], [None], None, TypeError),
    ],
)
def test_invalid_new_weights_change_nothing_on_any_rank(indices: Any, weights: Any, generations: Any, kind: type[Exception]) -> None:
    def work(group: gpu.Group) -> Any:
        with filled(group) as store:
            before = store.weights()
            # The other rank's values are valid.
            mine = (indices, weights, generations) if group.rank == 0 else ([1], [5.0], None if generations is None else [1])
            with pytest.raises(kind if group.rank == 0 else errors.UnavailableError):
                store.update_weights(*mine)
            np.testing.assert_array_equal(store.weights(), before)
            tiny = store.update_weights([0, 6], [1e-60, 1e-60])
            return store.weights()[0] > 0, tiny.applied

    assert together(2, work) == [(True, 2), (True, 2)]


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_too_large_weight_is_reported_until_it_is_removed(prefetch: int) -> None:
    def work(group: gpu.Group) -> set[int]:
        with filled(group) as store, store.loader(40, WINDOWS, sampling="weighted", prefetch=prefetch) as loader:
            next(loader)
            heavy = [70_000.0, 1.0, 0, 0, 0, 0]
            store.update_weights(np.arange(6) + 6 * group.rank, heavy if group.rank else [0] * 6)
            for _ in range(3):
                with pytest.raises((errors.InvalidArgumentError, errors.UnavailableError), match="70000"):
                    next(loader)
            store.update_weights([6], [0.0])
            for _ in range(prefetch):
                next(loader)
            return set(next(loader).indices.tolist())

    assert together(2, work) == [{7}, {7}]


def test_a_failing_rank_is_reported_to_all() -> None:
    outcomes: list[str] = []

    def work(group: gpu.Group) -> None:
        with filled(group) as store:
            # Rank 1 has a weight that its loader does not allow.
            with store.loader(2, WINDOWS, sampling="weighted", max_weight=3.0) as loader:
                next(loader)
                if group.rank == 1:
                    store._native.update_weights([7], [100.0], None)
                with pytest.raises((errors.InvalidArgumentError, errors.UnavailableError)) as failed:
                    for _ in range(3):
                        next(loader)
                outcomes.append(str(failed.value))
                if group.rank == 1:
                    store._native.update_weights([7], [1.0], None)
                # All ranks continue from the same point.
                next(loader)

    together(2, work)
    assert any(text.startswith("rank 1 cannot continue: ") for text in outcomes), outcomes


def test_ranks_that_disagree_are_refused() -> None:
    with pytest.raises((errors.InvalidArgumentError, errors.UnavailableError), match="seed"):
        def seeds(group: gpu.Group) -> None:
            with filled(group) as store, store.loader(2, WINDOWS, seed=group.rank) as loader:
                next(loader)

        together(2, seeds)
    with pytest.raises(errors.InvalidArgumentError, match="this program expects 2 steps"):
        together(2, lambda group: gpu.Store({f"x{group.rank}": "int64"}, capacity=2, max_steps=2, group=group))
    with pytest.raises(errors.InvalidArgumentError, match="different names"):
        together(2, lambda group: filled(group, name=f"ranks-{os.getpid()}-{group.rank}"))


def test_trajectories_replaced_during_a_draw_are_drawn_again() -> None:
    """Each rank replaces its trajectories while the others read; the data of each row in a batch belongs together."""

    def work(group: gpu.Group) -> None:
        store = gpu.Store({"x": "int64"}, capacity=8, max_steps=3, group=group)
        for number in range(8):
            store.insert({"x": np.full(3, number)})
        stop = threading.Event()

        def insert() -> None:
            number = 8
            while not stop.is_set():
                store.insert({"x": np.full(3, number)}, timeout=5.0)
                number += 1

        thread = threading.Thread(target=insert)
        thread.start()
        try:
            with store.loader(4, {"x": gpu.Window(-2, 3)}, steps="last", prefetch=2) as loader:
                for _ in range(150):
                    rows = next(loader).data["x"]
                    assert (rows[:, 1:] == rows[:, 1:2]).all(), rows
                group.all_gather(b"")
        finally:
            stop.set()
            thread.join()

    together(2, work)


def test_checkpoints_of_ranks(tmp_path: Any) -> None:
    def save(group: gpu.Group) -> Any:
        with filled(group) as store:
            store.save(tmp_path)
            with store.loader(4, WINDOWS, sampling="weighted", seed=3) as loader:
                return [next(loader).indices.tolist() for _ in range(2)]

    def load(group: gpu.Group) -> Any:
        with gpu.Store.load(tmp_path, group=group) as store:
            assert (store.rank, store.ranks) == (group.rank, group.ranks)
            with store.loader(4, WINDOWS, sampling="weighted", seed=3) as loader:
                return [next(loader).indices.tolist() for _ in range(2)]

    assert together(2, save) == together(2, load)
    with pytest.raises(errors.NotFoundError):
        together(3, load)


def test_a_dataset_is_divided() -> None:
    """Defect 16: each rank stores only its part."""
    ends = np.zeros(20, bool)
    ends[[2, 5, 6, 11, 15, 19]] = True
    data = {"observations": np.arange(20.0), "actions": np.arange(20), "rewards": np.ones(20), "terminals": ends}

    def work(group: gpu.Group) -> Any:
        with gpu.Store.of_dataset(data, group=group) as store, store.loader(12 // group.ranks, {"actions": gpu.Window()}) as loader:
            return len(store), next(loader).data["actions"][:, 0]

    ((count, alone),) = together(1, work)
    shares = together(3, work)
    assert count == 6 and [share[0] for share in shares] == [2, 2, 2]
    np.testing.assert_array_equal(np.stack([share[1] for share in shares], axis=1).reshape(-1), alone)


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


def test_the_number_of_an_episode_is_its_number_in_the_dataset() -> None:
    data = {"actions": np.arange(11), "terminals": np.array([0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1], bool)}

    def work(group: gpu.Group) -> str:
        with gpu.Store({"actions": "int64"}, capacity=2, max_steps=4, group=group) as store:
            try:
                store.insert_dataset(data)
            except errors.InvalidArgumentError as error:
                return str(error)
        return ""

    first, second = together(2, work)
    assert first == "" and "episode 3" in second


@pytest.mark.parametrize("sampling", ["fifo", "uniform"])
def test_ranks_return_the_batches_drawn_ahead_and_lose_no_trajectory_when_no_more_can_be_drawn(sampling: str) -> None:
    def work(group: gpu.Group) -> list[int]:
        with filled(group, removal=("max_times_sampled", 1)) as store, store.loader(2, WINDOWS, sampling=sampling, prefetch=1) as loader:
            # Nine trajectories have a weight, and each batch of both ranks takes four. Uniform draws of the third batch count
            # the ninth before the batch is complete.
            indices = [int(index) for _ in range(2) for index in next(loader).indices]
            for _ in range(2):
                with pytest.raises(errors.UnavailableError):
                    next(loader)
            store.update_weights([[0, 4], [8, 8]][group.rank], [1.0, 1.0])
            return indices + next(loader).indices.tolist()

    found = together(2, work)
    indices = [index for share in found for index in share]
    assert len(indices) == len(set(indices)) == 12


def test_a_batch_drawn_ahead_is_kept_if_one_rank_fails() -> None:
    def work(group: gpu.Group) -> bool:
        with filled(group) as store, store.loader(2, WINDOWS, sampling="fifo", prefetch=1) as loader:
            first = next(loader).indices.tolist()
            native = loader._native
            if group.rank == 0:
                loader._native = FailingOnce(native)  # type: ignore[assignment]
            with pytest.raises(errors.InvalidArgumentError if group.rank == 0 else errors.UnavailableError, match="mine"):
                next(loader)
            return next(loader).indices.tolist() == first

    assert together(2, work) == [True, True]


class FailingOnce:
    """A loader's extension whose next draw fails."""

    def __init__(self, native: Any) -> None:
        self._native, self._fails = native, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def part(self, summaries: list[bytes]) -> bytes:
        if self._fails:
            self._fails = False
            raise errors.InvalidArgumentError("mine")
        part: bytes = self._native.part(summaries)
        return part


class RemovedBetween:
    """A loader's extension, with the first trajectory of rank 0 removed between the two exchanges of the first round."""

    def __init__(self, native: Any, store: gpu.Store, rank: int) -> None:
        self._native, self._store, self._is_open = native, store, rank == 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def part(self, summaries: list[bytes]) -> bytes:
        if self._is_open:
            self._is_open = False
            self._store.remove([0])
        part: bytes = self._native.part(summaries)
        return part


def test_a_repeated_list_counts_no_sample_that_is_not_delivered() -> None:
    def delivered(group: gpu.Group) -> tuple[list[int], list[int]]:
        with filled(group, removal=("max_times_sampled", 1)) as store, store.loader(2, WINDOWS, sampling="fifo", prefetch=0) as loader:
            loader._native = RemovedBetween(loader._native, store, group.rank)  # type: ignore[assignment]
            indices = [int(index) for _ in range(2) for index in next(loader).indices]
            first = group.rank * len(store._native.weights())
            return indices, [index for index in range(6 * group.rank, 6 * group.rank + 6) if store.status(index).sampled]

    found = together(2, delivered)
    indices = sorted(index for share, _ in found for index in share)
    assert len(indices) == 8 and 0 not in indices
    assert indices == sorted(index for _, sampled in found for index in sampled)
