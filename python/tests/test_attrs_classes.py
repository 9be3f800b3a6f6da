"""Instances of attrs classes as steps and trajectories."""

from __future__ import annotations

from typing import Any

import attr
import numpy as np
from trajectories import Connect, data_of, fifo_table


@attr.s(auto_attribs=True)
class Sides:
    second: Any
    first: Any


@attr.s(auto_attribs=True, kw_only=True)
class Named:
    first: Any
    _second: Any


def test_attrs_classes_with_keywords_are_structures(connect: Connect) -> None:
    client = connect(fifo_table())
    with client.trajectory_writer(1) as writer:
        writer.append(Named(first=np.int64(1), second=np.int64(2)))
        history = writer.history
        assert type(history) is Named
        writer.create_item("table", 1.0, Named(first=history._second[-1], second=history.first[-1]))
    with client.writer(1) as first_writer:
        first_writer.append(Named(first=np.int64(3), second=np.int64(4)))
        first_writer.create_item("table", 1, 1.0)
    assert [[column.tolist() for column in columns] for columns in data_of(client, 2)] == [[2, 1], [[3], [4]]]


def test_attrs_classes_are_structures(connect: Connect) -> None:
    client = connect(fifo_table())
    with client.trajectory_writer(2) as writer:
        for step in range(2):
            writer.append({"sides": Sides(np.int64(step), np.float32(-step))})
        history = writer.history["sides"]
        assert type(history) is Sides and history.first.path() == ("sides", "first")
        writer.create_item("table", 1.0, Sides(history.second[-2:], history.first[-1]))
    client.insert(Sides(np.int64(5), np.float32(6)), {"table": 1.0})
    assert [[column.tolist() for column in columns] for columns in data_of(client, 2)] == [[[0, 1], -1], [[5], [6]]]
