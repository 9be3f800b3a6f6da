"""Tables without a signature return data under its original names."""

from __future__ import annotations

import collections
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import uniform_table

import relive
from relive import structured

Connect = Callable[..., relive.Client]


class Step(NamedTuple):
    """A step as a named tuple with fields that are not in alphabetical order."""

    reward: Any
    obs: Any


STEP = {"reward": np.float32(0.5), "obs": np.arange(3, dtype=np.int32)}


@pytest.fixture
def client(connect: Connect) -> relive.Client:
    """Returns a client for four tables without signatures."""
    return connect(*(uniform_table(name) for name in ("table", "a", "b", "c")))


def write(client: relive.Client, item: Callable[[Any], Any], step: Any = STEP, table: str = "table") -> int:
    """Writes one item, which `item` creates from the history."""
    with client.trajectory_writer(2) as writer:
        writer.append(step)
        return writer.create_item(table, 1.0, item(writer.history))


def data_of(client: relive.Client, table: str = "table") -> Any:
    """Returns the data of a batch of one item, without the batch dimension."""
    (batch,) = client.batches(table, 1, max_batches=1)
    return relive.nest.map_structure(lambda column: column[0], batch.data)


def newest(history: Any) -> Any:
    return relive.nest.map_structure(lambda column: column[-1], history)


def test_names_are_returned(client: relive.Client) -> None:
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


def test_non_string_keys_have_no_names(client: relive.Client) -> None:
    # In text order, 10 would come before 9.
    write(client, lambda history: {9: history["obs"][-1], 10: history["reward"][-1]})
    data = data_of(client)
    assert isinstance(data, list)
    np.testing.assert_array_equal(data[0], STEP["obs"])


def test_invalid_python_field_names_are_renamed(client: relive.Client) -> None:
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


def test_empty_containers_are_kept(client: relive.Client) -> None:
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


def unchecked(client: relive.Client, item: Callable[[Any], Any], table: str = "table") -> int:
    """Writes one item without checking its names."""
    with client.trajectory_writer(2, validate_items=False) as writer:
        writer.append(STEP)
        return writer.create_item(table, 1.0, item(writer.history))


def swapped(history: Any) -> Any:
    return {"x": history["obs"][-1], "y": history["reward"][-1]}


class TestStructuresThatDiffer:
    def test_a_different_structure_is_refused(self, client: relive.Client) -> None:
        write(client, newest)
        for writing in (client, relive.Client(client.server_address, transport=client.transport)):
            with pytest.raises(ValueError, match=r"its first writer wrote \{obs, reward\}, but the item is \{x, y\}"):
                write(writing, swapped)
            with pytest.raises(ValueError, match=r"but the item is \[_, _\]"):
                write(writing, lambda history: [history["obs"][-1], history["reward"][-1]])
            with pytest.raises(ValueError, match=r"but the item is \{obs\}"):
                write(writing, lambda history: {"obs": history["obs"][-1]})
            with pytest.raises(ValueError, match="to another table"):
                writing.insert({"a": STEP["obs"], "b": STEP["reward"]}, {"table": 1.0})
        assert client.server_info()["table"].current_size == 1

    def test_mismatched_names_are_refused_item_by_item(self, client: relive.Client) -> None:
        with client.trajectory_writer(2) as writer:
            writer.append(STEP)
            history = writer.history
            writer.create_item("table", 1.0, newest(history))
            with pytest.raises(ValueError, match=r"\{obs, reward\}"):
                writer.create_item("table", 1.0, swapped(history))
            with pytest.raises(ValueError, match=r"\{obs, reward\}"):
                writer.create_items("table", [1.0, 1.0], [newest(history), swapped(history)])
            writer.create_item("a", 1.0, swapped(history))
            with pytest.raises(ValueError, match=r"its first writer wrote \{x, y\}, but the item is \{obs, reward\}"):
                writer.create_window_items("a", [1.0], [-1], squeeze=True)
            # Named tuples and dicts have the same structure if their columns are in the same order.
            kinds = collections.namedtuple("kinds", ["obs", "reward"])  # noqa: PYI024
            writer.create_item("table", 1.0, kinds(history["obs"][-1], history["reward"][-1]))
            with pytest.raises(ValueError, match=r"Step\(reward, obs\)"):
                writer.create_item("table", 1.0, Step(history["reward"][-1], history["obs"][-1]))
        assert client.server_info()["table"].current_size == 2

    def test_patterns_are_refused_too(self, client: relive.Client) -> None:
        write(client, newest)
        step = structured.create_reference_step(STEP)
        config = structured.create_config({"x": step["obs"][-1], "y": step["reward"][-1]}, "table")
        with pytest.raises(ValueError, match=r"\{obs, reward\}, but the item is \{x, y\}"):
            with client.structured_writer([config]) as writer:
                writer.append(STEP)
                writer.flush()
        assert client.server_info()["table"].current_size == 1

    def test_unchecked_differing_items_are_reported_by_batches(self, client: relive.Client) -> None:
        """Otherwise, one writer's items would be returned under the other writer's names."""
        write(client, newest)
        other = relive.Client(client.server_address, transport=client.transport)
        batches = client.batches("table", 1, prefetch=0)
        assert sorted(next(batches).data) == ["obs", "reward"]
        key = unchecked(other, swapped)
        with pytest.raises(ValueError, match=r"wrote \{obs, reward\}, but another writer wrote \{x, y\}"):
            next(batches)
        with pytest.raises(ValueError, match="give the table a signature"):
            data_of(other)
        (item,) = other.get_items("table", [key])
        assert item is not None
        assert isinstance(item.data, list) and item.data[1] == STEP["reward"]

    def test_batches_with_a_different_number_of_columns_are_reported(self, client: relive.Client) -> None:
        first = write(client, newest)
        second = unchecked(client, lambda history: {"only": history["obs"][-1]})
        found = client.get_items("table", [first, second])
        assert [type(item.data) for item in found if item is not None] == [dict, list]
        client.delete_items("table", [first])
        with pytest.raises(ValueError, match=r"have 1 columns, but its first writer wrote \{obs, reward\}"):
            data_of(client)

    def test_batches_without_names_stay_without_names(self, client: relive.Client) -> None:
        write(client, lambda history: {1: history["obs"][-1], 2: history["reward"][-1]})
        batches = client.batches("table", 1, prefetch=0)
        assert isinstance(next(batches).data, list)
        write(client, newest)
        assert isinstance(next(batches).data, list)
        assert isinstance(data_of(client), dict)

    def test_writers_agree(self, client: relive.Client) -> None:
        for _ in range(3):
            other = relive.Client(client.server_address, transport=client.transport)
            write(other, newest)
        batch = next(client.batches("table", 3))
        assert batch.data["obs"].shape == (3, 3)

    def test_a_reset_forgets_no_names(self, client: relive.Client) -> None:
        write(client, newest)
        client.reset("table")
        with pytest.raises(ValueError, match="its first writer wrote"):
            write(client, swapped)
        write(client, newest)
        other = relive.Client(client.server_address, transport=client.transport)
        assert sorted(data_of(other)) == ["obs", "reward"]


