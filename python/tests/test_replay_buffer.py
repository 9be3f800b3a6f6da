"""`relive.ReplayBuffer`: a buffer for one process."""

from __future__ import annotations

import copy
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tarfile
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from conftest import PATIENCE_S

import relive
from relive import ReplayBuffer, errors


def step(number: int) -> dict[str, Any]:
    return {
        "observation": np.full(4, number, np.float32),
        "action": number % 3,
        "reward": np.float32(number),
        "next_observation": np.full(4, number + 1, np.float32),
        "done": number % 10 == 9,
    }


def filled(count: int = 50, capacity: int = 100, **arguments: Any) -> ReplayBuffer:
    buffer = ReplayBuffer(capacity, **arguments)
    for number in range(count):
        buffer.add(step(number))
    return buffer


def rewards(buffer: ReplayBuffer) -> list[float]:
    """Returns the rewards of all transitions, in order of insertion."""
    client = buffer.server.localhost_client()
    keys = [item.key for item in client.items("replay")]
    samples = client.get_items("replay", keys)
    return [float(sample.data["reward"]) for sample in samples if sample is not None]


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
    buffer = ReplayBuffer(100, batch_size=8)
    steps = [step(number) for number in range(16)]
    buffer.add_batch({name: np.stack([step[name] for step in steps]) for name in steps[0]})
    buffer.add_batch(**{name: np.stack([step[name] for step in steps[:4]]) for name in steps[0]})
    buffer.add(steps[0])
    assert rewards(buffer) == [*range(16), *range(4), 0]
    batch = buffer.sample()
    np.testing.assert_array_equal(batch["next_observation"][:, 2], batch["reward"] + 1)


def priorities(buffer: ReplayBuffer) -> list[float]:
    """Returns the priorities of all transitions, in order of insertion."""
    len(buffer)
    return [item.priority for item in buffer.server.localhost_client().items("replay")]


def started(how: str, folder: pathlib.Path, **arguments: Any) -> ReplayBuffer:
    """Returns an empty buffer whose server was started before the first step."""
    buffer = ReplayBuffer(10, batch_size=4, **arguments)
    if how == "served":
        buffer.serve()
        return buffer
    buffer.save(folder)
    return buffer if how == "saved" else ReplayBuffer.load(folder)


@pytest.mark.parametrize("how", ["served", "saved", "loaded"])
def test_a_buffer_that_is_started_before_the_first_step_checks_all_steps(how: str, tmp_path: pathlib.Path) -> None:
    buffer = started(how, tmp_path, prioritized=1.0)
    with pytest.raises(ValueError, match="rename your columns"):
        buffer.add(weights=5.0, keys=7)
    # A refused first step determines nothing.
    with pytest.raises(TypeError):
        buffer.add(observation=object())
    buffer.add(observation={"place": np.zeros(3, np.float32)})
    for bad, told in [
        ({"observation": {"place": np.zeros((2, 4), np.float32)}}, r"'observation/place' is float32 \(4,\), but was float32 \(3,\)"),
        ({"observation": {"place": np.zeros((2, 3))}}, "is float64 .*np.float32"),
        ({"observation": {"place": np.zeros((2, 3), np.float32), "kind": np.zeros(2)}}, "the values"),
        ({"place": np.zeros((2, 3), np.float32)}, "columns"),
    ]:
        with pytest.raises(ValueError, match=told):
            buffer.add_batch(bad)
        with pytest.raises(ValueError, match=told):
            buffer.add({name: part[0] if name == "place" else {key: of[0] for key, of in part.items()} for name, part in bad.items()})  # type: ignore[attr-defined]
    buffer.add_batch(observation={"place": np.ones((2, 3), np.float32)})
    assert len(buffer) == 3 and buffer.sample()["observation"]["place"].shape == (4, 3)
    buffer.save(tmp_path)
    loaded = ReplayBuffer.load(tmp_path)
    with pytest.raises(ValueError, match="is float64"):
        loaded.add(observation={"place": np.zeros(3)})
    loaded.add(observation={"place": np.zeros(3, np.float32)})
    assert len(loaded) == 4


