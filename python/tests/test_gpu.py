"""The store of trajectories: what goes in comes out, in windows, by its weights, in this process and in others."""

from __future__ import annotations

import pathlib
import pickle
import subprocess
import sys
import textwrap
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from relive import errors, gpu
from relive.specs import ArraySpec

COLUMNS: dict[str, Any] = {
    "observation": ("uint8", (2, 3)), "action": "int64", "reward": ArraySpec((), "float32"), "done": "bool",
    "small": ("int8", (2,)),
}
MAX_STEPS = 20


def trajectory(length: int, seed: int) -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "observation": rng.integers(0, 256, (length, 2, 3), np.uint8),
        "action": rng.integers(-(2**60), 2**60, length),
        "reward": rng.normal(size=length).astype(np.float32),
        "done": rng.random(length) < 0.5,
        "small": rng.integers(-128, 128, (length, 2), np.int8),
    }


def simple(**options: Any) -> gpu.Store:
    """A store of one number per step."""
    return gpu.Store({"x": "float32"}, **{"capacity": 4, "max_steps": 5, **options})


def put(store: gpu.Store, value: float, weight: float = 1.0, length: int = 3) -> gpu.Inserted:
    return store.insert({"x": np.full(length, value, np.float32)}, weight)


@pytest.fixture(scope="module")
def filled() -> tuple[gpu.Store, list[dict[str, npt.NDArray[Any]]]]:
    store = gpu.Store(COLUMNS, capacity=16, max_steps=MAX_STEPS)
    all_of_them = [trajectory(1 + (seed * 7) % MAX_STEPS, seed) for seed in range(12)]
    for one in all_of_them:
        store.insert(one)
    return store, all_of_them


def naive(steps: npt.NDArray[Any], step: int, offset: int, length: int, pad: str, value: float, dtype: Any = None) -> npt.NDArray[Any]:
    """A window, one step after another."""
    dtype = steps.dtype if dtype is None else dtype
    there = [steps[t] for t in range(step + offset, step + offset + length) if 0 <= t < len(steps)]
    padding = [np.full(steps.shape[1:], value, dtype)] * (length - len(there))
    found = [np.asarray(row, dtype) for row in there]
    return np.stack(padding + found if pad == "head" else found + padding)


@pytest.mark.parametrize("pad", ["head", "tail"])
@pytest.mark.parametrize(
    ("offset", "length"), [(0, 1), (-4, 5), (-5, 5), (-1000, 1000), (1, 3), (-3, 8), (30, 4), (-60, 10), (-100, 90), (-25, 60)]
)
def test_windows_are_those_of_a_naive_loop(filled: Any, pad: Literal["head", "tail"], offset: int, length: int) -> None:
    store, written = filled
    windows = {name: gpu.Window(offset, length, pad=pad, value=1) for name in COLUMNS}
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 12, 40)
    steps = np.array([rng.integers(0, len(written[index]["action"]) + 1) for index in indices])
    batch = store.collect(indices, windows, steps=steps)
    assert batch.steps.tolist() == steps.tolist()
    assert batch.lengths.tolist() == [len(written[index]["action"]) for index in indices]
    for name, array in batch.data.items():
        expected = np.stack([
            naive(written[index][name], step, offset, length, pad, 1) for index, step in zip(indices, steps, strict=True)
        ])
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)
        counts = [sum(0 <= step + offset + i < len(written[index][name]) for i in range(length)) for index, step in zip(indices, steps, strict=True)]
        assert batch.valid[name].tolist() == counts


