"""Ranks that are no longer at the same point get one clear error, immediately and on all ranks."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from gpu_ranks import WINDOWS, filled, together, whole
from relive import errors, gpu
from relive.gpu import _ranks, _saves
from relive.gpu._group import exchange
from test_gpu_network import interrupt_once_in

# Longer than any test: nothing waits for the end of a timeout.
PATIENCE_S = 60.0
REMEDY = "create the store again on all ranks, with a new group, or load the last checkpoint"

Meet = Callable[[int], "list[gpu.LocalGroup]"]


def in_threads(*works: Callable[[], Any]) -> list[Any]:
    """Returns the results of functions that run at the same time, or their exceptions."""
    results: list[Any] = [None] * len(works)

    def run(number: int) -> None:
        try:
            results[number] = works[number]()
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
    return results


@pytest.fixture
def meet() -> Iterator[Meet]:
    """Provides groups of this process's threads."""
    opened: list[gpu.LocalGroup] = []

    def join(ranks: int) -> list[gpu.LocalGroup]:
        name = f"groups-{os.getpid()}-{len(opened)}"
        made = in_threads(*[lambda rank=rank: gpu.LocalGroup(name, rank, ranks, timeout=PATIENCE_S) for rank in range(ranks)])
        opened.extend(made)
        return made

    yield join
    for group in opened:
        group.close()


def expect_ended(groups: list[gpu.LocalGroup], why: str) -> None:
    """Expects the same error from each rank, without a wait for the others."""
    for group in groups:
        for _ in range(2):
            with pytest.raises(errors.UnavailableError) as failed:
                exchange(group, bytes)
            assert str(failed.value) == f"{why}; {REMEDY}"
        with pytest.raises(errors.UnavailableError, match=REMEDY):
            group.all_gather(b"")


@pytest.mark.parametrize("timeout", [3e6, 9e8])
def test_a_timeout_may_exceed_the_system_s_limit(timeout: float) -> None:
    name = f"groups-long-{os.getpid()}"
    groups = in_threads(*[lambda rank=rank: gpu.LocalGroup(name, rank, 2, timeout=timeout) for rank in range(2)])
    assert in_threads(*[lambda group=group: group.all_gather(bytes([group.rank])) for group in groups]) == [[b"\0", b"\1"]] * 2
    for group in groups:
        group.close()


@pytest.mark.parametrize("timeout", [0.0, -1.0, 1e9, float("inf"), float("nan")])
def test_an_invalid_timeout_of_a_group_is_refused(timeout: float) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="must be above 0 seconds, and below 1e9"):
        gpu.LocalGroup("groups-refused", 0, 1, timeout=timeout)


def test_a_timeout_ends_the_group_on_all_ranks(meet: Meet) -> None:
    groups = meet(3)
    groups[1].timeout = 0.3
    with pytest.raises(errors.DeadlineExceededError, match="rank 0 sends nothing within 0.3 s"):
        exchange(groups[1], bytes)
    name = groups[1]._name
    expect_ended([groups[1], groups[0], groups[2]], f"rank 1 stopped in next(loader): group {name!r}, rank 1: rank 0 sends nothing within 0.3 s")


def test_a_timeout_within_a_message_ends_the_group(meet: Meet) -> None:
    """What remains of the message is not taken for the next one."""
    groups = meet(2)
    groups[1].timeout = 0.3
    groups[0]._peers[1].sendall(b"tor")
    with pytest.raises(errors.DeadlineExceededError, match="rank 0 sends nothing"):
        exchange(groups[1], bytes)
    with pytest.raises(errors.UnavailableError, match="rank 1 stopped in next"):
        exchange(groups[0], bytes)


def test_an_incomplete_message_is_not_completed_by_the_reason(meet: Meet) -> None:
    groups = meet(2)
    # The message is larger than the socket's buffer, and is not read.
    groups[1].timeout = 0.3
    with pytest.raises(errors.DeadlineExceededError, match="rank 0 does not read"):
        exchange(groups[1], lambda: bytes(1 << 24))
    with pytest.raises(errors.UnavailableError, match="rank 1 has ended"):
        exchange(groups[0], bytes)


