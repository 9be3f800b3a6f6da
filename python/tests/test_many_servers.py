"""Many servers as one."""

from __future__ import annotations

import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import relive
from conftest import PATIENCE_S, uniform_table
from relive.errors import NotFoundError, UnavailableError

SERVERS = 4

Serve = Callable[..., relive.Server]


class Fleet:
    """Four servers, and a client for all of them."""

    def __init__(self, serve: Serve, *tables: relive.Table) -> None:
        self.servers = [serve(*(table.replace() for table in tables)) for _ in range(SERVERS)]
        self.addresses = [f"127.0.0.1:{server.port}" for server in self.servers]
        self.client = relive.Client(self.addresses, timeout=PATIENCE_S)

    def sizes(self, table: str = "table") -> list[int]:
        return [relive.Client(address).server_info()[table].current_size for address in self.addresses]

    def wait_for(self, place: int, standing: str) -> relive.ServerState:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            state = self.client.servers()[place]
            if state.standing == standing:
                return state
            self.client.server_info()
        raise AssertionError(f"{self.client.servers()[place]} is not {standing}")


@pytest.fixture
def fleet(serve: Serve) -> Fleet:
    return Fleet(serve)


def test_addresses_are_a_list_or_one_string(fleet: Fleet) -> None:
    text = ",".join(fleet.addresses)
    for addresses in (fleet.addresses, tuple(fleet.addresses), text, f"ipv4:{text}"):
        client = relive.Client(addresses, timeout=PATIENCE_S)
        assert client.server_info()["table"].max_size == 4_000
        assert [state.address for state in client.servers()] == fleet.addresses
    assert fleet.client.server_address == text
    copy = pickle.loads(pickle.dumps(fleet.client))
    assert copy.server_address == text and len(copy.servers()) == SERVERS
    assert fleet.client.transport == "shm"


def test_invalid_addresses_are_refused() -> None:
    with pytest.raises(ValueError, match="no server address"):
        relive.Client([])
    with pytest.raises(TypeError, match="must be a string"):
        relive.Client(["localhost:1", 2])  # type: ignore[list-item]
    for addresses, why in ((["a:1", "a:1"], "listed twice"), (["a:1", ""], "empty"), ("dns:///name", "needs a port")):
        with pytest.raises(ValueError, match=why):
            relive.Client(addresses).server_info()


def test_the_calls_of_dm_reverb(fleet: Fleet) -> None:
    client = fleet.client
    for number in range(8):
        client.insert([np.float32(number)], {"table": 1.0})
    assert sum(fleet.sizes()) == 8 and min(fleet.sizes()) > 0
    with client.writer(max_sequence_length=2) as writer:
        for number in range(4):
            writer.append([np.float32(number)])
            writer.create_item("table", num_timesteps=1, priority=1.0)
    with client.trajectory_writer(num_keep_alive_refs=2) as trajectories:
        for number in range(4):
            trajectories.append({"x": np.float32(number)})
            trajectories.create_item("table", 1.0, [trajectories.history["x"][-1:]])
        with pytest.raises(ValueError, match=r"its first writer wrote \[_\], but the item is \{x\}"):
            trajectories.create_item("table", 1.0, {"x": trajectories.history["x"][-1:]})
        trajectories.flush()
    assert sum(fleet.sizes()) == client.server_info()["table"].current_size == 16
    (sample,) = client.sample("table", emit_timesteps=False)
    assert sample.info.table_size == 16 and sample.info.probability == pytest.approx(1 / 16)
    seen = {int(one.info.key) for one in client.sample("table", 200, emit_timesteps=False)}
    assert len(seen) > 2
    client.mutate_priorities("table", updates={key: 3.0 for key in seen}, deletes=[min(seen)])
    assert client.server_info()["table"].current_size == 15
    items = {item.key: item.priority for item in client.items("table")}
    assert len(items) == 15 and all(items[key] == 3.0 for key in seen - {min(seen)})
    found = client.get_items("table", list(items))
    assert [None if item is None else item.info.key for item in found] == list(items)
    assert client.status()["tables"]["table"].current_size == 15
    client.reset("table")
    assert fleet.sizes() == [0] * SERVERS
    with pytest.raises(NotFoundError, match="succeeded on 0 of 4 servers"):
        client.reset("nothing")


def test_datasets(serve: Serve) -> None:
    of_items, of_steps = ({"x": relive.ArraySpec(shape, np.float32)} for shape in ((None,), ()))
    fleet = Fleet(serve, uniform_table("items", signature=of_items), uniform_table("steps", signature=of_steps))
    for number in range(20):
        fleet.client.insert({"x": np.float32(number)}, {"items": 1.0, "steps": 1.0})
    for dataset in (
        relive.TrajectoryDataset.from_table_signature(fleet.addresses, "items", 10, max_samples=50),
        relive.TimestepDataset.from_table_signature(fleet.client, "steps", 10, max_samples=50),
    ):
        values = [float(np.squeeze(sample.data["x"])) for sample in dataset]
        assert len(values) == 50 and len(set(values)) > 8


