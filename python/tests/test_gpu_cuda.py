"""Batches that a GPU collects. Tests marked ``cuda`` run only on request, on a machine with a GPU."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest
from relive import errors, gpu

torch = pytest.importorskip("torch")

COLUMNS: dict[str, Any] = {
    "image": ("uint8", (5, 7)), "state": ("float32", (3,)), "action": "float16", "count": "int64", "done": "bool", "value": ("float64", (2,)),
}
WINDOWS = {
    "image": gpu.Window(-3, 4, dtype="float32", scale=1 / 255),
    "raw": gpu.Window(-9, 5, column="image", pad="tail", value=7),
    "state": gpu.Window(-4, 9),
    "action": gpu.Window(0, 3, dtype="float32"),
    "count": gpu.Window(1, 2, value=-1),
    "done": gpu.Window(-1, 2),
    "value": gpu.Window(-20, 20, pad="tail", dtype="float16"),
}


def filled(capacity: int = 50, **options: Any) -> gpu.Store:
    store = gpu.Store(COLUMNS, capacity=capacity, max_steps=20, **options)
    rng = np.random.default_rng(3)
    for number in range(capacity):
        length = 1 + number % 20
        store.insert({
            "image": rng.integers(0, 256, (length, 5, 7), dtype=np.uint8), "state": rng.normal(size=(length, 3)).astype("float32"),
            "action": rng.normal(size=length).astype("float16"), "count": np.arange(length), "done": np.arange(length) % 3 == 0,
            "value": rng.normal(size=(length, 2)),
        }, weight=1 + number % 5)
    return store


def same(here: gpu.Batch, there: gpu.Batch) -> None:
    assert np.array_equal(here.indices, there.indices) and np.array_equal(here.generations, there.generations)
    for name in here.data:
        mine, other = here.data[name], there.data[name]
        assert other.device.type == "cuda" and mine.dtype == other.dtype and mine.shape == other.shape
        assert torch.equal(mine.view(torch.uint8), other.cpu().view(torch.uint8)), name
        assert torch.equal(here.valid[name], there.valid[name].cpu())
    for field in ("lengths", "steps", "weights", "probabilities"):
        assert torch.equal(getattr(here, field), getattr(there, field).cpu()), field


def test_memory_is_divided_into_tensors() -> None:
    from relive.gpu._cuda import _View, views_of

    memory = torch.arange(256 + 256, dtype=torch.uint8)
    windows = [_View(torch.float32, 0, (2, 3)), _View(torch.bool, 64, (4,))]
    data, valid, others = views_of(memory, windows, 256, 2)
    raw = memory.numpy()
    assert np.array_equal(data[0].numpy(), raw[:48].view("float32").reshape(2, 2, 3))
    assert data[1].shape == (2, 4) and np.array_equal(data[1].view(torch.uint8).numpy().reshape(-1), raw[64:72])
    lists = raw[256:]
    assert [tensor.tolist() for tensor in valid] == [lists[at : at + 16].view("int64").tolist() for at in (0, 16)]
    expected = [lists[32:48].view("int64"), lists[48:64].view("int64"), lists[64:72].view("float32"), lists[72:80].view("float32")]
    assert all(np.array_equal(tensor.numpy(), numbers, equal_nan=True) for tensor, numbers in zip(others, expected, strict=True))


@pytest.mark.cuda
@pytest.mark.parametrize("sampling", ["uniform", "weighted", "prioritized", "fifo", "without_replacement"])
@pytest.mark.parametrize("prefetch", [0, 3])
def test_a_gpu_collects_the_same_batches_as_the_host(sampling: str, prefetch: int) -> None:
    store = filled()
    options: Any = {"sampling": sampling, "seed": 5, "framework": "torch", "prefetch": prefetch}
    with store.loader(13, WINDOWS, **options) as host, store.loader(13, WINDOWS, device="cuda", **options) as device:
        for _ in range(20):
            here, there = next(host), next(device)
            same(here, there)
            store.update_weights(here.indices, np.arange(13) % 4 + 0.5, here.generations)


@pytest.mark.cuda
def test_a_gpu_collects_given_trajectories() -> None:
    store = filled()
    for indices in ([3], [49, 0, 7, 7], list(range(50))):
        same(store.collect(indices, WINDOWS, framework="torch"), store.collect(indices, WINDOWS, framework="torch", device="cuda"))
    with pytest.raises(errors.InvalidArgumentError, match="step 19 of trajectory 3"):
        store.collect([3], WINDOWS, steps=[19], framework="torch", device="cuda")


@pytest.mark.cuda
def test_a_loader_on_a_gpu_continues_from_its_state() -> None:
    store = filled()
    options: Any = {"sampling": "prioritized", "framework": "torch", "device": "cuda", "prefetch": 2}
    with store.loader(8, WINDOWS, **options) as first, store.loader(8, WINDOWS, **options) as second:
        for _ in range(5):
            next(first)
        second.restore(first.state())
        for _ in range(5):
            expected, found = next(first), next(second)
            assert np.array_equal(expected.indices, found.indices)
            assert all(torch.equal(expected.data[name].view(torch.uint8), found.data[name].view(torch.uint8)) for name in WINDOWS)


@pytest.mark.cuda
def test_batches_of_a_gpu_stay_unchanged_while_more_are_collected() -> None:
    store = filled()
    stream = torch.cuda.Stream()
    with store.loader(32, WINDOWS, framework="torch", device="cuda", prefetch=2, seed=1) as loader:
        kept = []
        with torch.cuda.stream(stream):
            for _ in range(40):
                batch = next(loader)
                kept.append((batch, {name: tensor.clone() for name, tensor in batch.data.items()}))
        torch.cuda.synchronize()
        for batch, copies in kept:
            assert all(torch.equal(batch.data[name].view(torch.uint8), copies[name].view(torch.uint8)) for name in copies)


@pytest.mark.cuda
def test_trajectories_are_released_when_a_gpu_has_read_them() -> None:
    store = filled(capacity=8)
    with store.loader(8, {"count": gpu.Window(-20, 20)}, framework="torch", device="cuda", prefetch=0) as loader:
        for number in range(50):
            next(loader)
            # The last batch uses all rows, so one of them must become free first.
            store.insert({name: np.zeros((2, *shape), dtype) for name, (dtype, shape) in _with_shapes().items()}, weight=1 + number, timeout=10.0)


def _with_shapes() -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: spec if isinstance(spec, tuple) else (spec, ()) for name, spec in COLUMNS.items()}


@pytest.mark.cuda
def test_a_gpu_reads_the_store_of_another_process() -> None:
    name = f"cuda-{os.getpid()}"
    with filled(name=name) as store:
        here = store.collect([1, 19], {"state": gpu.Window(-5, 5)}).data["state"]
        program = textwrap.dedent(f"""
            from relive import gpu
            with gpu.attach({name!r}) as reader:
                batch = reader.collect([1, 19], {{"state": gpu.Window(-5, 5)}}, framework="torch", device="cuda")
                print(batch.data["state"].cpu().numpy().tobytes().hex())
        """)
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert found.strip() == here.tobytes().hex()


@pytest.mark.cuda
def test_what_a_gpu_cannot_collect_is_copied_from_the_host(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    from relive.gpu import _cuda

    def refuse(*_: Any) -> None:
        raise errors.UnavailableError("the driver cannot register the memory")

    monkeypatch.setattr(_cuda.CudaBatches, "open", refuse)
    store = filled()
    with caplog.at_level(logging.WARNING, "relive"):
        batch = store.collect([4], WINDOWS, framework="torch", device="cuda")
    assert "the driver cannot register the memory" in caplog.text
    same(store.collect([4], WINDOWS, framework="torch"), batch)
    with pytest.raises(errors.InvalidArgumentError, match="cannot be cast from int64 to float64"):
        store.collect([4], {"count": gpu.Window(0, 2, dtype="float64")}, framework="torch", device="cuda")


@pytest.mark.cuda
def test_jax_gets_the_same_batches_on_a_gpu() -> None:
    program = textwrap.dedent("""
        import jax, numpy as np
        from relive import gpu
        try:
            jax.devices("cuda")
        except RuntimeError as error:
            raise SystemExit(f"not tested: {error}")
        store = gpu.Store({"x": ("float32", (3,))}, capacity=9, max_steps=5)
        for number in range(9):
            store.insert({"x": np.full((5, 3), number, np.float32)})
        with store.loader(4, {"x": gpu.Window(-2, 3)}, seed=1) as host:
            with store.loader(4, {"x": gpu.Window(-2, 3)}, seed=1, framework="jax", device="cuda") as device:
                for _ in range(10):
                    here, there = next(host), next(device)
                    assert there.data["x"].devices() == {jax.devices("cuda")[0]}
                    assert np.array_equal(here.data["x"], np.asarray(there.data["x"]))
    """)
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    if "not tested:" in done.stderr:
        pytest.skip(f"this JAX has no GPU: {done.stderr}")
    assert done.returncode == 0, done.stderr
