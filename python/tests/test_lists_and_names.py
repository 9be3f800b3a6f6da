"""Conventions of numpy and PyTorch: lists of numbers are arrays, and errors use numpy's names of types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import uniform_table

import relive

Serve = Callable[..., relive.Server]


def written(client: relive.Client, *steps: Any) -> Any:
    """Returns the history after steps were appended."""
    writer = client.trajectory_writer(10)
    for step in steps:
        writer.append(step)
    return writer.history


def test_a_list_of_numbers_in_a_step_is_one_array(serve: Serve) -> None:
    client = serve().localhost_client()
    history = written(client, {"a": [1.0, 2.0], "b": {"c": [[1, 2, 3], [4, 5, 6]], "d": ([True, False],)}})
    assert history["a"][-1].shape == (2,) and history["a"][-1].dtype == np.float64
    assert history["b"]["c"][-1].shape == (2, 3) and history["b"]["c"][-1].dtype == np.int64
    assert history["b"]["d"][0][-1].dtype == np.bool_
    # An array may be a list in the next step, and vice versa.
    history = written(client, {"a": np.zeros(2)}, {"a": [1.0, 2.0]}, {"a": np.ones(2)})
    np.testing.assert_array_equal(history["a"][:].numpy(), [[0, 0], [1, 2], [1, 1]])


def test_other_lists_are_nests(serve: Serve) -> None:
    client = serve().localhost_client()
    assert [column[-1].shape for column in written(client, [1.0, 2.0])] == [(), ()], "the step itself"
    mixed = written(client, {"a": [np.float32(1), np.float32(2)], "b": [np.zeros(2), 1.0], "c": (1.0, 2.0), "d": [[1, 2], [3]]})
    assert isinstance(mixed["a"], list) and isinstance(mixed["b"], list) and isinstance(mixed["c"], tuple)
    assert [column[-1].shape for column in mixed["d"]] == [(2,), (1,)], "no array: the rows have different lengths"
    # A nest of arrays stays a nest.
    history = written(client, {"a": [np.float64(1), np.float64(2)]}, {"a": [3.0, 4.0]})
    assert [float(column[-1].numpy()) for column in history["a"]] == [3.0, 4.0]


def test_sequences_and_inserts_take_lists_as_arrays(serve: Serve, transport: str) -> None:
    client = relive.Client(f"localhost:{serve().port}", transport=transport)
    with client.trajectory_writer(3) as writer:
        writer.append_sequence({"reward": [1.0, 2.0, 3.0], "x": [[1, 2], [3, 4], [5, 6]]})
        assert writer.episode_steps == 3 and writer.history["x"][-1].shape == (2,)
    client.insert({"x": [1.0, 2.0], "y": {"z": [1, 2, 3]}}, {"table": 1.0})
    (sample,) = client.sample("table", emit_timesteps=False, unpack_as_table_signature=True, timeout=30.0)
    assert sample.data["x"].shape == (1, 2) and sample.data["y"]["z"].shape == (1, 3)


def test_errors_use_numpy_dtype_names(serve: Serve) -> None:
    signature = {"a": relive.ArraySpec((None, 4), np.float32)}
    client = serve(uniform_table(signature=signature)).localhost_client()
    with pytest.raises(ValueError, match="got dtype float64, but expected float32 "):
        written(client, {"a": np.float32(1)}, {"a": np.float64(1)})
    with pytest.raises(ValueError, match=r"got shape \(4,\), but expected \(2, 4\) "):
        written(client, {"a": np.zeros((2, 4))}, {"a": np.zeros(4)})
    writer = client.trajectory_writer(3)
    writer.append({"a": np.zeros((2, 4))})
    with pytest.raises(ValueError, match=r"\(a\) is float64 \(1, 2, 4\), but the table's signature requires float32 \(None, 4\)"):
        writer.create_item("table", 1.0, {"a": writer.history["a"][-1:]})


def test_a_policy_accepts_batches() -> None:
    from relive import rl

    result = rl.DQN(batch_size=16, min_replay_size=50).train("catch/0", steps=120, seed=1)
    observations = np.random.default_rng(0).random((5, 10, 5)).astype(np.float32)
    values = result.policy.values(observations)
    assert values.shape == (5, 3)
    np.testing.assert_allclose(values, [result.policy.values(observation) for observation in observations], rtol=1e-6)
    assert result.policy.values(observations[:0]).shape == (0, 3)
    with pytest.raises(ValueError):
        result.policy.values(np.zeros((2, 5, 10, 5), np.float32))


def test_batches_have_importance_weights(serve: Serve) -> None:
    client = serve(uniform_table(sampler=relive.selectors.Prioritized(1.0))).localhost_client()
    for priority in (1.0, 3.0):
        client.insert(np.float32(priority), {"table": priority})
    with client.batches("table", 64, max_batches=1) as batches:
        batch = next(batches)
    chance = batch.info.priority / 4
    np.testing.assert_allclose(batch.weights(0.5, normalized=False), (2 * chance) ** -0.5, rtol=1e-6)
    weights = batch.weights(1.0)
    assert weights.dtype == np.float32 and weights.max() == 1.0
    np.testing.assert_allclose(weights[batch.info.priority == 3.0], 1 / 3, rtol=1e-6)
