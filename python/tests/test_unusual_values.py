"""Values that numpy refuses, or converts with a loss, in all ways of writing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import uniform_table

import relive
from relive import structured


def insert(client: relive.Client, step: Any) -> None:
    client.insert(step, {"table": 1.0})


def append(client: relive.Client, step: Any) -> None:
    with client.trajectory_writer(1) as writer:
        writer.append(step)
        writer.create_item("table", 1.0, {"obs": {name: column[-1:] for name, column in writer.history["obs"].items()}})


def append_sequence(client: relive.Client, step: Any) -> None:
    with client.trajectory_writer(1) as writer:
        writer.append_sequence({"obs": {"a": [1.0], "b": step["obs"]["b"][None]}})
        writer.create_item("table", 1.0, {"obs": {name: column[-1:] for name, column in writer.history["obs"].items()}})


def append_with_old_writer(client: relive.Client, step: Any) -> None:
    with client.writer(1) as writer:
        writer.append(step)
        writer.create_item("table", 1, 1.0)


def append_sequence_with_old_writer(client: relive.Client, step: Any) -> None:
    with client.writer(1) as writer:
        writer.append_sequence({"obs": {"a": [1.0], "b": step["obs"]["b"][None]}})
        writer.create_item("table", 1, 1.0)


def append_with_patterns(client: relive.Client, step: Any) -> None:
    node = structured.create_reference_step(step)["obs"]
    config = structured.create_config({"obs": {"a": node["a"][-1:], "b": node["b"][-1:]}}, "table")
    with client.structured_writer([config]) as writer:
        writer.append(step)


def add(client: relive.Client, step: Any) -> None:
    with relive.ReplayBuffer(10) as buffer:
        buffer.add(step)
        found = buffer.sample(1)
    client.insert({"obs": {name: value[0] for name, value in found["obs"].items()}}, {"table": 1.0})


def add_later(client: relive.Client, step: Any) -> None:
    with relive.ReplayBuffer(1) as buffer:
        buffer.add({"obs": {"a": 1.0, "b": np.ones(2, np.float32)}})
        buffer.add(step)
        found = buffer.sample(1)
    client.insert({"obs": {name: value[0] for name, value in found["obs"].items()}}, {"table": 1.0})


def add_batch(client: relive.Client, step: Any) -> None:
    with relive.ReplayBuffer(10) as buffer:
        buffer.add_batch({"obs": {"a": [1.0], "b": step["obs"]["b"][None]}})
        found = buffer.sample(1)
    client.insert({"obs": {name: value[0] for name, value in found["obs"].items()}}, {"table": 1.0})


WAYS = [
    insert, append, append_sequence, append_with_old_writer, append_sequence_with_old_writer, append_with_patterns, add, add_later, add_batch,
]
WHERE = r"\('obs', 'b'\)|'obs/b'"


@pytest.fixture
def client() -> Any:
    with relive.Server([uniform_table()], listen=False) as server:
        yield server.localhost_client()


@pytest.fixture(params=WAYS, ids=lambda way: way.__name__)
def write(request: pytest.FixtureRequest) -> Any:
    return request.param


def written(client: relive.Client) -> Any:
    (item,) = client.get_items("table", [item.key for item in client.items("table")])
    assert item is not None
    return item.data["obs"]["b"]


def test_tensors_with_a_gradient_are_accepted(client: relive.Client, write: Callable[..., None]) -> None:
    torch = pytest.importorskip("torch")
    write(client, {"obs": {"a": 1.0, "b": torch.tensor([1.5, 2.5], requires_grad=True)}})
    assert written(client).tolist() == [[1.5, 2.5]]


def test_bfloat16_tensors_without_ml_dtypes_are_refused(
    client: relive.Client, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(TypeError, match=rf"(?s)({WHERE}).*bfloat16 require ml_dtypes") as refused:
        write(client, {"obs": {"a": 1.0, "b": torch.ones(2, dtype=torch.bfloat16)}})
    assert isinstance(refused.value.__cause__, ImportError)


def test_the_exception_of_a_value_is_the_cause_of_the_refusal(client: relive.Client, write: Callable[..., None]) -> None:
    class Lazy:
        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            raise ValueError("its own")

        def __getitem__(self, key: Any) -> Lazy:
            return self

    with pytest.raises(TypeError, match=rf"({WHERE}).*Lazy cannot be turned into a numpy array: ValueError: its own") as refused:
        write(client, {"obs": {"a": 1.0, "b": Lazy()}})
    assert isinstance(refused.value.__cause__, ValueError)


def test_masked_elements_are_refused(client: relive.Client, write: Callable[..., None]) -> None:
    values = np.arange(2, dtype=np.float32)
    with pytest.raises(TypeError, match=rf"({WHERE}).*masked"):
        write(client, {"obs": {"a": 1.0, "b": np.ma.MaskedArray(values, [False, True])}})
    write(client, {"obs": {"a": 1.0, "b": np.ma.MaskedArray(values, [False, False])}})
    assert written(client).tolist() == [[0, 1]]


def test_priorities(client: relive.Client) -> None:
    torch = pytest.importorskip("torch")
    for _ in range(2):
        client.insert({"x": 1.0}, {"table": 1.0})
    keys = [item.key for item in client.items("table")]
    client.update_priorities("table", keys, torch.tensor([2.0, 3.0], requires_grad=True))
    assert {item.key: item.priority for item in client.items("table")} == dict(zip(keys, (2.0, 3.0)))
    with pytest.raises(TypeError, match="^priorities: .*masked"):
        client.update_priorities("table", keys, np.ma.MaskedArray([4.0, 5.0], [False, True]))
    with pytest.raises(TypeError, match="^keys: .*masked"):
        client.update_priorities("table", np.ma.MaskedArray(np.array(keys, np.uint64), [False, True]), [4.0, 5.0])
    assert {item.priority for item in client.items("table")} == {2.0, 3.0}
    with relive.ReplayBuffer(10, prioritized=1.0) as buffer:
        buffer.add(x=1.0)
        key = buffer.sample(1)["keys"]
        with pytest.raises(TypeError, match="priorities have masked elements"):
            buffer.update(key, np.ma.MaskedArray([4.0], [True]))