def test_after_a_step_with_other_nested_names_good_steps_are_added() -> None:
    buffer = ReplayBuffer(10)
    good: dict[str, Any] = {"action": 1, "seen": {"x": 1.0}}
    buffer.add(good)
    for seen in ({"x": 1.0, "y": 2.0}, {"y": 2.0}):
        with pytest.raises(ValueError, match=r"\['action', 'seen/x'\], but this one has"):
            buffer.add({**good, "seen": seen})
        with pytest.raises(ValueError, match=r"\['action', 'seen/x'\], but this one has"):
            buffer.add_batch(action=[1, 1], seen={name: [number] * 2 for name, number in seen.items()})
    buffer.add(good)
    buffer.add_batch(action=[1, 1], seen={"x": [1.0, 2.0]})
    assert len(buffer) == 4


def test_refused_values_are_named() -> None:
    buffer = ReplayBuffer(10)
    with pytest.raises(TypeError, match="column 'a/b' is None"):
        buffer.add(a={"b": None}, reward=1)
    buffer.add(a={"b": 1}, reward=1)
    with pytest.raises(TypeError, match="column 'a/b' is None"):
        buffer.add(a={"b": None}, reward=1)
    with pytest.raises(ValueError, match=r"'reward' is float64, but was int64 in the first step .* np\.float64\(reward\)"):
        buffer.add(a={"b": 1}, reward=0.5)
    buffer.add(a={"b": 1}, reward=2)
    assert len(buffer) == 2


def test_tensors_of_any_kind_are_added() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    for number, kind in enumerate([torch.bfloat16, torch.float32]):
        tensor = torch.ones(3, 2, dtype=kind, requires_grad=True)
        buffer = ReplayBuffer(10, prioritized=1.0, n_step=1 + number, discount=None if number == 0 else 0.9)
        more = {"reward": torch.ones(3), "next_observation": tensor, "done": torch.ones(3, dtype=torch.bool)}
        for _ in range(2):
            buffer.add_batch(observation=tensor, **more)
        single = ReplayBuffer(10)
        for _ in range(2):
            single.add(observation=tensor[0], reward=1.0)
        for batch in (buffer.sample(4, to="torch"), single.sample(4, to="torch")):
            assert batch["observation"].dtype == kind and batch["observation"].eq(1).all()
        batch = buffer.sample(4)
        buffer.update(batch["keys"], torch.full((4,), 3.0, dtype=torch.bfloat16, requires_grad=True))
        assert max(priorities(buffer)) == 3.0


def test_each_row_can_have_a_priority() -> None:
    buffer = ReplayBuffer(10, prioritized=1.0)
    buffer.add_batch(a=np.arange(3), priority=[3.0, 1.0, 2.0])
    buffer.add(a=3)
    assert priorities(buffer) == [3.0, 1.0, 2.0, 3.0]
    for bad, told in [([1.0], r"for each of the 3 steps, but its shape is \(1,\)"), ([1.0, -1.0, 1.0], "a number from 0")]:
        with pytest.raises(ValueError, match=told):
            buffer.add_batch(a=np.arange(3), priority=bad)
    windows = ReplayBuffer(10, prioritized=1.0, n_step=3, discount=0.9)
    for given, done in ((9.0, False), (1.0, False), (3.0, True)):
        windows.add(reward=1.0, next_observation=2, done=done, priority=given)
    assert priorities(windows) == [3.0] * 3
    with pytest.raises(ValueError, match="with n_step, priority must be one number"):
        windows.add_batch(reward=[1.0], next_observation=[2], done=[True], priority=[1.0])
    one = ReplayBuffer(10, prioritized=1.0, discount=0.9)
    one.add_batch(reward=[1.0, 1.0], done=[True, False], priority=[1.0, 2.0])
    assert priorities(one) == [1.0, 2.0]


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), 1e200])
def test_an_update_with_an_invalid_priority_changes_nothing(bad: float) -> None:
    buffer = ReplayBuffer(10, prioritized=2.0)
    buffer.add_batch(a=np.arange(2))
    keys = np.unique(buffer.sample(50)["keys"])
    with pytest.raises(ValueError, match="at least 0, and finite even to the power of 2"):
        buffer.update(keys, [9.0, bad])
    buffer.add(a=2)
    assert priorities(buffer) == [1.0] * 3


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_a_buffer_is_copied_with_its_transitions(copied: Any) -> None:
    buffer = filled(prioritized=0.7, beta=0.3, batch_size=12, n_step=2, discount=0.9, seed=3)
    buffer.update(buffer.sample()["keys"], np.full(12, 7.0))
    first, second = copied(buffer), copied(buffer)
    assert rewards(first) == rewards(buffer) and priorities(first) == priorities(buffer)
    assert first.beta == 0.3 and first.batch_size == 12
    np.testing.assert_array_equal(first.sample()["reward"], second.sample()["reward"])
    for number in range(10):
        first.add(step(number))
    assert priorities(first)[-1] == 7.0
    first.close()
    assert len(buffer) == len(second) == 50
    # Without a step, the first one determines the columns of a copy.
    for of in (ReplayBuffer(10), copied(ReplayBuffer(10))):
        copied(of).add(step(0))
    buffer.close()
    with pytest.raises(errors.ClosedError):
        copied(buffer)