def test_a_window_ends_where_it_was_asked_to() -> None:
    """GEAR counts the end from the beginning that was cut off, and gives steps from the future."""
    store = simple(max_steps=50)
    store.insert({"x": np.arange(50, dtype=np.float32)})
    batch = store.collect([0], {"x": gpu.Window(-10, 10, value=-1)}, steps=[5])
    assert batch.data["x"][0].tolist() == [-1] * 5 + [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_windows_of_another_type(filled: Any, dtype: str) -> None:
    store, written = filled
    windows = {"now": gpu.Window(-2, 3, dtype=dtype, scale=1 / 255, value=0.5, column="observation")}
    batch = store.collect([3], windows, steps=[1])
    expected = (written[3]["observation"][:2].astype(np.float32) * np.float32(1 / 255)).astype(dtype)
    assert batch.data["now"].dtype == dtype
    np.testing.assert_array_equal(batch.data["now"][0, 1:], expected)
    assert (batch.data["now"][0, 0] == 0.5).all()


def test_two_windows_of_one_column(filled: Any) -> None:
    store, written = filled
    windows = {"now": gpu.Window(column="action"), "then": gpu.Window(1, 1, column="action")}
    batch = store.collect([5], windows, steps=[0])
    assert [batch.data["now"].item(), batch.data["then"].item()] == written[5]["action"][:2].tolist()


def test_small_integers_keep_their_signs(filled: Any) -> None:
    """Defect 17 of GEAR: int8 and uint8 are swapped."""
    store, written = filled
    assert store.columns["small"].dtype == np.int8
    assert store.columns["observation"].dtype == np.uint8
    batch = store.collect([4], {"small": gpu.Window(-MAX_STEPS, MAX_STEPS, pad="tail")})
    np.testing.assert_array_equal(batch.data["small"][0, : batch.valid["small"][0]], written[4]["small"])


def test_arrays_that_do_not_lie_plainly(filled: Any) -> None:
    with gpu.Store(COLUMNS, capacity=1, max_steps=MAX_STEPS) as store:
        one = trajectory(10, 3)
        turned = {name: np.asfortranarray(np.repeat(array, 2, 0)[::2]) for name, array in one.items()}
        turned["action"] = one["action"].astype(">i8")
        store.insert(turned)
        batch = store.collect([0], {name: gpu.Window(-10, 10) for name in COLUMNS})
        for name in COLUMNS:
            np.testing.assert_array_equal(batch.data[name][0], one[name])


def test_length() -> None:
    """Defect 18 of GEAR: `len` fails."""
    store = simple()
    assert len(store) == 0 and store
    put(store, 1)
    assert (len(store), store.capacity, store.max_steps) == (1, 4, 5)


def test_batches_are_the_callers_for_as_long_as_they_are_wanted() -> None:
    store = simple(capacity=64)
    for value in range(64):
        put(store, value)
    loader = store.loader(8, {"x": gpu.Window()}, prefetch=2)
    kept = [next(loader) for _ in range(20)]
    copies = [batch.data["x"].copy() for batch in kept]
    kept[0].data["x"][:] = -1
    for _ in range(20):
        next(loader)
    for batch, copy in zip(kept[1:], copies[1:], strict=True):
        np.testing.assert_array_equal(batch.data["x"], copy)
        np.testing.assert_array_equal(batch.data["x"][:, 0], batch.indices)
    loader.close()
    store.close()
    assert (kept[0].data["x"] == -1).all()


SAMPLINGS = ["uniform", "weighted", "stratified", "prioritized", "top_k", "fifo", "lifo", "without_replacement"]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_same_seed_gives_the_same_batches(sampling: str) -> None:
    store = simple(capacity=50)
    for value in range(40):
        put(store, value, weight=value / 4)

    def drawn(seed: int, prefetch: int) -> list[Any]:
        loader = store.loader(16, {"x": gpu.Window()}, sampling=sampling, seed=seed, prefetch=prefetch)
        batches = [next(loader) for _ in range(4)]
        return [(batch.indices.tolist(), batch.steps.tolist(), batch.weights.tolist()) for batch in batches]

    assert drawn(3, 0) == drawn(3, 2)
    assert drawn(3, 0) != drawn(4, 0)
    assert 0 not in {index for batch in drawn(3, 0) for index in batch[0]}, "a weight of 0 is never drawn"


def test_selections_of_each_once() -> None:
    store = simple(capacity=10)
    for value in range(10):
        put(store, value, weight=[3, 9, 1, 7, 5, 2, 8, 6, 4, 10][value])

    def first(sampling: str) -> list[int]:
        return next(store.loader(3, {"x": gpu.Window()}, sampling=sampling)).indices.tolist()

    assert first("top_k") == [9, 1, 6]
    assert first("fifo") == [0, 1, 2]
    assert first("lifo") == [9, 8, 7]
    assert len(set(first("without_replacement"))) == 3


def test_prioritized_draws_have_importance_weights() -> None:
    store = simple(capacity=4)
    for weight in (1.0, 2.0, 4.0, 8.0):
        put(store, weight, weight)
    loader = store.loader(4096, {"x": gpu.Window()}, sampling=gpu.Prioritized(alpha=0.5, beta=0.7), prefetch=0)
    batch = next(loader)
    chances = np.array([1, 2, 4, 8]) ** 0.5
    chances /= chances.sum()
    np.testing.assert_allclose(np.bincount(batch.indices, minlength=4) / 4096, chances, atol=0.002)
    np.testing.assert_allclose(batch.probabilities, chances[batch.indices], rtol=1e-6)
    np.testing.assert_allclose(batch.weights, (chances.min() / chances[batch.indices]) ** 0.7, rtol=1e-5)
    loader.set_beta(0.0)
    assert (next(loader).weights == 1).all()
    with pytest.raises(errors.InvalidArgumentError, match="uniform"):
        store.loader(1, {"x": gpu.Window()}).set_beta(0.5)


def test_random_steps_are_all_alike() -> None:
    store = simple(capacity=1, max_steps=8)
    store.insert({"x": np.arange(8, dtype=np.float32)})
    batch = next(store.loader(8000, {"x": gpu.Window()}))
    np.testing.assert_array_equal(batch.data["x"][:, 0], batch.steps)
    assert np.abs(np.bincount(batch.steps, minlength=8) - 1000).max() < 150
    assert (next(store.loader(10, {"x": gpu.Window()}, steps="last")).steps == 8).all()


def test_new_weights_are_followed_and_old_generations_are_not() -> None:
    store = simple(capacity=2)
    first, second = put(store, 1), put(store, 2)
    loader = store.loader(64, {"x": gpu.Window()}, sampling="weighted", prefetch=0)
    assert set(next(loader).indices.tolist()) == {0, 1}
    assert store.update_weights([first.index], [0.0], [first.generation]) == (1, 0)
    assert set(next(loader).indices.tolist()) == {second.index}
    third = put(store, 3)
    assert third.index == first.index and third.generation > first.generation
    assert store.update_weights([first.index], [9.0], [first.generation]) == (0, 1), "it is another trajectory by now"
    assert store.status(third.index).weight == 1.0
    assert store.update_weights(third.index, 0.25) == (1, 0)
    assert store.weights().tolist() == [0.25, 1.0]
    assert store.metrics()["stale_updates"] == 1


def survivors(store: gpu.Store) -> list[float]:
    there = np.flatnonzero(store.weights())
    return sorted(store.collect(there, {"x": gpu.Window(-1, 1)}).data["x"][:, 0].tolist())


@pytest.mark.parametrize(
    ("removal", "expected"),
    [("fifo", [1, 2, 3]), ("lifo", [0, 1, 3]), ("lowest_weight", [0, 2, 3]),
     (lambda candidates: int(candidates.weights.argmax()), [0, 1, 3])],
    ids=["fifo", "lifo", "lowest_weight", "function"],
)
def test_removal(removal: Any, expected: list[float]) -> None:
    store = simple(capacity=3, removal=removal)
    for value, weight in ((0, 2.0), (1, 1.0), (2, 3.0), (3, 0.5)):
        put(store, value, weight)
    assert survivors(store) == expected
    assert store.metrics()["evictions"]["no_free"] == 1


def test_random_removal_follows_its_seed() -> None:
    def left(seed: int) -> list[float]:
        store = simple(capacity=8, removal="random", seed=seed)
        for value in range(40):
            put(store, value)
        return survivors(store)

    assert left(1) == left(1) != left(2)


def test_trajectories_that_were_sampled_often_enough_go() -> None:
    store = simple(capacity=8, removal=("max_times_sampled", 2))
    for value in range(8):
        put(store, value)
    loader = store.loader(4, {"x": gpu.Window()}, prefetch=0)
    counts = np.bincount(np.concatenate([next(loader).indices for _ in range(4)]), minlength=8)
    assert counts.tolist() == [2] * 8
    with pytest.raises(errors.UnavailableError, match="insert more"):
        next(loader)


def test_the_most_selectable_trajectories() -> None:
    store = simple(capacity=4, max_selectable=2)
    for value in range(4):
        put(store, value)
    assert survivors(store) == [2, 3]


def test_a_removal_that_raises_or_keeps_all() -> None:
    def fails(candidates: gpu.Candidates) -> int:
        raise KeyError("mine")

    for removal, error in ((fails, KeyError), (lambda _: 7, IndexError), (lambda _: None, errors.UnavailableError)):
        store = simple(capacity=1, removal=removal)
        put(store, 1)
        with pytest.raises(error):
            put(store, 2)
        assert survivors(store) == [1]


def test_removing() -> None:
    store = simple()
    one, two = put(store, 1), put(store, 2)
    assert store.remove([one.index], [one.generation]) == (1, 0)
    assert store.remove([one.index], [one.generation]) == (0, 1)
    assert (len(store), store.status(one.index).state, store.status(two.index).state) == (1, "free", "selectable")
    with pytest.raises(errors.NotFoundError, match="beyond"):
        store.status(4)


X = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("given", "weight", "text"),
    [
        ({"x": X.astype(np.float64)}, 1.0, r"the array has the data type float64, but the column has float32; convert it with .astype"),
        ({"x": np.zeros((3, 2), np.float32)}, 1.0, r"\"x\": the array has shape \[3, 2\]"),
        ({"x": np.float32(1)}, 1.0, r"has shape \[\]"),
        ({"y": X}, 1.0, r"has no \['x'\] and has \['y'\]"),
        ({"x": np.zeros(6, np.float32)}, 1.0, r"a trajectory has 6 steps, but it must have 1 to 5"),
        ({"x": np.zeros(0, np.float32)}, 1.0, r"a trajectory has 0 steps"),
        ({"x": X}, float("nan"), r"the weight is NaN"),
        ({"x": X}, -1.0, r"the weight is -1"),
        ({"x": X}, 1e300, r"the weight is 1"),
    ],
)
def test_bad_trajectories_are_refused_before_anything_goes(given: Any, weight: float, text: str) -> None:
    store = simple(capacity=1)
    put(store, 7)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        store.insert(given, weight)
    assert survivors(store) == [7]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: gpu.Store({"x": "float32"}, capacity=0, max_steps=1), ValueError, "capacity is 0"),
        (lambda s: gpu.Store({}, capacity=1, max_steps=1), ValueError, "0 columns"),
        (lambda s: gpu.Store({"x": "object"}, capacity=1, max_steps=1), ValueError, "no fixed size"),
        (lambda s: gpu.Store({"x": ("float32", (None,))}, capacity=1, max_steps=1), ValueError, "one fixed shape"),
        (lambda s: gpu.Store({"x": "float33"}, capacity=1, max_steps=1), ValueError, "column 'x' is 'float33'"),
        (lambda s: simple(removal="oldest"), ValueError, "removal is 'oldest'"),
        (lambda s: simple(removal=("max_times_sampled", 0)), ValueError, "at least 1"),
        (lambda s: s.loader(0, {"x": gpu.Window()}), ValueError, "batch_size is 0"),
        (lambda s: s.loader(1, {}), ValueError, "at least one"),
        (lambda s: s.loader(1, {"z": gpu.Window()}), errors.NotFoundError, "no column \"z\""),
        (lambda s: s.loader(1, {"x": gpu.Window()}, sampling="best"), ValueError, "sampling is 'best'"),
        (lambda s: s.loader(1, {"x": gpu.Window()}, steps="first"), ValueError, "'random' or 'last'"),
        (lambda s: s.loader(1, {"x": gpu.Window()}, framework="mxnet"), ValueError, "framework is 'mxnet'"),
        (lambda s: s.loader(1, {"x": gpu.Window()}, sampling=gpu.Weighted(alpha=-1)), ValueError, "alpha of Weighted is -1"),
        (lambda s: gpu.Window(0, 0), ValueError, "0 steps"),
        (lambda s: gpu.Window(scale=2.0), ValueError, "without a dtype"),
        (lambda s: s.collect([0], {"x": gpu.Window()}, steps=[4]), ValueError, "step 4 of trajectory 0, which has 3"),
        (lambda s: s.collect([1], {"x": gpu.Window()}), errors.NotFoundError, "index 1"),
        (lambda s: s.update_weights([0], [np.nan]), ValueError, "weight is NaN"),
        (lambda s: s.update_weights([0, 0], [1.0]), ValueError, "1 weights for 2 indices"),
        (lambda s: s.update_weights([99], [1.0]), errors.NotFoundError, "index 99"),
        (lambda s: gpu.attach("relive-test-nobody-has-this"), errors.NotFoundError, "relive-test-nobody-has-this"),
    ],
)
def test_bad_arguments(call: Any, error: type[Exception], text: str) -> None:
    store = simple()
    put(store, 1)
    with pytest.raises(error, match=text) as raised:
        call(store)
    assert isinstance(raised.value, errors.ReverbError)