def test_late_weights_change_nothing(meet: Meet) -> None:
    """A rank that was interrupted does not apply the other rank's previous weights from then on."""
    groups = meet(2)
    stores = in_threads(*[lambda group=group: filled(group) for group in groups])
    before = [store.weights() for store in stores]
    groups[1].timeout = 0.3
    with pytest.raises(errors.DeadlineExceededError):
        stores[1].update_weights([6], [50.0])
    groups[1].timeout = PATIENCE_S
    for weight in (60.0, 70.0):
        for failed in in_threads(*[lambda store=store, at=at: store.update_weights([at], [weight]) for at, store in zip((0, 6), stores)]):
            assert isinstance(failed, errors.UnavailableError) and "rank 1 stopped in update_weights" in str(failed)
    for store, weights in zip(stores, before):
        np.testing.assert_array_equal(store.weights(), weights)
        store.close()


def test_ctrl_c_ends_the_group_on_all_ranks(meet: Meet) -> None:
    groups = meet(2)
    interrupter = threading.Thread(target=interrupt_once_in, args=("_read",))
    with pytest.raises(KeyboardInterrupt):
        interrupter.start()
        exchange(groups[1], bytes)
    interrupter.join()
    expect_ended(groups[::-1], "rank 1 stopped in next(loader): KeyboardInterrupt")


def test_an_interrupt_of_the_own_part_ends_the_group(meet: Meet) -> None:
    groups = meet(2)

    def interrupted() -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        exchange(groups[0], interrupted)
    expect_ended(groups, "rank 0 stopped in next(loader): KeyboardInterrupt")


def test_all_ranks_continue_after_an_exception_of_one(meet: Meet) -> None:
    groups = meet(3)

    def fails() -> bytes:
        raise KeyError("mine")

    makes = [bytes, fails, bytes]
    failed = in_threads(*[lambda group=group, make=make: exchange(group, make) for group, make in zip(groups, makes)])
    assert [type(error) for error in failed] == [errors.UnavailableError, KeyError, errors.UnavailableError]
    assert "rank 1 cannot continue: 'mine'" in str(failed[2])
    answers = in_threads(*[lambda group=group: exchange(group, lambda: b"%d" % group.rank) for group in groups])
    assert answers == [[b"0", b"1", b"2"]] * 3


def test_all_ranks_learn_at_once_that_a_rank_has_ended(meet: Meet) -> None:
    """Also if rank 0, through which all messages pass, stays alive, and a third rank is late."""
    groups = meet(4)
    groups[1].close()
    failed = in_threads(lambda: exchange(groups[0], bytes), lambda: exchange(groups[2], bytes))
    assert all(isinstance(error, errors.UnavailableError) and "rank 1 has ended" in str(error) for error in failed), failed
    expect_ended([groups[3]], f"rank 0 stopped in next(loader): group {groups[0]._name!r}: rank 1 has ended")


def test_the_end_of_rank_0_is_reported(meet: Meet) -> None:
    groups = meet(2)
    groups[0].close()
    with pytest.raises(errors.UnavailableError, match="rank 0 has ended"):
        exchange(groups[1], bytes)


def test_a_forked_child_does_not_hide_the_end_of_its_parent() -> None:
    program = """
        import os, threading
        from relive import errors, gpu

        groups = {}
        joining = threading.Thread(target=lambda: groups.setdefault(0, gpu.LocalGroup("forks-%d" % os.getpid(), 0, 2)))
        joining.start()
        groups[1] = gpu.LocalGroup("forks-%d" % os.getpid(), 1, 2)
        joining.join()
        (ready, is_ready), (end, parent) = os.pipe(), os.pipe()
        if os.fork() == 0:
            os.close(parent)
            os.write(is_ready, b"1")
            os.read(end, 1)
            os._exit(0)
        os.read(ready, 1)
        groups[1].close()
        try:
            groups[0].all_gather(b"")
        except errors.UnavailableError as error:
            print(error)
        # The child still lives.
        gpu.LocalGroup("forks-%d" % os.getpid(), 1, 2, timeout=0.01)
    """
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=PATIENCE_S)
    assert "rank 1 has ended" in ended.stdout, ended
    assert "rank 0 has not connected" in ended.stderr, ended