def test_a_buffer_is_copied_by_early_releases_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    extract = tarfile.TarFile.extractall

    # The function's arguments in Python 3.11.3.
    def early(self: tarfile.TarFile, path: str = ".", members: Any = None, *, numeric_owner: bool = False) -> None:
        extract(self, path, members, numeric_owner=numeric_owner, filter="data")

    monkeypatch.setattr(tarfile.TarFile, "extractall", early)
    monkeypatch.delattr(tarfile, "data_filter")
    buffer = ReplayBuffer(10)
    buffer.add(x=1.0)
    assert len(copy.deepcopy(buffer)) == 1


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


FORKS = """
import os, sys
import relive
buffer = relive.ReplayBuffer(10)
buffer.add(action=1)
if "sampled" in sys.argv:
    buffer.sample()
owner = os.getpid()
if os.fork() == 0:
    for call in (lambda: buffer.add(action=1), buffer.sample):
        try:
            call()
        except relive.errors.FailedPreconditionError as error:
            assert f"this buffer belongs to process {owner}" in str(error), error
        else:
            os._exit(1)
    with buffer:
        pass
    os._exit(0)
_, status = os.wait()
assert status == 0
buffer.add(action=1)
assert len(buffer) == 2
"""


@pytest.mark.parametrize("before", ["added", "sampled"])
def test_a_forked_process_is_told_whose_buffer_it_is(before: str) -> None:
    """Runs in a new interpreter, because other tests load libraries with threads, which do not support forks."""
    subprocess.run([sys.executable, "-c", FORKS, before], timeout=PATIENCE_S, check=True)


