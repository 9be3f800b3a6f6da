"""Dataflow with Ray actors as shards."""

from __future__ import annotations

import functools
import os
import time

import numpy as np
import pytest
import ray
from shards import Counter, Node, Weighted, contents, doubled, function_at_two, half_of_even, noted, one_then_waits, with_step

import relive.ray
from relive import flow


@pytest.fixture
def calls(monkeypatch):
    """Returns the Ray calls from this process, by name."""
    found = []
    for module, name in ((ray, "get"), (ray, "wait"), (ray, "put"), (ray.actor.ActorMethod, "remote"), (ray.actor.ActorClass, "remote")):
        original = getattr(module, name)
        counting = lambda *a, _name=name, _original=original, **k: (found.append(_name), _original(*a, **k))[1]  # noqa: E731
        monkeypatch.setattr(module, name, functools.wraps(original)(counting))
    return found


def test_items_match_those_of_threads(cluster):
    for gathered in ("gather_sync", "gather_async", "batch_across_shards"):
        there, here = (
            list(getattr(flow.from_range(100, num_shards=2, on=on).for_each(doubled).filter(lambda item: item % 3 == 0), gathered)())
            for on in ("ray", "threads")
        )
        assert sorted(map(repr, there)) == sorted(map(repr, here)), gathered
        assert gathered == "gather_async" or there == here


def test_shards_are_on_all_nodes_and_no_item_is_a_call(cluster, calls):
    stream = flow.from_actors([Node(), Node()], on="ray").gather_async()
    # Ray may start the second actor long after the first: the first then yields any number of items alone.
    seen = [stream.next(timeout=60)]
    until = time.monotonic() + 60
    while len({node for (node, _), _ in seen}) < 2 or len(seen) < 20_000:
        assert time.monotonic() < until, "both nodes yield items"
        seen.extend(stream.next(timeout=60) for _ in range(1_000))
    for process in {where for where, _ in seen}:
        numbers = [number for where, number in seen if where == process]
        assert numbers == list(range(len(numbers))), "the items of a shard keep their order"
    assert set(calls) <= {"put", "remote"} and len(calls) <= 3 * 2 + 2, calls


def test_large_items_and_resources(cluster):
    shards = [functools.partial(np.full, 1 << 20, number, np.float32) for number in range(2)]
    # A function creates the iterable of a shard: here the cells of an array, in rows of 250,000.
    rows = flow.from_iterators([functools.partial(_rows, make) for make in shards], on=relive.ray.Workers(num_cpus=0.5)).gather_sync()
    found = list(rows)
    assert [float(row[0]) for row in found] == [0.0, 1.0] * 4 and found[0].shape == (1 << 18,)


def _rows(make):
    return make().reshape(4, -1)


def test_exceptions_of_functions_are_raised_and_the_shard_continues(cluster):
    stream = flow.from_items([0, 1, 2], num_shards=1, on="ray").for_each(half_of_even).gather_sync()
    assert next(stream) == 0
    with pytest.raises(ArithmeticError, match="1 is odd") as raised:
        next(stream)
    assert "in the actor of shard 0" in str(raised.value.__cause__)
    assert next(stream) == 1
    assert next(stream, None) is None


def test_items_are_sent_at_once_and_made_at_their_request(cluster, tmp_path):
    gate, state = tmp_path / "open", tmp_path / "state"
    stream = flow.from_iterators([functools.partial(one_then_waits, gate)], on="ray").gather_async()
    assert stream.next(timeout=60) == 1
    gate.touch()
    assert stream.next(timeout=60) == 2 and next(stream, None) is None
    stream = flow.from_iterators([functools.partial(contents, state)], on="ray").gather_async(resubmit="after")
    for text in ("one", "two", "three"):
        state.write_text(text)
        assert stream.next(timeout=60) == text


def test_calls_of_methods_reach_the_shard_before_its_next_round(cluster):
    stream = flow.from_actors([Counter(1), Counter(10)], on="ray").gather_sync().zip_with_source_actor()
    seen, shards = [], {}
    for shard, item in stream:
        seen.append(item)
        shards[len(seen) % 2] = shard
        if len(seen) == 4:
            for each in shards.values():
                each.set_step(90, plus=10)
        if len(seen) == 8:
            break
    assert seen == [1, 10, 2, 20, 102, 120, 202, 220]