def test_nothing_to_draw() -> None:
    with pytest.raises(errors.UnavailableError, match="insert more"):
        next(simple().loader(1, {"x": gpu.Window()}))


def test_a_closed_store_says_so() -> None:
    store = simple()
    store.close()
    with pytest.raises(errors.ClosedError, match="this store was closed"):
        put(store, 1)


def test_a_device_that_is_not_there() -> None:
    store = simple()
    reason = gpu.unavailable()
    if reason is None:
        assert store.loader(1, {"x": gpu.Window()}, device="cuda", framework="torch")
        return
    with pytest.raises(errors.UnavailableError, match="device is 'cuda', but no GPU can be used") as raised:
        store.loader(1, {"x": gpu.Window()}, device="cuda", framework="torch")
    assert reason in str(raised.value)
    with pytest.raises(errors.InvalidArgumentError, match="numpy supports only the CPU"):
        store.loader(1, {"x": gpu.Window()}, device="mps")


def test_frameworks_use_the_same_memory() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    store = simple(capacity=1)
    put(store, 3)
    batch = next(store.loader(2, {"x": gpu.Window()}, framework="torch"))
    assert isinstance(batch.data["x"], torch.Tensor) and isinstance(batch.indices, np.ndarray)
    assert batch.data["x"].tolist() == [[3], [3]] and batch.lengths.dtype == torch.int64
    batch = next(store.loader(2, {"x": gpu.Window()}, framework="jax"))
    assert isinstance(batch.data["x"], jax.Array) and batch.data["x"].tolist() == [[3], [3]]


