"""Derived classes and mocks take the place of the methods of writers, clients and tables."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
import relive
import reverb


@pytest.fixture
def client() -> Iterator[reverb.Client]:
    server = reverb.Server([reverb.Table.queue("table", 10)])
    yield server.localhost_client()
    server.stop()


@pytest.mark.parametrize("kind", [reverb.TrajectoryWriter, relive.TrajectoryWriter])
def test_a_derived_trajectory_writer_is_called(client: reverb.Client, kind: Any) -> None:
    calls = []

    class Derived(kind):  # type: ignore[misc]
        def append(self, data: Any, **named: Any) -> None:
            calls.append(("append", data))
            super().append(data, **named)

        def create_item(self, table: str, priority: float, trajectory: Any) -> int:
            calls.append(("create_item", table))
            return int(super().create_item(table, priority, trajectory))

    base = client.trajectory_writer(3)
    writer = Derived(base._writer)
    writer.append(1)
    writer.create_item("table", 1.0, writer.history[:])
    writer.flush()
    assert calls == [("append", 1), ("create_item", "table")]
    assert [step.data for (step,) in client.sample("table")] == [[1]]


def test_errors_of_derived_writers_have_the_same_texts(client: reverb.Client) -> None:
    class Derived(reverb.TrajectoryWriter):
        def append(self, data: Any, **named: Any) -> None:
            super().append(data, **named)

    writer = Derived(client.trajectory_writer(3)._writer)
    writer.append(np.int64(1))
    with pytest.raises(ValueError, match="^Tensor of wrong dtype provided for column"):
        writer.append(1.5)


@pytest.mark.parametrize("name", ["append", "append_sequence", "create_item", "create_items", "append_item"])
def test_a_replaced_method_of_the_class_is_called(client: reverb.Client, name: str) -> None:
    with mock.patch.object(reverb.TrajectoryWriter, name) as replacement:
        getattr(client.trajectory_writer(3), name)("argument")
    replacement.assert_called_once_with("argument")


def test_insert_uses_the_writer_of_a_derived_client(client: reverb.Client) -> None:
    class Derived(reverb.Client):
        def writer(self, *arguments: Any, **named: Any) -> Any:
            self.made = mock.MagicMock()
            return self.made

    derived = Derived(client.server_address)
    derived.insert(1, {"table": 2.0})
    writer = derived.made.__enter__.return_value
    writer.append.assert_called_once_with(1)
    writer.create_item.assert_called_once_with(table="table", num_timesteps=1, priority=2.0)


@pytest.mark.parametrize("module", [reverb, relive])
def test_a_derived_table_is_replaced_by_a_plain_table(module: Any) -> None:
    class Derived(module.Table):  # type: ignore[misc]
        def __init__(self, capacity: int) -> None:
            selectors, limiters = module.selectors, module.rate_limiters
            super().__init__("table", selectors.Fifo(), selectors.Lifo(), capacity, limiters.MinSize(1))

    table = Derived(7).replace(name="other")
    assert type(table) is module.Table
    assert (table.name, table.info.max_size) == ("other", 7)
