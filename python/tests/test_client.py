"""Client calls other than writers and samplers."""

from __future__ import annotations

import pickle
import socket
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

Connect = Callable[..., relive.Client]


@pytest.fixture
def dead_port() -> int:
    """Returns a port that no server uses or has used. It is below 32768, the lowest port that the system assigns to the
    servers of tests."""
    for port in range(20_000, 32_000):
        with socket.socket() as listener:
            try:
                listener.bind(("localhost", port))
            except OSError:
                continue
            return port
    pytest.fail("every port from 20,000 to 31,999 is in use")


def test_a_checkpoint_request_fails_at_once_without_a_server(dead_port: int) -> None:
    with pytest.raises(RuntimeError, match="checkpoint"):
        relive.Client(f"localhost:{dead_port}").checkpoint()


def test_a_call_timeout_overrides_the_client_timeout(dead_port: int) -> None:
    client = relive.Client(f"localhost:{dead_port}", timeout=0.01)
    calls = [
        lambda: client.change_table("t", max_size=1, timeout=0.2),
        lambda: client.add_table(uniform_table(), timeout=0.2),
        lambda: client.drop_table("t", timeout=0.2),
        lambda: list(client.items("t", timeout=0.2)),
        lambda: client.insert(np.int64(1), {"t": 1.0}, timeout=0.2),
    ]
    for call in calls:
        with pytest.raises(relive.DeadlineExceededError, match="after 200"):
            call()


def prioritized() -> relive.Table:
    return uniform_table(sampler=relive.selectors.Prioritized(1.0))


def fill(client: relive.Client, count: int, table: str = "table") -> list[int]:
    with client.trajectory_writer(1) as writer:
        keys = []
        for step in range(count):
            writer.append(np.int64(step))
            keys.append(writer.create_item(table, 1.0, writer.history[-1:]))
    return keys


def test_the_transport_is_reported_and_can_be_chosen(connect: Connect, transport: str) -> None:
    client = connect()
    assert client.transport == transport
    assert relive.Client(client.server_address).transport == "in-process"
    with pytest.raises(ValueError, match="transport"):
        relive.Client("localhost:1", transport="pigeon")


def test_an_in_process_client_without_a_server_is_refused(dead_port: int) -> None:
    client = relive.Client(f"localhost:{dead_port}", transport="in-process")
    with pytest.raises(ValueError, match=f"this process has no server at localhost:{dead_port}"):
        client.server_info()


@pytest.mark.parametrize("address", ["localhost", "localhost:http", ":80", "grpc://localhost:80"])
def test_invalid_addresses_are_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        relive.Client(address).server_info(timeout=PATIENCE_S)