@pytest.mark.parametrize("sampling", ["uniform", "prioritized", "without_replacement"])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_loader_goes_on_with_the_same_bits(sampling: str, prefetch: int, tmp_path: pathlib.Path) -> None:
    store = simple(capacity=30)
    for value in range(30):
        put(store, value, weight=1 + value, length=1 + value % 5)

    def train(store: gpu.Store, loader: gpu.Loader) -> list[Any]:
        seen = []
        for _ in range(5):
            batch = next(loader)
            seen.append([batch.data["x"].tobytes(), batch.indices.tolist(), batch.steps.tolist(), batch.weights.tolist()])
            store.update_weights(batch.indices, batch.steps + 0.5, batch.generations)
        return seen

    def loader_of(store: gpu.Store) -> gpu.Loader:
        return store.loader(8, {"x": gpu.Window(-1, 2)}, sampling=sampling, seed=5, prefetch=prefetch)

    first = loader_of(store)
    train(store, first)
    saved = store.save(tmp_path / "store")
    assert saved.trajectories == saved.written_trajectories == 30
    state = pickle.loads(pickle.dumps(first.state()))
    expected = train(store, first)
    again = gpu.Store.load(tmp_path / "store")
    other = loader_of(again)
    other.restore(state)
    assert train(again, other) == expected