def test_calls_of_methods_may_have_large_arrays(cluster):
    stream = flow.from_actors([Weighted()], on="ray").gather_sync().zip_with_source_actor()
    shard, weights = next(stream)
    assert weights is None
    for value in (1.0, 3.0):
        shard.set_weights(np.full(300_000, value))
        weights = next(stream)[1]
        assert weights.shape == (300_000,) and (weights == 2 * value).all()
    stream.close()


def test_functions_see_their_shard_and_items_that_arrive_in_any_order_name_it(cluster):
    stream = flow.from_actors([Counter(1), Counter(-1)], on="ray").for_each(with_step).gather_async(num_async=3).zip_with_source_actor()
    seen = {f"<shard {number} in another process, a Counter>": [] for number in (0, 1)}
    while min(map(len, seen.values())) < 50:
        shard, item = stream.next(timeout=60)
        seen[repr(shard)].append(item)
    for step, items in zip((1, -1), seen.values(), strict=True):
        assert items == [(step, step * number) for number in range(1, len(items) + 1)]


def test_a_function_creates_its_source_once_and_in_the_actor(cluster, tmp_path):
    notes = tmp_path / "notes"
    notes.touch()
    stream = flow.from_iterators([functools.partial(noted, notes)] * 2, on="ray").gather_sync()
    assert notes.read_text() == ""
    assert list(stream) == [1, 1, 2, 2]
    processes = set(map(int, notes.read_text().split()))
    assert len(processes) == 2 and os.getpid() not in processes


def test_num_async_limits_how_far_an_actor_is_ahead(cluster, tmp_path):
    notes = tmp_path / "notes"
    stream = flow.from_actors([Counter(1, notes)], on="ray").gather_async(num_async=3)
    for taken in range(1, 200):
        assert next(stream) == taken
        assert notes.stat().st_size <= taken + 3


def test_an_item_that_cannot_be_sent_is_one_error(cluster):
    stream = flow.from_range(6, num_shards=1, on="ray").for_each(function_at_two).gather_async()
    assert stream.take(2) == [0, 1]
    with pytest.raises(TypeError, match="an item cannot be pickled in the process of its shard"):
        next(stream)
    assert list(stream) == [3, 4, 5]


def test_a_killed_actor_is_reported(cluster):
    stream = flow.from_actors([Node(ends_after=50)], on="ray").gather_sync()
    with pytest.raises(RuntimeError, match="the actor of shard 0 ended: ActorDiedError"):
        for _ in range(51):
            next(stream)
    assert next(stream, None) is None, "a shard ends after the report"


def test_actors_end_with_their_stream(cluster):
    stream = flow.from_actors([Node(), Node()], on="ray").gather_async()
    next(stream)
    del stream
    until = time.monotonic() + 30
    while ray.available_resources().get("CPU", 0) < 2:
        assert time.monotonic() < until, "the places of the shards are free again"


def test_shards_wait_to_be_scheduled_and_report_it(cluster, caplog, monkeypatch):
    cluster, _ = cluster
    monkeypatch.setattr("relive._ray_cluster._PLACE_SECONDS", 0.5)
    stream = flow.from_actors([Node()], on=relive.ray.Workers(resources={"simulator": 1})).gather_sync()
    with pytest.raises(TimeoutError):
        stream.next(timeout=3)
    assert "the actor of shard 0 is waiting for Ray to schedule it; free in the cluster" in caplog.text
    cluster.add_node(num_cpus=1, resources={"simulator": 1}, object_store_memory=80 << 20)
    assert stream.next(timeout=60)[1] == 0


def test_unpicklable_functions_are_refused(cluster):
    with pytest.raises(TypeError, match="on='ray' sends shards and functions to other processes, but they cannot be pickled"):
        flow.from_actors([(number for number in range(3))], on="ray").gather_sync()
    stream = flow.from_items([1], num_shards=1, on="ray").for_each(lambda number: lambda: number).gather_sync()
    with pytest.raises(TypeError, match="an item cannot be pickled in the process of its shard"):
        next(stream)
    with pytest.raises(ValueError, match="on is 'moon', but it must be 'threads', 'serial', 'processes', 'ray' or a relive.ray.Workers"):
        flow.from_items([1], on="moon")