@pytest.mark.parametrize("prefetch", [0, None])
def test_batches(fleet: Fleet, prefetch: int | None) -> None:
    for number in range(20):
        fleet.client.insert({"x": np.full(3, number, np.int32)}, {"table": 1.0})
    seen: set[int] = set()
    for batch in fleet.client.batches("table", 32, prefetch=prefetch, max_batches=10):
        assert batch.data["x"].shape == (32, 1, 3)
        assert (batch.info.table_size == 20).all()
        np.testing.assert_allclose(batch.info.probability, 1 / 20)
        fleet.client.update_priorities("table", batch.info.key, batch.data["x"][:, 0, 0] + 1.0)
        seen.update(batch.data["x"][:, 0, 0].tolist())
    assert len(seen) == 20
    priorities = sorted(item.priority for item in fleet.client.items("table"))
    assert priorities == [number + 1.0 for number in range(20)]


def test_checkpoints_of_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    def start(place: int) -> relive.Server:
        path = str(tmp_path_factory.mktemp(f"server{place}"))
        return relive.Server([uniform_table()], checkpointer=relive.checkpointers.DefaultCheckpointer(path))

    servers = [start(place) for place in range(2)]
    addresses = [f"127.0.0.1:{server.port}" for server in servers]
    client = relive.Client(addresses, timeout=PATIENCE_S)
    paths = dict(pair.split("=") for pair in client.checkpoint().split(","))
    assert list(paths) == addresses
    saved = client.checkpoint_status().last_saved
    assert saved is not None and saved.error is None
    for server in servers:
        server.stop()


def test_a_table_is_changed_on_all_servers(fleet: Fleet) -> None:
    changed = fleet.client.change_table("table", max_size=7)
    assert changed.changes[0].new == "7"
    fleet.client.add_table(uniform_table("more"))
    assert fleet.sizes("more") == [0] * SERVERS
    fleet.client.drop_table("more")
    assert list(fleet.client.server_info()) == ["table"]
    assert fleet.client.server_info()["table"].max_size == 28


def test_a_single_server_can_be_addressed(fleet: Fleet) -> None:
    fleet.client.server(fleet.addresses[2]).insert([1.0], {"table": 1.0})
    assert fleet.sizes() == [0, 0, 1, 0]
    with pytest.raises(ValueError, match="this client has no server at"):
        fleet.client.server("elsewhere:1")
    assert relive.Client(fleet.addresses[0]).servers() == []


@pytest.fixture
def load(fleet: Fleet) -> Iterator[list[float]]:
    """Writers and readers that run until the test ends; records the times at which they completed an operation."""
    moments: list[float] = []
    failures: list[BaseException] = []
    over = threading.Event()

    def write() -> None:
        with fleet.client.trajectory_writer(num_keep_alive_refs=1) as writer:
            while not over.is_set():
                writer.append([np.float32(1)])
                writer.create_item("table", 1.0, [writer.history[0][-1:]])
                writer.flush()
                moments.append(time.monotonic())

    def read() -> None:
        with fleet.client.batches("table", 8) as batches:
            while not over.is_set():
                next(batches)
                moments.append(time.monotonic())

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (write, write, write, write, read)]
    for thread in threads:
        thread.start()
    yield moments
    over.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_dead_server_is_skipped_and_readmitted(
    fleet: Fleet, load: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="relive")
    assert list(fleet.client.sample("table", 3))
    port = fleet.servers[3].port
    stopping = time.monotonic()
    fleet.servers[3].stop()
    state = fleet.wait_for(3, "away")
    assert time.monotonic() - stopping < 2 and state.reason and state.times_left == 1
    count = len(load)
    fleet.client.insert([np.float32(2)], {"table": 1.0})
    with pytest.raises(UnavailableError, match=r"succeeded on 3 of 4 servers, failed on 127\.0\.0\.1"):
        fleet.client.reset("table")
    while len(load) < count + 50:
        assert time.monotonic() - stopping < PATIENCE_S
        fleet.client.insert([np.float32(2)], {"table": 1.0})
    fleet.servers[3] = again = relive.Server([uniform_table()], port=port)
    fleet.wait_for(3, "up")
    events = [change.event for change in fleet.client.server_changes() if change.address == fleet.addresses[3]]
    assert events[:3] == ["joined", "left", "joined"]
    # Messages from other threads are logged a little later.
    while not any("until it answers again" in record.getMessage() for record in caplog.records):
        assert time.monotonic() - stopping < PATIENCE_S
        fleet.client.server_info()
    again.stop()