def test_states_of_others_are_refused() -> None:
    store = simple()
    put(store, 1)
    loader = store.loader(2, {"x": gpu.Window()})
    next(loader)
    state = loader.state()
    with pytest.raises(errors.InvalidArgumentError, match="batch_size 2; this one has 3"):
        store.loader(3, {"x": gpu.Window()}).restore(state)
    with pytest.raises(errors.InvalidArgumentError, match="not the state"):
        loader.restore({})
    with pytest.raises(errors.DataLossError):
        loader.restore({**state, "selector": b"nothing"})
    empty = simple()
    with pytest.raises(errors.NotFoundError):
        empty.loader(2, {"x": gpu.Window()}).restore(state)


def test_a_damaged_checkpoint_is_found(tmp_path: pathlib.Path) -> None:
    store = simple()
    put(store, 1)
    store.save(tmp_path)
    (rows,) = tmp_path.glob("*.data")
    damaged = bytearray(rows.read_bytes())
    damaged[-1] ^= 1
    rows.write_bytes(damaged)
    with pytest.raises(errors.DataLossError):
        gpu.Store.load(tmp_path)
    with pytest.raises(errors.NotFoundError):
        gpu.Store.load(tmp_path / "nothing")


def test_a_store_with_a_function_is_loaded_with_one(tmp_path: pathlib.Path) -> None:
    store = simple(capacity=1, removal=lambda candidates: 0)
    put(store, 1)
    store.save(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match="callback"):
        gpu.Store.load(tmp_path)
    again = gpu.Store.load(tmp_path, removal=lambda candidates: 0, capacity=1)
    put(again, 2)
    assert survivors(again) == [2]