def test_a_buffer_is_saved_and_loaded(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "buffer"
    buffer = filled(prioritized=0.7, beta=0.3, batch_size=12, n_step=2, discount=0.9)
    batch = buffer.sample()
    buffer.update(batch["keys"], batch["reward"] + 5.0)
    buffer.save(path)
    buffer.add(step(1_000))
    buffer.save(path)
    buffer.close()
    for seed in (1, 1, 2):
        loaded = ReplayBuffer.load(path, seed=seed)
        assert len(loaded) == len(rewards(loaded)) == 50
        assert loaded.beta == 0.3 and loaded.sample()["weights"].shape == (12,)
        # The next transition gets the highest priority so far.
        for number in range(10):
            loaded.add(step(number))
        highest = max(item.priority for item in loaded.server.localhost_client().items("replay"))
        assert [item.priority for item in loaded.server.localhost_client().items("replay")][-1] == highest > 5.0
        loaded.close()


@pytest.mark.parametrize("discount", [None, 0.9])
def test_invalid_steps_and_priorities_leave_the_buffer_as_it_was(discount: float | None) -> None:
    buffer = ReplayBuffer(10, prioritized=2.0, discount=discount)
    for priority in (-1.0, float("nan"), float("inf"), 1e200):
        with pytest.raises(ValueError, match=r"priority must be at least 0, and finite even to the power of 2"):
            buffer.add(step(0), priority=priority)
    for bad in ({}, {**step(0), "observation": object()}):
        with pytest.raises((ValueError, TypeError)):
            buffer.add(bad, priority=500.0)
    rows = {name: np.stack([column] * 4) for name, column in step(0).items()}
    if discount is not None:
        with pytest.raises(ValueError, match="column 'observation' has the leading dimensions"):
            buffer.add_batch({**rows, "observation": rows["observation"][:3]})
        with pytest.raises(ValueError, match="needs a reward"):
            buffer.add_batch({})
    buffer.add_batch({**rows, "done": np.ones(4, bool)}, priority=100.0)
    assert len(buffer) == 4
    with pytest.raises(ValueError, match="columns"):
        buffer.add_batch({name: column for name, column in rows.items() if name != "observation"})
    buffer.add_batch({**rows, "done": np.ones(4, bool)})
    # New transitions get the highest priority so far.
    assert {item.priority for item in buffer.server.localhost_client().items("replay")} == {100.0}
    buffer.close()


def test_a_closed_buffer_refuses_all_calls(tmp_path: pathlib.Path) -> None:
    used, unused = filled(), ReplayBuffer(10)
    used.sample()
    for buffer in (used, unused):
        buffer.close()
        buffer.close()
        for call in (buffer.sample, buffer.__len__, lambda: buffer.add(step(0)), lambda: buffer.save(tmp_path)):
            with pytest.raises(relive.errors.ClosedError, match="the buffer is closed"):
                call()


def test_damaged_settings_of_a_buffer_are_reported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with filled(n_step=2, discount=0.9) as buffer:
        buffer.save("")
    with ReplayBuffer.load("") as buffer:
        assert len(buffer) > 0
    file = tmp_path / "replay_buffer.json"
    whole = file.read_text()
    for damaged in (whole.replace("0.9", "0.1"), whole[:20], "{}", "[1]", "null"):
        file.write_text(damaged)
        with pytest.raises(relive.errors.DataLossError, match="replay_buffer.json is damaged"):
            ReplayBuffer.load("")


def test_a_loaded_buffer_can_be_saved_to_the_same_folder(tmp_path: pathlib.Path) -> None:
    with filled() as buffer:
        buffer.save(tmp_path)
    with ReplayBuffer.load(tmp_path) as buffer:
        buffer.add(step(50))
        buffer.save(tmp_path)
    with ReplayBuffer.load(tmp_path) as buffer:
        assert rewards(buffer) == list(range(51))


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("beta", float("nan"), ValueError), ("beta", float("inf"), ValueError), ("beta", -0.5, ValueError), ("beta", "0.4", TypeError),
        ("beta", None, TypeError), ("batch_size", None, TypeError), ("batch_size", 32.0, TypeError), ("n_step", 3.0, TypeError),
        ("prioritized", "0.6", TypeError), ("prioritized", True, TypeError), ("prioritized", float("inf"), ValueError),
        ("discount", "0.9", TypeError), ("discount", float("nan"), ValueError), ("capacity", 1e5, TypeError),
    ],
)
def test_numbers_of_a_buffer_are_refused_by_name(name: str, value: Any, kind: type[Exception]) -> None:
    told = re.escape(f"{value}")
    with pytest.raises(kind, match=f"^{name} .*{told}"):
        ReplayBuffer(**{"capacity": 10, "discount": 0.9, name: value})
    if name == "beta":
        with ReplayBuffer(10) as buffer:
            with pytest.raises(kind, match=f"^beta .*{told}"):
                buffer.beta = value
            assert buffer.beta == 0.4


def test_numbers_of_a_buffer_may_be_numpys(tmp_path: pathlib.Path) -> None:
    numbers = {"batch_size": np.int32(5), "prioritized": np.float32(0.5), "beta": np.float64(0.25), "n_step": np.int64(1), "discount": np.array(1)}
    with ReplayBuffer(np.int64(7), **numbers) as buffer:  # type: ignore[arg-type]
        buffer.add(step(0))
        buffer.beta = np.float32(0.75)  # type: ignore[assignment]
        assert buffer.sample()["reward"].shape == (5,)
        buffer.save(tmp_path)
    with ReplayBuffer.load(tmp_path) as loaded:
        assert (loaded.capacity, loaded.batch_size, loaded.beta) == (7, 5, 0.75)
        assert pickle.loads(pickle.dumps(loaded)).beta == 0.75