class TestSignatures:
    def test_the_signature_determines_the_names_of_an_item(self, connect: Connect) -> None:
        spec = relive.ArraySpec([4], np.float32)
        client = connect(uniform_table(signature={"obs": spec, "act": spec}))
        with client.trajectory_writer(1) as writer:
            writer.append({"obs": np.full(4, 1, np.float32), "act": np.full(4, 2, np.float32)})
            history = writer.history
            wrong = {"a_obs": history["obs"][-1], "b_act": history["act"][-1]}
            with pytest.raises(ValueError, match=r"its signature says \{act, obs\}, but the item is \{a_obs, b_act\}"):
                writer.create_item("table", 1.0, wrong)
            writer.create_item("table", 1.0, newest(history))
        assert data_of(client)["act"].tolist() == [2, 2, 2, 2]

    def test_without_validation_the_signature_determines_the_names(self, connect: Connect) -> None:
        signature = {
            "p": relive.ArraySpec([3], np.int32, "p"),
            "q": relive.ArraySpec([], np.float32, "q"),
        }
        client = connect(uniform_table(signature=signature))
        unchecked(client, newest)
        assert sorted(data_of(client)) == ["p", "q"]

    def test_a_positional_signature_accepts_lists_and_tuples(self, connect: Connect) -> None:
        signature = [relive.ArraySpec([3], np.int32), relive.ArraySpec([], np.float32)]
        client = connect(uniform_table(signature=signature))
        for kind in (list, tuple):
            write(client, lambda history, kind=kind: kind([history["obs"][-1], history["reward"][-1]]))
        with pytest.raises(ValueError, match=r"its signature says \[_, _\], but the item is \{obs, reward\}"):
            write(client, newest)
        assert isinstance(data_of(client), list)


def test_a_checkpoint_keeps_names(tmp_path: pathlib.Path) -> None:
    def server() -> relive.Server:
        checkpointer = relive.checkpointers.DefaultCheckpointer(str(tmp_path))
        return relive.Server([uniform_table()], checkpointer=checkpointer, listen=False)

    with server() as first:
        client = first.localhost_client()
        write(client, newest)
        client.checkpoint()
    with server() as second:
        client = second.localhost_client()
        assert data_of(client)["reward"] == STEP["reward"]
        with pytest.raises(ValueError, match=r"its first writer wrote \{obs, reward\}"):
            write(client, swapped)


def test_a_replay_buffer_reports_mismatched_names(tmp_path: pathlib.Path) -> None:
    other = {"x": STEP["obs"], "y": STEP["reward"]}
    refusal = r"have the columns \['obs', 'reward'\], but this one has \['x', 'y'\]"
    with relive.ReplayBuffer(10) as buffer:
        buffer.add(**STEP)
        with pytest.raises(ValueError, match=refusal):
            buffer.add(other)
        with pytest.raises(ValueError, match=refusal):
            buffer.add_batch({name: np.stack([value]) for name, value in other.items()})
        buffer.add(STEP)
        assert len(buffer) == 2
        buffer.save(tmp_path)
    with relive.ReplayBuffer.load(tmp_path) as loaded:
        with pytest.raises(ValueError, match=refusal):
            loaded.add(other)
        loaded.add(STEP)
        assert len(loaded) == 3 and sorted(loaded.sample(1)) == ["obs", "reward"]


def test_padded_lengths_have_names_too(client: relive.Client) -> None:
    with client.trajectory_writer(3) as writer:
        for _ in range(3):
            writer.append(STEP)
        for length in (1, 3):
            writer.create_item("table", 1.0, {"obs": writer.history["obs"][-length:]})
    # The batch is large enough to contain both items.
    batch = next(client.batches("table", 64, pad=True))
    assert set(batch.lengths["obs"].tolist()) <= {1, 3}
    assert batch.data["obs"].shape[1:] == (3, 3)