READS = """
    import sys
    import numpy as np
    from relive import errors, gpu

    name = sys.argv[1]
    with gpu.attach(name, {"x": "float32"}, max_steps=5) as reader:
        assert reader.capacity == 4
        batch = next(reader.loader(16, {"x": gpu.Window()}, sampling="weighted"))
        assert set(batch.data["x"][:, 0].tolist()) == {2.0, 3.0}, batch
    assert list(gpu.attach(name).columns) == ["x"]
    try:
        gpu.attach(name, {"x": ("float32", (2,))}, max_steps=5)
    except errors.InvalidArgumentError as error:
        print(error)
"""


def test_another_process_reads() -> None:
    name = f"relive-test-{np.random.default_rng().integers(1 << 60)}"
    with simple(name=name) as store:
        for value, weight in ((1, 0.0), (2, 1.0), (3, 1.0)):
            put(store, value, weight)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(READS), name], capture_output=True, text=True, timeout=120,
            check=False
        )
        assert done.returncode == 0, done.stderr
        assert "float32[2]" in done.stdout and "float32[]" in done.stdout, "the error shows both schemas"
        with pytest.raises(errors.UnavailableError):
            simple(name=name)
    with pytest.raises(errors.NotFoundError):
        gpu.attach(name)


def test_a_child_of_a_fork_does_no_harm() -> None:
    program = """
        import os
        from relive import errors, gpu
        import numpy as np

        store = gpu.Store({"x": "float32"}, capacity=2, max_steps=2, name=f"relive-test-fork-{os.getpid()}")
        store.insert({"x": np.ones(2, np.float32)})
        child = os.fork()
        if child == 0:
            try:
                len(store)
            except errors.FailedPreconditionError:
                del store
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert next(gpu.attach(f"relive-test-fork-{os.getpid()}").loader(1, {"x": gpu.Window()})).data["x"] == 1
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120,
        check=False
    )
    assert done.returncode == 0, done.stderr


def rows(terminals: list[int], timeouts: list[int] | None = None) -> dict[str, Any]:
    count = len(terminals)
    data = {
        "observations": np.arange(2 * count, dtype=np.float64).reshape(count, 2), "actions": np.arange(count),
        "rewards": np.arange(count, dtype=np.float32), "terminals": np.array(terminals, bool),
    }
    return data if timeouts is None else {**data, "timeouts": np.array(timeouts, bool)}


def test_datasets_are_cut_into_episodes_and_nothing_is_lost(tmp_path: pathlib.Path) -> None:
    """GEAR's loader moves the last step of each episode into the next one, and drops one that has not ended."""
    data = rows([0, 0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0])
    np.savez(tmp_path / "data.npz", **data)
    for given in (data, tmp_path / "data.npz"):
        store = gpu.Store({"actions": "int32", "observations": ("float32", (2,))}, capacity=5, max_steps=4)
        store.insert_dataset(given, weight="length")
        batch = store.collect([0, 1, 2], {"actions": gpu.Window(-4, 4, value=-1)})
        assert batch.data["actions"].tolist() == [[-1, 0, 1, 2], [-1, -1, 3, 4], [-1, 5, 6, 7]]
        assert store.weights().tolist() == [3, 2, 3, 0, 0]
    store = gpu.Store.of_dataset(data)
    assert (store.capacity, store.max_steps, len(store)) == (3, 3, 3)
    assert store.columns["observations"] == ArraySpec((2,), "float64", "observations")