def test_batch_sizes_and_ports_must_be_whole_numbers() -> None:
    with filled(3) as buffer:
        with pytest.raises(TypeError, match=r"batch_size is 32\.0, but it must be a whole number"):
            buffer.sample(32.0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="port is '8000', but it must be a whole number"):
            buffer.serve("8000")  # type: ignore[arg-type]


@pytest.mark.parametrize("discount", [None, 0.9])
def test_a_buffer_without_priorities_refuses_them(discount: float | None) -> None:
    rows = {name: np.stack([column]) for name, column in step(0).items()}
    with ReplayBuffer(10, discount=discount) as buffer:
        for call in (lambda: buffer.add(step(0), priority=3.0), lambda: buffer.add_batch(rows, priority=3.0)):
            with pytest.raises(ValueError, match=r"the buffer has no priorities; create it with, for example, prioritized=0\.6"):
                call()
        assert len(buffer) == 0


def test_a_buffer_that_is_closed_by_another_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = filled()
    buffer.sample(4)
    iterator = buffer._table._iterators[4]
    taken = type(iterator).__next__

    def closing(self: Any) -> Any:
        closer = threading.Thread(target=buffer.close)
        closer.start()
        closer.join()
        return taken(self)

    monkeypatch.setattr(type(iterator), "__next__", closing)
    with pytest.raises(errors.ClosedError, match="the buffer is closed"):
        buffer.sample(4)


def test_invalid_buffer_arguments_are_refused_with_the_reason(tmp_path: pathlib.Path) -> None:
    for arguments, told in [
        ({"capacity": 0}, "capacity must be from 1 to 2147483647, got 0"),
        ({"capacity": 2**40}, "capacity must be from 1 to 2147483647, got 1099511627776"),
        ({"capacity": 1, "prioritized": -0.5}, "prioritized must be at least 0"),
        ({"capacity": 1, "batch_size": 0}, "batch_size"),
        ({"capacity": 1, "n_step": 0, "discount": 0.9}, "n_step"),
        ({"capacity": 1, "n_step": 3}, "requires a discount"),
        ({"capacity": 1, "discount": 1.5}, "discount must be"),
        ({"capacity": 1, "seed": -1}, "seed"),
    ]:
        with pytest.raises(ValueError, match=told):
            ReplayBuffer(**arguments)  # type: ignore[arg-type]
    buffer = ReplayBuffer(10)
    with pytest.raises(ValueError, match="is empty"):
        buffer.sample()
    buffer.add(step(0))
    with pytest.raises(ValueError, match="at least 1"):
        buffer.sample(0)
    with pytest.raises(ValueError, match="no priorities"):
        buffer.update([1], [1.0])
    with pytest.raises(ValueError, match="float32"):
        buffer.add({**step(0), "reward": np.float64(1.0)})
    prioritized = ReplayBuffer(10, prioritized=0.5)
    with pytest.raises(ValueError, match="rename"):
        prioritized.add(weights=1.0)
    several = ReplayBuffer(10, n_step=2, discount=0.9)
    for steps, told in [
        ({"reward": [1.0]}, "terminated or done"),
        ({"done": [False]}, "needs a reward"),
        ({"reward": [1.0], "done": [False], "discount": [1.0]}, "omit it"),
    ]:
        with pytest.raises(ValueError, match=told):
            several.add_batch(steps)
    several.add_batch(reward=[1.0, 2.0], done=[False, False], next_value=[1, 1])
    with pytest.raises(ValueError, match="one number for each environment"):
        several.add_batch(reward=[1.0], done=[False], next_value=[1])
    with pytest.raises(TypeError, match="column 'done' must contain numbers, but its data type is <U5"):
        several.add_batch(reward=[1.0, 2.0], done=["False", "True"], next_value=[1, 1])
    with pytest.raises(OSError):
        ReplayBuffer.load(tmp_path / "nothing")
    buffer.close()
    with pytest.raises(errors.ReverbError):
        buffer.add(step(0))
