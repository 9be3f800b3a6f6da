"""Selectors, removal, limits on sampling, and chunks that tables share."""

from __future__ import annotations

import collections
import threading

import numpy as np
import pytest

from support import steps, tables
from support.tables import table


def test_fifo_returns_the_oldest_item(start):
    client = start(table()).client()
    steps.write(client, "replay", 3, 1, 2)
    assert steps.values(client, "replay", 3) == [3, 3, 3]


def test_lifo_returns_the_newest_item(start):
    client = start(table(sampler=tables.lifo())).client()
    steps.write(client, "replay", 3, 1, 2)
    assert steps.values(client, "replay", 3) == [2, 2, 2]


@pytest.mark.parametrize("sampler, wanted", [(tables.min_heap(), -1), (tables.max_heap(), 7)], ids=["min", "max"])
def test_heaps_return_the_extreme_priority(start, sampler, wanted):
    client = start(table(sampler=sampler)).client()
    steps.write(client, "replay", 3, -1, 7, 2)
    [sample] = steps.samples(client, "replay")
    assert (sample.info.priority, sample.info.probability) == (wanted, 1.0)


@pytest.mark.parametrize("sampler", [tables.min_heap(), tables.max_heap()], ids=["min", "max"])
def test_heaps_return_the_least_recently_changed_of_equal_items(start, sampler):
    client = start(table(sampler=sampler, max_times_sampled=1)).client()
    for value in (1, 2, 3):
        steps.write(client, "replay", value, priority=5.0)
    assert steps.values(client, "replay", 3) == [1, 2, 3]


def test_an_updated_heap_item_counts_as_the_most_recent(start):
    client = start(table(sampler=tables.min_heap())).client()
    steps.write(client, "replay", 1, priority=5.0)
    [first] = steps.samples(client, "replay")
    steps.write(client, "replay", 2, priority=5.0)
    client.mutate_priorities("replay", updates={first.info.key: 5.0})
    assert steps.values(client, "replay") == [2]


def test_uniform_returns_each_item_with_its_probability(start):
    client = start(table(sampler=tables.uniform())).client()
    steps.write(client, "replay", *range(10))
    samples = steps.samples(client, "replay", 2000)
    counts = collections.Counter(float(sample.data[0][0]) for sample in samples)
    # Each is expected 200 times, with a standard deviation of 13.4; ten deviations do not occur by chance.
    assert set(counts) == set(range(10)) and all(abs(count - 200) < 134 for count in counts.values())
    assert {sample.info.probability for sample in samples} == {0.1}
    assert {sample.info.table_size for sample in samples} == {10}


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_prioritized_follows_the_power_of_the_priority(start, exponent):
    client = start(table(sampler=tables.prioritized(exponent))).client()
    priorities = [0.0, 1.0, 2.0, 4.0]
    steps.write(client, "replay", *priorities)
    weights = np.asarray([p**exponent if p else 0.0 for p in priorities])
    wanted = dict(zip(priorities, weights / weights.sum()))
    samples = steps.samples(client, "replay", 2000)
    counts = collections.Counter(sample.info.priority for sample in samples)
    for sample in samples:
        assert sample.info.probability == pytest.approx(wanted[sample.info.priority])
    for priority, probability in wanted.items():
        assert abs(counts[priority] - 2000 * probability) <= 10 * (2000 * probability) ** 0.5


def test_prioritized_without_any_weight_is_uniform(start):
    client = start(table(sampler=tables.prioritized(0.8))).client()
    for value in range(4):
        steps.write(client, "replay", value, priority=0.0)
    samples = steps.samples(client, "replay", 200)
    assert {float(sample.data[0][0]) for sample in samples} == {0, 1, 2, 3}
    assert {sample.info.probability for sample in samples} == {0.25}


REMOVERS = [
    ("fifo", tables.fifo(), {2, 4, 3}),
    ("lifo", tables.lifo(), {1, 5, 2}),
    ("min_heap", tables.min_heap(), {5, 4, 3}),
    ("max_heap", tables.max_heap(), {1, 2, 3}),
]


@pytest.mark.parametrize("remover, left", [r[1:] for r in REMOVERS], ids=[r[0] for r in REMOVERS])
def test_a_full_table_evicts_by_its_remover(start, remover, left):
    """The evicted item can be the newly inserted item; with Lifo, it always is."""
    client = start(table(max_size=3, remover=remover, max_times_sampled=1)).client()
    steps.write(client, "replay", 1, 5, 2, 4, 3)
    assert client.server_info()["replay"].current_size == 3
    assert set(steps.values(client, "replay", 3)) == left


def test_a_uniform_remover_keeps_the_size(start):
    client = start(table(max_size=3, remover=tables.uniform())).client()
    steps.write(client, "replay", *range(20))
    assert client.server_info()["replay"].current_size == 3


def test_an_item_leaves_after_its_last_sampling(start):
    server = start(table(max_times_sampled=2))
    client = server.client()
    steps.write(client, "replay", 1, 2)
    infos = [sample.info for sample in steps.samples(client, "replay", 4)]
    assert [info.times_sampled for info in infos] == [1, 2, 1, 2]
    assert [info.table_size for info in infos] == [2, 2, 1, 1]
    assert client.server_info()["replay"].current_size == 0


def test_tables_share_chunks_and_one_writer(start):
    server = start(table("short"), table("long", sampler=tables.lifo()), table("two", max_times_sampled=1))
    client = server.client()
    with client.trajectory_writer(num_keep_alive_refs=8) as writer:
        writer.configure((0,), num_keep_alive_refs=8, max_chunk_length=4)
        for step in range(16):
            writer.append([np.full([50], step, np.float32)])
            column = writer.history[0]
            writer.create_item("short", 1.0, [column[-1:]])
            if step >= 7:
                writer.create_item("long", float(step), [column[-8:]])
            if step % 2:
                writer.create_item("two", 2.0, [column[-2:]])
    sizes = {name: info.current_size for name, info in client.server_info().items()}
    assert sizes == {"short": 16, "long": 9, "two": 8}
    [newest] = steps.samples(client, "long")
    assert newest.data[0][:, 0].tolist() == list(range(8, 16))
    # The other tables are emptied; the chunks of this table's items must stay.
    client.reset("short")
    client.reset("long")
    pairs = [sample.data[0][:, 7].tolist() for sample in steps.samples(client, "two", 8)]
    assert pairs == [[i - 1, i] for i in range(1, 16, 2)]


def test_one_insert_into_several_tables(start):
    client = start(table("a"), table("b", sampler=tables.max_heap())).client()
    client.insert([np.float64(4)], {"a": 1.0, "b": 2.5})
    client.insert([np.float64(5)], {"a": 2.0})
    assert steps.values(client, "a") == [4]
    assert steps.samples(client, "b")[0].info.priority == 2.5


def test_the_size_is_exact_right_after_an_insert(start):
    server = start(table(max_size=30))
    client, raw = server.client(), server.raw()
    for count in range(1, 41):
        client.insert([np.float64(count)], {"replay": 1.0})
        assert raw.size("replay") == min(count, 30)


def test_writers_in_threads(start):
    client = start(table(sampler=tables.uniform(), max_size=10_000)).client()
    values = [range(thread * 200, thread * 200 + 200) for thread in range(6)]
    threads = [threading.Thread(target=steps.write, args=(client, "replay", *some)) for some in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.server_info()["replay"].current_size == 1200
    # The priority of each item is its value, so an item with the data of another item would be detected.
    for sample in steps.samples(client, "replay", 500):
        assert sample.data[0][0] == sample.info.priority
