"""`relive.ReplayBuffer`: a buffer for one process."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pytest
from buffers import filled, priorities, rewards, step
from conftest import PATIENCE_S

import relive
from relive import ReplayBuffer, _buffer_table, errors


def test_the_common_case_takes_three_lines() -> None:
    buffer = ReplayBuffer(100, batch_size=32)
    buffer.add(observation=np.zeros(4, np.float32), action=1, reward=0.5, next_observation=np.ones(4, np.float32), done=False)
    batch = buffer.sample()
    assert {name: column.shape for name, column in batch.items()} == {
        "observation": (32, 4), "action": (32,), "reward": (32,), "next_observation": (32, 4), "done": (32,),
    }
    assert batch["done"].dtype == np.bool_ and batch["action"].dtype == np.int64 and len(buffer) == 1


def test_the_oldest_steps_are_evicted_and_fields_stay_aligned() -> None:
    buffer = filled(count=25, capacity=10)
    assert len(buffer) == 10 and rewards(buffer) == list(range(15, 25))
    batch = buffer.sample(64)
    np.testing.assert_array_equal(batch["next_observation"][:, 2], batch["reward"] + 1)
    np.testing.assert_array_equal(batch["action"], batch["reward"] % 3)


def test_arrays_may_be_overwritten_after_adding() -> None:
    buffer = ReplayBuffer(10, batch_size=4)
    observation = np.zeros(3, np.float32)
    for number in range(3):
        observation[:] = number
        buffer.add(observation=observation, reward=np.float32(number))
    batch = buffer.sample(20)
    np.testing.assert_array_equal(batch["observation"][:, 0], batch["reward"])


def test_a_buffer_listens_only_once_served() -> None:
    def sockets() -> set[str]:
        links = (os.path.join("/proc/self/fd", entry) for entry in os.listdir("/proc/self/fd"))
        return {os.readlink(link) for link in links if os.path.lexists(link)}

    listening = {name for name in sockets() if name.startswith("socket:")}
    buffer = filled()
    assert {name for name in sockets() if name.startswith("socket:")} <= listening
    client = relive.Client(f"localhost:{buffer.serve()}", transport="tcp")
    assert client.server_info(timeout=PATIENCE_S)["replay"].current_size == 50
    with client.batches("replay", 8, timeout=PATIENCE_S) as batches:
        assert next(batches).data["observation"].shape == (8, 4)
    client.insert({**step(77), "done": np.bool_(True)}, {"replay": 1.0}, timeout=PATIENCE_S)
    assert len(buffer) == 51


@pytest.mark.parametrize("prioritized", [None, 0.6])
def test_the_same_seed_and_calls_give_the_same_batches(prioritized: float | None) -> None:
    def drawn(seed: int | None) -> npt.NDArray[np.float32]:
        buffer = filled(seed=seed, prioritized=prioritized, batch_size=16)
        batches = []
        for number in range(5):
            batch = buffer.sample()
            if prioritized:
                buffer.update(batch["keys"], batch["reward"] + 1)
            buffer.add(step(100 + number))
            batches.append(batch["reward"])
        return np.concatenate(batches)

    np.testing.assert_array_equal(drawn(3), drawn(3))
    assert (drawn(3) != drawn(4)).any() and (drawn(None) != drawn(None)).any()


def test_prioritized_batches_have_weights_and_keys() -> None:
    buffer = filled(prioritized=1.0, beta=0.5, batch_size=400, seed=1)
    batch = buffer.sample()
    assert batch["weights"].dtype == np.float32 and (batch["weights"] == 1.0).all()
    # One transition gets the summed priority of all others.
    keys, first = np.unique(batch["keys"], return_index=True)
    assert len(keys) == 50
    buffer.update(keys, np.ones(50))
    chosen = keys[batch["reward"][first] == 7.0]
    buffer.update(chosen, [49.0])
    batch = buffer.sample()
    is_chosen = batch["keys"] == chosen[0]
    assert 0.4 < is_chosen.mean() < 0.6 and (batch["reward"][is_chosen] == 7.0).all()
    # (N P)^-beta: N P is 25 for the chosen transition and 25/49 for the others.
    np.testing.assert_allclose(batch["weights"][is_chosen], (1 / 49) ** 0.5, rtol=1e-5)
    np.testing.assert_allclose(batch["weights"][~is_chosen], 1.0)
    buffer.beta = 1.0
    np.testing.assert_allclose(buffer.sample()["weights"].min(), 1 / 49, rtol=1e-5)
    # By default, new transitions get the highest priority so far.
    buffer.add(step(1))
    buffer.add(step(2), priority=0.5)
    assert [item.priority for item in buffer.server.localhost_client().items("replay")][-2:] == [49.0, 0.5]


def test_batches_can_be_torch_or_jax_arrays() -> None:
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    buffer = filled(prioritized=0.5)
    batch = buffer.sample(8, to="torch")
    assert isinstance(batch["observation"], torch.Tensor) and batch["weights"].dtype == torch.float32
    buffer.update(batch["keys"], batch["reward"].abs() + 1)
    batch = buffer.sample(8, to="jax")
    assert isinstance(batch["observation"], jax.Array) and batch["keys"].dtype == np.uint64
    buffer.update(batch["keys"], batch["reward"] + 1)
    with pytest.raises(ValueError, match="'numpy', 'torch' or 'jax'"):
        buffer.sample(8, to="tensorflow")


def test_steps_of_many_environments_are_added_at_once() -> None:
    buffer = ReplayBuffer(100, 8)
    steps = [step(number) for number in range(16)]
    buffer.add_batch({name: np.stack([step[name] for step in steps]) for name in steps[0]})
    buffer.add_batch(**{name: np.stack([step[name] for step in steps[:4]]) for name in steps[0]})
    buffer.add(steps[0])
    assert rewards(buffer) == [*range(16), *range(4), 0]
    batch = buffer.sample()
    np.testing.assert_array_equal(batch["next_observation"][:, 2], batch["reward"] + 1)


def test_a_buffer_tells_its_sizes_and_can_be_cleared() -> None:
    buffer = filled(prioritized=1.0, batch_size=12, n_step=2, discount=0.9)
    assert (buffer.capacity, buffer.batch_size, repr(buffer)) == (100, 12, "ReplayBuffer(capacity=100, size=50)")
    buffer.update(buffer.sample()["keys"], np.full(12, 7.0))
    buffer.add(step(50))
    buffer.clear()
    assert len(buffer) == 0 and repr(buffer) == "ReplayBuffer(capacity=100, size=0)"
    buffer.add(step(61))
    buffer.add(step(62))
    assert buffer.sample()["reward"].tolist() == [pytest.approx(61 + 0.9 * 62)] * 12 and priorities(buffer) == [1.0]
    unused = ReplayBuffer(7)
    unused.clear()
    unused.close()
    assert repr(unused) == "ReplayBuffer(capacity=7, closed)"
    with pytest.raises(errors.ClosedError):
        unused.clear()


def test_tensors_are_sampled_on_a_device() -> None:
    torch = pytest.importorskip("torch")
    buffer = filled()
    assert buffer.sample(3, to="torch", device="meta")["observation"].device == torch.device("meta")
    with pytest.raises(ValueError, match="device is 'cpu', but numpy has no devices"):
        buffer.sample(3, device="cpu")


def test_a_buffer_that_another_client_empties_during_a_sample_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_buffer_table, "_LOOK_SECONDS", 0.05)
    buffer = relive.ReplayBuffer(10, batch_size=4, seed=0)
    buffer.add(a=0)
    buffer.sample()
    client = buffer.server.localhost_client()
    client.delete_items("replay", [item.key for item in client.items("replay")])
    table, checks = buffer._table._table, []

    class Emptied:
        """A table that is emptied directly after the first check."""

        def can_sample(self, items: int) -> bool:
            checks.append(items)
            return len(checks) == 1 or table.can_sample(items)

    buffer._table._table = Emptied()  # type: ignore[assignment]
    with pytest.raises(ValueError, match="empty"):
        buffer.sample()
    assert len(checks) == 2
    buffer.add(a=7)
    assert buffer.sample()["a"].tolist() == [7] * 4
