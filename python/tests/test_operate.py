"""Tests changes to the tables of a running server."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

Connect = Callable[..., relive.Client]


@pytest.fixture
def client(connect: Connect) -> relive.Client:
    """Returns a client for a server with a table and a queue."""
    return connect(uniform_table("replay"), relive.Table.queue("queue", 5))


def test_rule_changes_are_reported(client: relive.Client) -> None:
    for value in range(8):
        client.insert(np.float32(value), {"replay": 1.0})
    changed = client.change_table("replay", max_size=3, max_bytes=1_000, max_times_sampled=2, timeout=PATIENCE_S)
    assert [(change.what, change.old, change.new) for change in changed.changes] == [
        ("max_size", "1000", "3"),
        ("max_bytes", "none", "1000"),
        ("max_times_sampled", "0", "2"),
    ]
    assert changed.evicted == 5
    status = client.status()
    assert status["changes"] == list(changed.changes)
    table = status["tables"]["replay"]
    assert (table.max_size, table.max_bytes, table.current_size) == (3, 1_000, 3)
    client.change_table("replay", max_bytes=0)
    assert client.status()["tables"]["replay"].max_bytes is None


def test_a_rate_limiter_is_changed_as_a_whole_or_in_parts(client: relive.Client) -> None:
    client.change_table("replay", rate_limiter=relive.rate_limiters.SampleToInsertRatio(2.0, 10, 5.0), max_diff=99.0)
    info = client.server_info()["replay"].rate_limiter_info
    assert (info.samples_per_insert, info.min_size_to_sample) == (2.0, 10)
    assert (info.min_diff, info.max_diff) == (15.0, 99.0)


def test_paused_calls_wait_and_resume(client: relive.Client) -> None:
    client.insert(np.float32(1.0), {"replay": 1.0})
    client.pause_table("replay", inserts=False)
    table = client.status()["tables"]["replay"]
    assert (table.inserts_paused, table.samples_paused) == (False, True)
    with pytest.raises(relive.DeadlineExceededError, match="an operator has paused them"):
        next(client.sample("replay", timeout=0.1))
    taken: list[float] = []
    thread = threading.Thread(target=lambda: taken.append(float(next(client.sample("replay"))[0].data[0])))
    thread.start()
    client.insert(np.float32(1.0), {"replay": 1.0})
    changed = client.resume_table("replay")
    assert [change.what for change in changed.changes] == ["samples"]
    thread.join(PATIENCE_S)
    assert taken == [1.0]


def test_tables_can_be_added_and_dropped(client: relive.Client) -> None:
    client.add_table(uniform_table("new"))
    client.insert(np.float32(2.0), {"new": 1.0})
    assert client.server_info()["new"].current_size == 1
    with pytest.raises(ValueError, match="table `new` already exists"):
        client.add_table(uniform_table("new"))
    client.drop_table("new")
    assert sorted(client.server_info()) == ["queue", "replay"]
    with pytest.raises(ValueError, match="new was not found"):
        client.drop_table("new")


def test_a_table_that_another_client_replaces_has_its_new_structure(client: relive.Client) -> None:
    signatures: list[Any] = [{"x": relive.ArraySpec((), np.float32)}, {name: relive.ArraySpec((), np.float32) for name in "yz"}]
    for signature in signatures:
        other = pickle.loads(pickle.dumps(client))
        other.add_table(uniform_table("new", signature=signature))
        other.insert({name: np.float32(1) for name in signature}, {"new": 1.0})
        (sample,) = client.sample("new", emit_timesteps=False, unpack_as_table_signature=True)
        (found,) = client.get_items("new", [sample.info.key])
        assert found is not None and sample.data.keys() == found.data.keys() == signature.keys()
        other.drop_table("new")


def test_a_table_that_is_added_again_has_its_names(client: relive.Client) -> None:
    for _ in range(2):
        client.add_table(uniform_table("new"))
        with client.trajectory_writer(1) as writer:
            writer.append({"x": np.float32(1)})
            writer.create_item("new", 1.0, {"x": writer.history["x"][-1:]})
        batch = next(client.batches("new", 1, timeout=PATIENCE_S))
        assert isinstance(batch.data, dict) and list(batch.data) == ["x"]
        client.drop_table("new")


def test_prefetching_stops_once_samples_delete_items(client: relive.Client) -> None:
    def first_of(number: int) -> None:
        for value in range(20):
            client.insert(np.float32(value), {"replay": 1.0})
        samples = client.sample("replay", number, emit_timesteps=False, timeout=PATIENCE_S)
        next(samples)
        del samples

    first_of(10)
    client.change_table("replay", max_times_sampled=1)
    client.reset("replay")
    first_of(10)
    assert client.server_info()["replay"].current_size == 19


def test_invalid_changes_are_refused_without_effect(client: relive.Client) -> None:
    for call, expected in [
        (lambda: client.change_table("replay"), "no rule is set"),
        (lambda: client.change_table("replay", max_size=0), "max_size"),
        (lambda: client.change_table("replay", min_diff=5.0, max_diff=1.0), "min_diff must not be above max_diff"),
        (lambda: client.change_table("none", max_size=5), "none was not found"),
    ]:
        with pytest.raises(ValueError, match=expected):
            call()
    assert client.status()["changes"] == []
