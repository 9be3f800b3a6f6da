"""Tables without a signature give data back under the names that it was written with."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import uniform_table

import relive
from relive import structured

Connect = Callable[..., relive.Client]


class Step(NamedTuple):
    """A step as a named tuple; its fields are not in the order of the alphabet."""

    reward: Any
    obs: Any


STEP = {"reward": np.float32(0.5), "obs": np.arange(3, dtype=np.int32)}


@pytest.fixture
def client(connect: Connect) -> relive.Client:
    """A client of four tables without signatures."""
    return connect(*(uniform_table(name) for name in ("table", "a", "b", "c")))


def write(client: relive.Client, item: Callable[[Any], Any], step: Any = STEP, table: str = "table") -> int:
    """Writes one item: what `item` makes of the history."""
    with client.trajectory_writer(2) as writer:
        writer.append(step)
        return writer.create_item(table, 1.0, item(writer.history))


def data_of(client: relive.Client, table: str = "table") -> Any:
    """The data of a batch of one item, without the dimension of the batch."""
    (batch,) = client.batches(table, 1, max_batches=1)
    return relive.nest.map_structure(lambda column: column[0], batch.data)


def newest(history: Any) -> Any:
    return relive.nest.map_structure(lambda column: column[-1], history)


def test_names_come_back(client: relive.Client) -> None:
    key = write(client, newest)
    data = data_of(client)
    assert list(data) == ["obs", "reward"]
    np.testing.assert_array_equal(data["obs"], STEP["obs"])
    assert data["reward"] == STEP["reward"]
    (found,) = client.get_items("table", [key])
    assert found is not None
    assert found.data["reward"] == STEP["reward"]


def test_samples_are_lists_unless_they_are_to_be_unpacked(client: relive.Client) -> None:
    write(client, lambda history: {name: history[name][-1:] for name in history})
    (plain,) = client.sample("table", emit_timesteps=False)
    assert isinstance(plain.data, list)
    np.testing.assert_array_equal(plain.data[0], [STEP["obs"]])
    (unpacked,) = client.sample("table", emit_timesteps=False, unpack_as_table_signature=True)
    np.testing.assert_array_equal(unpacked.data["obs"], [STEP["obs"]])
    ((step,),) = client.sample("table", unpack_as_table_signature=True)
    assert step.data["reward"] == STEP["reward"]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (lambda history: [history["obs"][-1], history["reward"][-1]], ["obs", "reward"]),
        (lambda history: (history["reward"][-1], [history["obs"][-1]]), ("reward", ["obs"])),
        (lambda history: {"z": (history["obs"][-1],), "B": history["reward"][-1]}, {"B": "reward", "z": ("obs",)}),
        (lambda history: collections.OrderedDict(z=history["obs"][-1], a=history["reward"][-1]), {"a": "reward", "z": "obs"}),
        (lambda history: history["obs"][-1], "obs"),
    ],
)
def test_containers(client: relive.Client, item: Any, expected: Any) -> None:
    write(client, item)
    data = data_of(client)
    relive.nest.assert_same_structure(expected, data)
    assert type(data) is (type(expected) if relive.nest.is_nested(expected) else np.ndarray)
    for name, value in zip(relive.nest.flatten(expected), relive.nest.flatten(data), strict=True):
        np.testing.assert_array_equal(value, STEP[name])


def test_named_tuples_keep_their_name_and_order(client: relive.Client) -> None:
    write(client, newest, Step(**STEP))
    data = data_of(client)
    assert type(data).__name__ == "Step"
    assert data._fields == ("reward", "obs")
    assert data.reward == STEP["reward"]
    np.testing.assert_array_equal(data.obs, STEP["obs"])


def test_keys_that_are_no_text_have_no_names(client: relive.Client) -> None:
    # As text, 10 would come before 9.
    write(client, lambda history: {9: history["obs"][-1], 10: history["reward"][-1]})
    data = data_of(client)
    assert isinstance(data, list)
    np.testing.assert_array_equal(data[0], STEP["obs"])


def test_names_that_python_cannot_have(client: relive.Client) -> None:
    odd = collections.namedtuple("odd", ["class", "obs"], rename=True)  # noqa: PYI024: fields are renamed to _0
    with client.trajectory_writer(1) as writer:
        writer.append(STEP)
        writer.create_item("table", 1.0, odd(writer.history["reward"][-1], writer.history["obs"][-1]))
    data = data_of(client)
    assert isinstance(data, list)
    assert data[0] == STEP["reward"]


def test_all_ways_of_writing(client: relive.Client) -> None:
    client.insert(STEP, {"a": 1.0})
    assert data_of(client, "a")["reward"].shape == (1,)

    with client.trajectory_writer(3) as writer:
        for _ in range(3):
            writer.append(STEP)
        writer.create_window_items("b", [1.0], [-1], length=2)
        items = [{"first": writer.history["obs"][step]} for step in (-2, -1)]
        writer.create_items("c", [1.0, 1.0], items)
    assert data_of(client, "b")["obs"].shape == (2, 3)
    assert list(data_of(client, "c")) == ["first"]

    with client.writer(2) as old_writer:
        old_writer.append(STEP)
        old_writer.create_item("table", 1, 1.0)
    assert data_of(client, "table")["obs"].shape == (1, 3)


def test_patterns(client: relive.Client) -> None:
    step = structured.create_reference_step(STEP)
    pattern = {"z": step["obs"][-1], "rewards": [step["reward"][-2:]]}
    with client.structured_writer([structured.create_config(pattern, "table")]) as writer:
        for _ in range(2):
            writer.append(STEP)
    data = data_of(client)
    assert data["rewards"][0].shape == (2,)
    np.testing.assert_array_equal(data["z"], STEP["obs"])


def test_places_without_values(client: relive.Client) -> None:
    write(client, lambda history: {"obs": history["obs"][-1], "none": {}, "pair": ((), history["reward"][-1])})
    data = data_of(client)
    assert data["none"] == {}
    assert data["pair"][0] == ()
    assert data["pair"][1] == STEP["reward"]


def test_late_columns_have_no_names_in_windows(client: relive.Client) -> None:
    with client.trajectory_writer(2) as writer:
        writer.append({"b": np.int64(1)}, partial_step=True)
        writer.append({"a": np.int64(2)})
        writer.create_window_items("table", [1.0], [-1], squeeze=True)
    assert data_of(client) == [1, 2]


class TestStructuresThatDiffer:
    def test_none_counts(self, client: relive.Client) -> None:
        """Otherwise the items of one writer would come back under the names of the other."""
        write(client, lambda history: {"x": history["obs"][-1], "y": history["reward"][-1]})
        other = relive.Client(client.server_address, transport=client.transport)
        key = write(other, lambda history: [history["reward"][-1], history["obs"][-1]])
        (item,) = other.get_items("table", [key])
        assert item is not None
        assert isinstance(item.data, list) and item.data[0] == STEP["reward"]

    def test_items_with_other_columns_are_lists(self, client: relive.Client) -> None:
        first = write(client, newest)
        second = write(client, lambda history: {"only": history["obs"][-1]})
        found = client.get_items("table", [first, second])
        assert [type(item.data) for item in found if item is not None] == [dict, list]
        client.delete_items("table", [first])
        assert isinstance(data_of(client), list)

    def test_writers_agree(self, client: relive.Client) -> None:
        for _ in range(3):
            other = relive.Client(client.server_address, transport=client.transport)
            write(other, newest)
        batch = next(client.batches("table", 3))
        assert batch.data["obs"].shape == (3, 3)

    def test_a_reset_forgets_no_names(self, client: relive.Client) -> None:
        write(client, newest)
        client.reset("table")
        write(client, newest)
        other = relive.Client(client.server_address, transport=client.transport)
        assert sorted(data_of(other)) == ["obs", "reward"]


def test_a_signature_has_the_last_word(connect: Connect) -> None:
    signature = {
        "p": relive.ArraySpec([3], np.int32, "p"),
        "q": relive.ArraySpec([], np.float32, "q"),
    }
    client = connect(uniform_table(signature=signature))
    write(client, newest)
    assert sorted(data_of(client)) == ["p", "q"]


def test_padded_lengths_have_names_too(client: relive.Client) -> None:
    with client.trajectory_writer(3) as writer:
        for _ in range(3):
            writer.append(STEP)
        for length in (1, 3):
            writer.create_item("table", 1.0, {"obs": writer.history["obs"][-length:]})
    # So many that both items are among them.
    batch = next(client.batches("table", 64, pad=True))
    assert set(batch.lengths["obs"].tolist()) <= {1, 3}
    assert batch.data["obs"].shape[1:] == (3, 3)