def test_different_calls_are_named() -> None:
    texts: list[str] = []

    def work(group: gpu.Group) -> None:
        with pytest.raises(errors.InvalidArgumentError) as failed:
            exchange(group, bytes, "update_weights" if group.rank == 1 else "next(loader)")
        texts.append(str(failed.value))
        # From then on, the ranks do not wait for each other.
        with pytest.raises(errors.UnavailableError, match=REMEDY):
            exchange(group, bytes)

    together(3, work)
    assert set(texts) == {
        "rank 0 is in next(loader) (exchange 0), but rank 1 is in update_weights (exchange 0); all ranks must make the same calls in the same order"
    }


def test_a_rank_that_is_one_exchange_behind_is_detected() -> None:
    def work(group: gpu.Group) -> None:
        group._exchanges = group.rank
        with pytest.raises(errors.InvalidArgumentError, match=r"rank 0 is in \S+ \(exchange 0\), but rank 1 is in \S+ \(exchange 1\)"):
            exchange(group, bytes)

    together(2, work)


def test_messages_of_other_programs_are_refused() -> None:
    def work(group: gpu.Group) -> None:
        if group.rank == 1:
            group.all_gather(b"hello")
            return
        with pytest.raises(errors.InvalidArgumentError, match="rank 1 is in a different program"):
            exchange(group, bytes)

    together(2, work)


def test_ranks_with_different_prefetch_are_refused() -> None:
    def work(group: gpu.Group) -> None:
        with filled(group) as store, store.loader(2, WINDOWS, prefetch=group.rank) as loader:
            with pytest.raises(errors.InvalidArgumentError, match=r"rank 0 is in update_weights .* rank 1 is in next\(loader\)"):
                for _ in range(2):
                    batch = next(loader)
                    store.update_weights(batch.indices, [1.0] * 2)

    together(2, work)


def test_a_rank_exists_once() -> None:
    """Also after all ranks have met, and until the rank ends."""
    name = f"twice-{os.getpid()}"
    groups = in_threads(*[lambda rank=rank: gpu.LocalGroup(name, rank, 2, timeout=PATIENCE_S) for rank in range(2)])
    for rank in range(2):
        with pytest.raises(errors.UnavailableError, match=f"a process already is rank {rank} of the group '{name}'"):
            gpu.LocalGroup(name, rank, 2, timeout=PATIENCE_S)
    assert in_threads(*[lambda group=group: group.all_gather(b"") for group in groups]) == [[b"", b""]] * 2
    for group in groups:
        group.close()
    groups = in_threads(*[lambda rank=rank: gpu.LocalGroup(name, rank, 2, timeout=PATIENCE_S) for rank in range(2)])
    for group in groups:
        group.close()


def test_a_failed_attempt_leaves_the_name_free() -> None:
    name = f"attempts-{os.getpid()}"

    def create(rank: int, columns: dict[str, str]) -> Any:
        return gpu.Store(columns, capacity=2, max_steps=2, name=name, rank=rank, ranks=2)

    failed = in_threads(lambda: create(0, {"x": "int64"}), lambda: create(1, {"y": "int64"}))
    assert all(isinstance(error, errors.ReverbError) for error in failed), failed
    stores = in_threads(lambda: create(0, {"x": "int64"}), lambda: create(1, {"x": "int64"}))
    for store in stores:
        store.close()