def test_addresses_in_the_notation_of_grpc(connect: Connect) -> None:
    port = connect().server_address.rpartition(":")[2]
    for address in (f"ipv4:127.0.0.1:{port}", f"dns:///localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        assert list(relive.Client(address).server_info(timeout=PATIENCE_S)) == ["table"]


def test_a_client_is_its_address(connect: Connect) -> None:
    client = connect()
    copy = pickle.loads(pickle.dumps(client))
    assert copy.server_address == client.server_address and copy.transport == client.transport
    assert repr(client) == f"Client, server_address={client.server_address}"
    assert list(copy.server_info()) == ["table"]


class Agent(relive.Client):
    """A client that is a program's own subclass, which takes only the address."""

    def __init__(self, server_address: str) -> None:
        super().__init__(server_address)
        self.is_ready = True


def test_a_pickled_client_keeps_its_class(dead_port: int) -> None:
    copy = pickle.loads(pickle.dumps(Agent(f"localhost:{dead_port}")))
    assert type(copy) is Agent and copy.is_ready


def test_scalars_of_steps_are_arrays(connect: Connect) -> None:
    client = connect()
    client.insert({"number": 1.5, "text": "abc"}, {"table": 1.0})
    ((step,),) = client.sample("table", timeout=PATIENCE_S)
    number, text = step.data
    assert all(isinstance(column, np.ndarray) and column.shape == () for column in (number, text))
    number[()] = 3
    assert number == 3 and text.item() == b"abc"


def test_server_info_after_inserts(connect: Connect) -> None:
    client = connect(uniform_table("a"), uniform_table("b"))
    client.insert({"x": np.zeros(3, np.float32)}, {"a": 1.0, "b": 2.0})
    info = client.server_info()
    assert sorted(info) == ["a", "b"]
    assert info["a"].current_size == info["b"].current_size == 1
    assert info["a"].rate_limiter_info.insert_stats.completed == 1
    assert info["a"].num_episodes == 1


def test_status_reports_bytes(connect: Connect) -> None:
    client = connect()
    client.insert(np.zeros(1_000, np.float32), {"table": 1.0})
    status = client.status(timeout=PATIENCE_S)
    assert status["version"] == relive.__version__
    assert status["num_chunks"] == 1 and status["raw_bytes"] == 4_000
    assert 0 < status["encoded_bytes"] < 4_000
    assert status["tables"]["table"].referenced_bytes == status["encoded_bytes"]
    assert status["tables"]["table"].waiters == []


def test_a_call_to_a_dead_server_exceeds_the_deadline(dead_port: int) -> None:
    client = relive.Client(f"localhost:{dead_port}")
    for call in (
        lambda: client.server_info(timeout=1),
        lambda: client.reset("t", timeout=0.2),
        lambda: client.mutate_priorities("t", {1: 1.0}, timeout=0.2),
        lambda: client.update_priorities("t", [1], [1.0], timeout=0.2),
        lambda: client.insert(1.0, {"t": 1.0}, timeout=0.2),
        lambda: next(client.sample("t", 1, timeout=0.2)),
        lambda: next(client.batches("t", 1, timeout=0.2)),
        lambda: client.status(timeout=0.2),
        lambda: next(client.items("t", timeout=0.2)),
        lambda: client.get_items("t", [1], timeout=0.2),
    ):
        with pytest.raises(relive.DeadlineExceededError) as raised:
            call()
        assert isinstance(raised.value, TimeoutError) and isinstance(raised.value, relive.ReverbError)


def test_a_timeout_of_0_does_not_wait_for_the_structure_of_items(dead_port: int) -> None:
    client = relive.Client(f"localhost:{dead_port}")
    begun = time.monotonic()
    with pytest.raises(relive.DeadlineExceededError):
        client.get_items("table", [1], timeout=0)
    with pytest.raises(relive.DeadlineExceededError):
        next(client.sample("table", unpack_as_table_signature=True, timeout=0))
    assert time.monotonic() - begun < PATIENCE_S


def test_a_timeout_of_0_returns_available_items_in_their_structure(connect: Connect) -> None:
    client = connect(uniform_table(signature={"x": relive.ArraySpec((2,), np.float32)}))
    client.insert({"x": np.ones(2, np.float32)}, {"table": 1.0})
    (sample,) = client.sample("table", emit_timesteps=False, unpack_as_table_signature=True, timeout=0)
    assert sample.data["x"].tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_invalid_timeouts_are_refused(connect: Connect, timeout: float) -> None:
    client = connect()
    for call in (lambda: client.get_items("table", [1], timeout=timeout), lambda: client.server_info(timeout)):
        with pytest.raises(ValueError, match="timeout must be a number of seconds"):
            call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.trajectory_writer(2**32), "num_keep_alive_refs is 4294967296"),
        (lambda client: client.trajectory_writer(2, chunk_length=-1), "chunk_length is -1, but it must be at least 1"),
        (lambda client: client.trajectory_writer(2, max_pending_items=-1), "max_pending_items is -1, but it must be at least 0"),
        (lambda client: client.writer(2**40), "max_sequence_length is 1099511627776"),
        (lambda client: client.batches("table", 2, prefetch=2**64), "prefetch is 18446744073709551616"),
        (lambda _: uniform_table(max_bytes=2**64), "max_bytes is 18446744073709551616"),
        (lambda _: uniform_table().can_sample(2**63), "num_samples is 9223372036854775808"),
        (lambda _: uniform_table(signature=relive.ArraySpec((2**40,), "int8")), r"shape \(1099511627776,\); sizes must be below 2\*\*32"),
    ],
)
def test_numbers_that_are_too_large_or_negative(connect: Connect, call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call(connect())


def test_several_requests_share_one_timeout(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    client, asked = connect(), []

    class Native:
        """The native client, which records the timeouts of requests; each takes a second."""

        def __getattr__(self, name: str) -> Any:
            def call(*arguments: Any) -> Any:
                asked.append(arguments[-1])
                now[0] += 1.0
                return getattr(native, name)(*arguments)

            return call

    native, now = client._native, [100.0]
    monkeypatch.setattr(client, "_native", Native())
    monkeypatch.setattr(relive.client, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    assert client.get_items("table", [1], timeout=2.5) == [None]
    assert asked == [2.5, 1.5, 0.5]


def test_unknown_tables(connect: Connect) -> None:
    client = connect()
    for call in (
        lambda: client.reset("nowhere"),
        lambda: client.mutate_priorities("nowhere", {1: 1.0}),
        lambda: next(client.sample("nowhere", 1)),
        lambda: next(client.batches("nowhere", 1)),
        lambda: client.insert(1.0, {"nowhere": 1.0}),
        lambda: client.get_items("nowhere", [1]),
        lambda: next(client.items("nowhere")),
    ):
        with pytest.raises(RuntimeError, match="nowhere.*table"):
            call()
    with pytest.raises(ValueError, match="nowhere"):
        client.insert(1.0, {"nowhere": 1.0})


def test_insert_needs_a_table() -> None:
    with pytest.raises(ValueError, match="priorities"):
        relive.Client("localhost:1").insert(1.0, {})
    with pytest.raises(ValueError, match="priorities"):
        relive.Client("localhost:1").insert(1.0, None)  # type: ignore[arg-type]


def test_insert_reports_refusals_of_the_server(connect: Connect) -> None:
    client = connect(prioritized())
    with pytest.raises(ValueError, match="-1"):
        client.insert(1.0, {"table": -1.0})
    with pytest.raises(ValueError, match="NaN"):
        client.insert(1.0, {"table": float("nan")})
    client.insert(1.0, {"table": 1.0})
    assert client.server_info()["table"].current_size == 1


def test_priorities_by_mapping(connect: Connect) -> None:
    client = connect(prioritized())
    first, second, third = fill(client, 3)
    client.mutate_priorities("table", updates={first: 5.0, 12345: 1.0}, deletes=np.array([second, 77], np.uint64))
    found = client.get_items("table", [first, second, third])
    assert [item and item.info.priority for item in found] == [5.0, None, 1.0]
    client.mutate_priorities("table")
    with pytest.raises(ValueError, match="-1"):
        client.mutate_priorities("table", updates={first: -1.0})
    with pytest.raises(ValueError, match="NaN|nan"):
        client.mutate_priorities("table", updates={first: float("nan")})
    for priority in (None, "7", [None]):
        with pytest.raises(TypeError):
            client.mutate_priorities("table", updates={first: priority})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="sequence of keys"):
        client.mutate_priorities("table", deletes=first)  # type: ignore[arg-type]
    assert client.get_items("table", [first])[0] is not None
    for key in (-1, 2**64, "one", 1.5):
        with pytest.raises(TypeError, match="key"):
            client.mutate_priorities("table", updates={key: 1.0})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda _: relive.Client(8000), "server_address is 8000, but it must be a string such as 'localhost:8000'"),
        (lambda client: client.insert([1.0], {"table": "high"}), "the priority of table 'table' is 'high', but it must be a number"),
        (lambda client: client.insert([1.0], {"table": np.complex64(1)}), "the priority of table 'table' is .*, but it must be a number"),
        (lambda client: client.insert([1.0], {1: 1.0}), "priorities must map the names of tables to priorities, but one name is 1"),
        (lambda client: client.insert([1.0], {"table": 1.0}, timeout="x"), "must be real number, not str\nwhile processing 'timeout'"),
        (lambda client: next(client.sample(5)), "'int' object is not an instance of 'str'\nwhile processing 'table'"),
        (lambda client: client.reset(5), "'int' object is not an instance of 'str'\nwhile processing 'table'"),
        (lambda client: client.batches("table", 2, pad=1), "pad must be True or False, got 1"),
        (lambda client: client.add_table(None), "table must be a relive.Table, got None"),
        (lambda client: client.trajectory_writer(None), "num_keep_alive_refs is None, but it must be a whole number"),
        (lambda client: client.writer(None), "max_sequence_length is None, but it must be a whole number"),
        (lambda client: client.writer(2).create_item("table", None, 1.0), "num_timesteps is None, but it must be a whole number"),
        (lambda client: client.mutate_priorities("table", deletes=b"\xff\0"), "a key must be an integer from 0"),
        (lambda _: relive.Client("localhost:1", transport=1), "transport must be a string, got 1"),
        (lambda _: relive.Client("localhost:1", token=1), "token must be a string, got 1"),
        (lambda _: relive.Client("localhost:1", tls="x"), "tls must be a relive.ClientTls, got 'x'"),
        (lambda client: next(client.sample("table", "many")), "num_samples is 'many', but it must be a whole number"),
        (lambda client: client.change_table("table", max_size="large"), "max_size is 'large', but it must be a whole number"),
        (lambda client: client.structured_writer(3), r"configs must be a list of configurations from create_config\(\), not 3"),
        (lambda client: client.structured_writer([3]), r"the configuration at position 0 must be from create_config\(\), but it is 3"),
    ],
)
def test_arguments_of_wrong_types(connect: Connect, call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        call(connect(prioritized()))


def test_priorities_by_arrays(connect: Connect) -> None:
    client = connect(prioritized())
    keys = np.array(fill(client, 100), np.uint64)
    client.update_priorities("table", keys, np.arange(100.0))
    found = client.get_items("table", keys)
    assert [item and item.info.priority for item in found] == list(range(100))
    client.update_priorities("table", keys[:2].tolist(), [7, 8])
    client.delete_items("table", keys[2:])
    assert client.server_info()["table"].current_size == 2
    client.update_priorities("table", [], [])
    with pytest.raises(ValueError, match="2 keys, but 1 priorities"):
        client.update_priorities("table", keys[:2], [1.0])


def test_reset_empties_a_table(connect: Connect) -> None:
    client = connect()
    before = set(fill(client, 5))
    next(client.sample("table", 1))
    client.reset("table")
    info = client.server_info()["table"]
    assert (info.current_size, info.num_unique_samples, info.rate_limiter_info.insert_stats.completed) == (0, 0, 0)
    after = set(fill(client, 5))
    assert not before & after
    assert {sample.info.key for sample in client.sample("table", 20, emit_timesteps=False)} <= after


def test_items_are_listed_in_the_order_of_their_insertion(connect: Connect) -> None:
    client = connect(uniform_table(max_size=10_000))
    keys = fill(client, 2_500)
    next(client.sample("table", 1))
    items = list(client.items("table"))
    assert [item.key for item in items] == keys
    assert sum(item.times_sampled for item in items) == 1
    assert all(item.priority == 1.0 for item in items)
    times = [item.inserted_at for item in items]
    assert times == sorted(times) and times[0] > 1.7e9


def test_items_are_found_by_key_without_sampling_them(connect: Connect) -> None:
    client = connect()
    keys = fill(client, 3)
    found = client.get_items("table", [keys[2], 1, keys[0]])
    assert found[1] is None
    assert [item.data.tolist() for item in found if item] == [[2], [0]]
    assert client.server_info()["table"].rate_limiter_info.sample_stats.completed == 0