def test_recorded_episodes_and_files_of_d4rl(tmp_path: pathlib.Path) -> None:
    from relive import rl
    from relive.rl import recorded

    environment = rl.make("catch/0", seed=1)
    episodes = [recorded.play(environment, lambda _: 1) for _ in range(3)]
    recorded.save(tmp_path / "recorded", episodes)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        for name in ("observations", "actions", "rewards"):
            file[name] = np.concatenate([getattr(episode, name)[: len(episode)] for episode in episodes])
        file["terminals"] = np.concatenate([episode.discounts == 0 for episode in episodes])
    for given in (tmp_path / "recorded", episodes, tmp_path / "data.hdf5"):
        store = gpu.Store.of_dataset(given)
        assert (len(store), store.max_steps) == (3, 9)
        batch = store.collect([0, 1, 2], {"observations": gpu.Window(-9, 9), "terminals": gpu.Window(-9, 9)})
        np.testing.assert_array_equal(batch.data["observations"], np.stack([episode.observations[:-1] for episode in episodes]))
        assert batch.data["terminals"][:, -1].all() and not batch.data["terminals"][:, :-1].any()


@pytest.mark.parametrize(
    ("columns", "capacity", "max_steps", "text"),
    [
        ({"goal": "float32"}, 9, 9, r"no \['goal'\]"),
        ({"actions": "int64"}, 1, 9, "2 episodes, but there is room for only 1"),
        ({"actions": "int64"}, 9, 1, "has 2 steps, but a trajectory can have at most 1"),
        ({"actions": ("int64", (2,))}, 9, 9, r"shape \(\), but the column has \(2,\)"),
        ({"actions": "bool"}, 9, 9, "do not fit bool"),
    ],
)
def test_datasets_that_do_not_fit(columns: Any, capacity: int, max_steps: int, text: str) -> None:
    store = gpu.Store(columns, capacity=capacity, max_steps=max_steps)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        store.insert_dataset(rows([0, 1, 0, 0]))
    assert len(store) == 0


def test_writers_and_a_loader_at_the_same_time() -> None:
    """Rows that are replaced while they are drawn never show two trajectories in one."""
    import threading

    store = gpu.Store({"x": ("float32", (32,))}, capacity=8, max_steps=16)
    stop = threading.Event()
    for value in range(8):
        store.insert({"x": np.full((16, 32), value, np.float32)})

    def write() -> None:
        value = 8
        while not stop.is_set():
            store.insert({"x": np.full((16, 32), value, np.float32)}, timeout=10)
            value += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        loader = store.loader(4, {"x": gpu.Window(-16, 16)}, steps="last", prefetch=0)
        for _ in range(300):
            x = next(loader).data["x"].reshape(4, -1)
            assert (x == x[:, :1]).all()
    finally:
        stop.set()
        writer.join()


def test_relive_is_imported_without_it() -> None:
    program = "import sys, relive; assert 'relive.gpu' not in sys.modules; relive.gpu.Store"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