def test_the_last_weight_in_the_whole_list_counts() -> None:
    """A trajectory that a batch has several times gets the same weight with any number of ranks."""

    def work(group: gpu.Group) -> Any:
        with filled(group) as store, store.loader(12 // group.ranks, WINDOWS, sampling="prioritized", seed=11) as loader:
            drawn = []
            for number in range(4):
                batch = next(loader)
                drawn.append(batch)
                losses = 1.0 + number + np.arange(group.rank, 12, group.ranks)
                store.update_weights(batch.indices, losses, batch.generations if number % 2 else None)
            return drawn, store.weights()

    ((alone, weights),) = together(1, work)
    assert any(len(set(batch.indices)) < 12 for batch in alone)
    for ranks in (2, 3):
        shares = together(ranks, work)
        np.testing.assert_array_equal(np.concatenate([share[1] for share in shares]), weights)
        for number, expected in enumerate(alone):
            np.testing.assert_array_equal(whole([share[0][number] for share in shares], "indices"), expected.indices)


def test_weights_of_stages_and_of_parts_of_different_sizes() -> None:
    """Only the last stage of a pipeline has losses, and a replica may have fewer than another."""
    given = {0: ([], []), 1: ([0, 1, 0], [1, 2, 3]), 2: ([], []), 3: ([0], [4])}

    def work(group: gpu.Group) -> Any:
        _, weights, _ = _ranks.own_updates(group, 12, *given[group.rank], None)
        return weights.tolist()

    # Row 0 of replica 0, row 0 of replica 1, row 1 of replica 0, and row 2 of replica 0.
    assert together(4, work, replicas=2) == [[1, 4, 2, 3], [], [], []]


def write(group: gpu.Group, store: gpu.Store, folder: pathlib.Path) -> None:
    """Writes a rank's checkpoint, without the other ranks."""
    store._native.save(_saves.rank_folder(folder, (group.rank, group.ranks)))


def save(group: gpu.Group, store: gpu.Store, folder: pathlib.Path) -> None:
    _saves.agree_on_save(group, folder)
    write(group, store, folder)


def test_checkpoints_of_different_saves_are_refused(tmp_path: pathlib.Path) -> None:
    def work(group: gpu.Group) -> str:
        with filled(group) as store:
            save(group, store, tmp_path)
            _saves.require_one_save(group, tmp_path)
            # Rank 1 is killed during its save.
            _saves.agree_on_save(group, tmp_path)
            if group.rank == 0:
                write(group, store, tmp_path)
            with pytest.raises(errors.DataLossError) as failed:
                _saves.require_one_save(group, tmp_path)
            # The next save is complete, even though its numbers differ.
            save(group, store, tmp_path)
            _saves.require_one_save(group, tmp_path)
        return str(failed.value)

    first, second = together(2, work)
    assert first == second
    assert "from different saves: rank 0 has number 2 (save " in first and ", rank 1 has number 1 (save " in first


def test_the_same_number_of_different_saves_is_refused(tmp_path: pathlib.Path) -> None:
    """In one run, rank 1 did not complete its second save; in the next run, rank 0 did not."""

    def work(group: gpu.Group) -> None:
        with filled(group) as store:
            for completed in ((0, 1), (0,), (1,)):
                _saves.agree_on_save(group, tmp_path)
                if group.rank in completed:
                    write(group, store, tmp_path)
            with pytest.raises(errors.DataLossError, match="rank 0 has number 2 .* rank 1 has number 2 "):
                _saves.require_one_save(group, tmp_path)

    together(2, work)


def test_numbers_of_checkpoints_without_notes_are_compared(tmp_path: pathlib.Path) -> None:
    def work(group: gpu.Group) -> None:
        # There is no checkpoint: loading reports this.
        _saves.require_one_save(group, tmp_path)
        with filled(group) as store:
            write(group, store, tmp_path)
            _saves.require_one_save(group, tmp_path)
            if group.rank == 0:
                write(group, store, tmp_path)
            with pytest.raises(errors.DataLossError, match=r"rank 0 has number 2 \(save None\), rank 1 has number 1 \(save None\)"):
                _saves.require_one_save(group, tmp_path)

    together(2, work)


def test_no_rank_saves_without_the_others(meet: Meet, tmp_path: pathlib.Path) -> None:
    groups = meet(2)
    groups[1].close()
    with pytest.raises(errors.UnavailableError, match="rank 1 has ended"):
        _saves.agree_on_save(groups[0], tmp_path)
    assert not list(tmp_path.iterdir())
