"""Random programs yield the same items on relive-flow as on ray.util.iter, and so do streams of queues in Python."""

from __future__ import annotations

import json
import queue

import pytest

import on_iterators
import programs


def test_random_programs_match_ray(seed, ray_session, relive_flow):
    from ray.util import iter as ray_iterators
    from relive import flow

    program = programs.program(seed)
    expected = on_iterators.run(program, ray_iterators)
    ours = {**relive_flow[seed], "Python": on_iterators.run(program, flow)}
    for executor, items in ours.items():
        found, wanted = (_comparable(program, items) for items in (items, expected))
        assert found == wanted, f"on {executor}, seed {seed}: {json.dumps(program)}"


UNIONS = {
    "ready": lambda acting, learning: acting.union(learning),
    "the source first": lambda acting, learning: learning.union(acting),
    "all": lambda acting, learning: acting.union(learning, round_robin_weights=[1, "*"]),
    "with operators": lambda acting, learning: acting.union(learning.for_each(lambda item: -item).filter(bool)),
}


@pytest.mark.parametrize("union", UNIONS.values(), ids=UNIONS)
def test_a_union_skips_an_empty_queue_as_on_ray(union):
    from ray.util import iter as ray_iterators
    from relive import flow

    items = [_acted_and_learned(union, parallel) for parallel in (ray_iterators, flow)]
    assert items[0] == items[1] and len(items[0]) == 6


def _acted_and_learned(union, parallel):
    """Returns items of a stream that also puts each item, times ten, into a queue, and the items of that queue."""
    learned = queue.Queue()

    def act(timeout):
        for item in range(1, 4):
            learned.put(10 * item)
            yield item

    def learn(timeout):
        while True:
            try:
                yield learned.get(timeout=timeout)
            except queue.Empty:
                yield parallel._NextValueNotReady()

    streams = [parallel.LocalIterator(source, parallel.SharedMetrics()) for source in (act, learn)]
    return union(*streams).take(6)


def _comparable(program: dict, items: list) -> list:
    """Returns the items, sorted if their order is not determined."""
    if program["is_ordered"]:
        return items
    if "sources" in program["flow"]:
        items = [_sorted(of_source) for of_source in items]
    return _sorted(items)


def _sorted(items: list) -> list:
    return sorted(items, key=json.dumps)
