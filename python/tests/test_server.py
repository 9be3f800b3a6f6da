"""Servers and tables: properties, refused calls, and shutdown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive
from relive import extensions

Serve = Callable[..., relive.Server]
Connect = Callable[..., relive.Client]


def test_a_server_needs_tables_of_different_names() -> None:
    with pytest.raises(ValueError, match="At least one table"):
        relive.Server(tables=[])
    with pytest.raises(ValueError, match="At least one table"):
        relive.Server()
    with pytest.raises(ValueError, match="have the same name: table"):
        relive.Server(tables=[uniform_table(), uniform_table()])


def test_a_port_is_served_by_one_server(serve: Serve) -> None:
    port = serve().port
    assert 1024 <= port <= 65535
    with pytest.raises(ValueError, match=f"{port}.*another server uses this port"):
        relive.Server(tables=[uniform_table()], port=port)
    with pytest.raises(ValueError, match="from 0 to 65535"):
        relive.Server(tables=[uniform_table()], port=65536)


def test_a_table_belongs_to_one_server(serve: Serve) -> None:
    table = uniform_table()
    server = serve(table)
    with pytest.raises(ValueError, match="'?\"?table\"?'? already belongs to a server"):
        relive.Server(tables=[table])
    server.stop()
    again = serve(table.replace())
    assert again.localhost_client().server_info(timeout=PATIENCE_S)["table"].current_size == 0


def test_stopping_twice_is_allowed(serve: Serve) -> None:
    server = serve()
    assert "running" in repr(server)
    server.stop()
    server.stop()
    assert "stopped" in repr(server)


def test_server_wait_returns_when_the_server_is_stopped(serve: Serve) -> None:
    server = serve()
    waiter = threading.Thread(target=server.wait)
    waiter.start()
    server.stop()
    waiter.join(PATIENCE_S)
    assert not waiter.is_alive()


def test_a_garbage_collected_server_stops() -> None:
    server = relive.Server(tables=[uniform_table()])
    port = server.port
    del server
    with relive.Server(tables=[uniform_table()], port=port) as again:
        assert again.port == port


def test_a_server_refuses_invalid_arguments() -> None:
    for tables in (relive.Table.queue("one", 1), 3):
        with pytest.raises(TypeError, match=r"tables must be a list of relive\.Table, not"):
            relive.Server(tables)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the element at position 1 is 'two'"):
        relive.Server([relive.Table.queue("one", 1), "two"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"checkpointer must be a checkpointer from relive\.checkpointers, not 3"):
        relive.Server([relive.Table.queue("one", 1)], checkpointer=3)  # type: ignore[arg-type]


def test_a_table_refuses_invalid_arguments() -> None:
    with pytest.raises(ValueError, match="name"):
        uniform_table(name="")
    with pytest.raises(ValueError, match=r"max_size \(0\)"):
        uniform_table(max_size=0)
    with pytest.raises(ValueError, match=r"max_size \(-1\)"):
        uniform_table(max_size=-1)
    with pytest.raises(TypeError, match="2147483647"):
        uniform_table(max_size=2**31)
    for name in ("max_size", "max_times_sampled", "shards", "seed", "max_bytes"):
        for wrong in (True, 1.5, "1"):
            with pytest.raises(TypeError, match=f"{name} is {wrong!r}, but it must be a whole number"):
                uniform_table(**{name: wrong})
    with pytest.raises(TypeError, match="sampler"):
        uniform_table(sampler="uniform")
    with pytest.raises(TypeError, match="remover"):
        uniform_table(remover=None)
    with pytest.raises(TypeError, match="rate_limiter"):
        uniform_table(rate_limiter=1)
    with pytest.raises(ValueError, match="a"):
        uniform_table(signature={"a": "no spec"})
    with pytest.raises(ValueError, match="exponent"):
        uniform_table(sampler=relive.selectors.Prioritized(float("nan")))


def test_table_info_describes_the_table() -> None:
    signature = {"x": relive.ArraySpec((3,), np.float32, "x")}
    table = uniform_table(max_times_sampled=-3, signature=signature)
    info = table.info
    assert (info.name, info.max_size, info.max_times_sampled) == ("table", 1_000, -3)
    assert (info.current_size, info.num_episodes, info.num_unique_samples) == (0, 0, 0)
    assert info.structure == signature
    assert info.sampler_options.HasField("uniform") and not info.sampler_options.is_deterministic
    assert info.remover_options.HasField("fifo") and info.remover_options.is_deterministic
    assert info.rate_limiter_info.min_size_to_sample == 1
    assert repr(table).startswith("Table(name='table'")
    assert all(part in repr(table) for part in ("max_times_sampled=", "rate_limiter=RateLimiter(", "signature=", "current_size=0"))


def test_queues_and_stacks() -> None:
    queue, stack = relive.Table.queue("q", 5), relive.Table.stack("s", 5)
    for table, kind in ((queue, "fifo"), (stack, "lifo")):
        info = table.info
        assert info.sampler_options.HasField(kind) and info.remover_options.HasField(kind)
        assert (info.max_size, info.max_times_sampled) == (5, 1)
        assert (info.rate_limiter_info.min_diff, info.rate_limiter_info.max_diff) == (0.0, 5.0)


def test_replace_changes_only_the_given_settings() -> None:
    table = relive.Table.queue("q", 5, signature=relive.ArraySpec((), np.int32))
    other = table.replace(name="other", max_size=7)
    assert (other.name, other.info.max_size, other.info.max_times_sampled) == ("other", 7, 1)
    assert other.info.structure == table.info.structure
    assert other.info.sampler_options.HasField("fifo")
    assert table.replace(sampler=relive.selectors.MaxHeap()).info.sampler_options.heap.min_heap is False


def test_tables_may_come_from_a_generator() -> None:
    with relive.Server(relive.Table.queue(name, 2) for name in ("one", "two")) as server:
        assert sorted(server.localhost_client().server_info()) == ["one", "two"]


def test_a_table_shows_and_copies_its_current_limiter(serve: Serve) -> None:
    table = uniform_table()
    assert "min_size_to_sample=1)" in repr(table)
    serve(table).localhost_client().change_table("table", min_size_to_sample=7)
    assert "min_size_to_sample=7)" in repr(table)
    assert table.replace().info.rate_limiter_info.min_size_to_sample == 7


def test_can_insert_and_can_sample_match_the_limiter(serve: Serve) -> None:
    table = relive.Table.queue("q", 2)
    assert table.can_insert(num_inserts=1) and not table.can_sample(num_samples=1)
    for ask in (table.can_insert, table.can_sample):
        with pytest.raises(ValueError, match="0"):
            ask(0)
    client = serve(table).localhost_client()
    client.insert(1.0, {"q": 1.0}, timeout=PATIENCE_S)
    client.insert(2.0, {"q": 1.0}, timeout=PATIENCE_S)
    assert table.can_sample(2) and not table.can_sample(3) and not table.can_insert(1)
    assert table.info.current_size == 2


def test_an_item_is_copied_when_it_is_first_sampled(connect: Connect) -> None:
    client = connect(
        uniform_table("source", extensions=[extensions.InsertOnFirstSample("seen")]), uniform_table("seen")
    )
    client.insert([np.float32(7)], {"source": 1.0})
    next(client.sample("source", 1))
    (steps,) = client.sample("seen", 1, timeout=PATIENCE_S)
    assert steps[0].data[0] == 7
    with pytest.raises(ValueError, match="target_table"):
        extensions.InsertOnFirstSample("")


def test_a_high_priority_raises_its_neighbors(connect: Connect) -> None:
    client = connect(uniform_table(
        sampler=relive.selectors.MaxHeap(), extensions=[extensions.PriorityDiffusion(0.5, before=2)]
    ))
    with client.trajectory_writer(1) as writer:
        keys = []
        for step, priority in enumerate([0.0, 0.0, 0.0, 8.0]):
            writer.append(np.int64(step))
            keys.append(writer.create_item("table", priority, writer.history[-1:]))
    items: Any = client.get_items("table", keys)
    assert [item.info.priority for item in items] == [0.0, 2.0, 4.0, 8.0]
    with pytest.raises(ValueError, match="decay"):
        extensions.PriorityDiffusion(1.5, before=1)
