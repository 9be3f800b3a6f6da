"""Items created from patterns."""

from __future__ import annotations

import numpy as np
import pytest
from reverb import structured_writer as structured

from support import steps, tables
from support.tables import table

STEP = {"a": None, "b": None}


def config(transform, name="replay", **options):
    pattern = structured.pattern_from_transform(STEP, transform)
    return structured.create_config(pattern, name, **options)


def write(client, configs, count, **values):
    writer = client.structured_writer(configs)
    for step in range(count):
        writer.append({"a": np.int64(step), "b": np.float32(step * 10)})
    writer.end_episode()


def columns(client, name="replay", count=1):
    return [[column.tolist() for column in sample.data] for sample in steps.samples(client, name, count)]


def test_n_step_transitions(start):
    client = start(tables.queue("replay", 100)).client()
    write(client, [config(lambda ref: {"first": ref["a"][-3], "rewards": ref["b"][-3:]})], 6)
    assert client.server_info()["replay"].current_size == 4
    assert columns(client, count=4) == [[i, [i * 10.0, i * 10 + 10.0, i * 10 + 20.0]] for i in range(4)]


def test_conditions_choose_the_steps(start):
    every_third = [structured.Condition.step_index() % 3 == 0]
    apart = [structured.Condition.steps_since_applied() >= 2]
    at_end = [structured.Condition.is_end_episode()]
    servers = start(*(table(name, max_size=50) for name in ("third", "apart", "end")))
    client = servers.client()
    last = lambda ref: {"x": ref["a"][-1]}  # noqa: E731
    write(client, [config(last, "third", conditions=every_third), config(last, "apart", conditions=apart),
                   config(last, "end", conditions=at_end)], 7)
    raw = servers.raw()
    assert {name: info.current_size for name, info in raw.tables().items()} == {"third": 3, "apart": 3, "end": 1}


def test_priorities_from_data(start):
    client = start(table(sampler=tables.max_heap())).client()
    pattern = structured.pattern_from_transform(STEP, lambda ref: {"b": ref["b"][-2:]})
    priority = structured.td_error(0.9, STEP, lambda step: step["b"])
    writer = client.structured_writer([structured.create_config(pattern, "replay", priority=priority)])
    for value in (1.0, -3.0):
        writer.append({"a": np.int64(0), "b": np.float32(value)})
    writer.flush()
    [sample] = steps.samples(client, "replay")
    assert sample.info.priority == pytest.approx(0.9 * 3 + 0.1 * 2)


def test_an_unknown_table_surfaces_on_flush(start):
    client = start(table()).client()
    writer = client.structured_writer([config(lambda ref: {"x": ref["a"][-1]}, "missing")])
    writer.append({"a": np.int64(0), "b": np.float32(0)})
    with pytest.raises(RuntimeError, match="Priority table missing was not found"):
        writer.flush(timeout_ms=10_000)
