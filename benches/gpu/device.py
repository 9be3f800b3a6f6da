"""Compares batches on a GPU with PyTorch and, if it is installed, torchrl, on the same data in the same run.

    python benches/gpu/device.py --gib 16

Prints a table: milliseconds for a batch, and GB/s of the batch's bytes. Every case draws its own rows. The CPU cases gather
on the host with all processors, into page-locked memory, and copy the batch to the GPU while the next one is gathered.
"""

from __future__ import annotations

import argparse
import importlib.util
import threading
import time
from collections.abc import Callable

import numpy as np
import torch
from relive import gpu

STEPS, LENGTH = 20, 1000
COLUMNS: dict[str, tuple[int, ...]] = {"observation": (17,), "action": (6,), "reward": (), "discount": (), "next_observation": (17,)}
CUDA = torch.device("cuda", 0)
SECONDS = 0.7


def report(name: str, work: Callable[[], object], size: int) -> None:
    for _ in range(10):
        work()
    torch.cuda.synchronize()
    count, begin = 0, time.perf_counter()
    while time.perf_counter() < begin + SECONDS:
        work()
        count += 1
        # Limits how far a case can run ahead of the GPU.
        if count % 16 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    each = (time.perf_counter() - begin) / count
    print(f"{name:60} {each * 1e3:8.3f} ms {size / each / 1e9:7.2f} GB/s", flush=True)


class Gathered:
    """Rows of tensors, gathered by PyTorch on the host."""

    def __init__(self, tensors: list[torch.Tensor], rows: int) -> None:
        self._tensors = tensors
        self._pinned = [[torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype).pin_memory() for tensor in tensors] for _ in range(2)]
        self._copied = [torch.cuda.Event(), torch.cuda.Event()]  # type: ignore[no-untyped-call]
        self._turn = 0

    def __call__(self, positions: torch.Tensor) -> list[torch.Tensor]:
        self._turn = 1 - self._turn
        self._copied[self._turn].synchronize()
        pinned = self._pinned[self._turn]
        for tensor, out in zip(self._tensors, pinned, strict=True):
            torch.index_select(tensor, 0, positions, out=out)
        batch = [out.to(CUDA, non_blocking=True) for out in pinned]
        self._copied[self._turn].record()
        return batch


def rows(gib: int) -> None:
    """Rows of one column, of various lengths."""
    capacity = gib * 1024
    store = gpu.Store({"x": ("uint8", (256,))}, capacity=capacity, max_steps=4096)
    ones = np.random.default_rng(0).integers(0, 255, (4096, 256), dtype=np.uint8)
    begin = time.perf_counter()
    for _ in range(capacity):
        store.insert({"x": ones})
    print(f"inserted {gib} GiB in {time.perf_counter() - begin:.1f} s")
    begin = time.perf_counter()
    first = store.loader(1, {"x": gpu.Window(0, 1)}, framework="torch", device=CUDA)
    print(f"the first loader took {time.perf_counter() - begin:.2f} s (registration of the memory)")
    flat = torch.ones(gib << 30, dtype=torch.uint8)
    for size in (256, 1024, 4096, 16384, 65536, 262144, 1 << 20):
        data = flat.view(-1, size)
        for batch in (512, 4096):
            if size * batch > 1 << 30:
                continue
            length = size // 256
            for prefetch in (0, 2):
                windows = {"x": gpu.Window(-length, length)}
                loader = store.loader(batch, windows, steps="last", framework="torch", device=CUDA, prefetch=prefetch)
                report(f"rows {size:7} batch {batch:5} relive.gpu prefetch={prefetch}", lambda loader=loader: next(loader), size * batch)
                loader.close()
            gathered = Gathered([data], batch)
            report(f"rows {size:7} batch {batch:5} torch index_select", lambda g=gathered, b=batch, d=data: g(torch.randint(len(d), (b,))), size * batch)
    first.close()
    store.close()


def windows() -> None:
    """Windows of 20 steps of 5 columns."""
    trajectories = 8192
    store = gpu.Store({name: ("float32", shape) for name, shape in COLUMNS.items()}, capacity=trajectories, max_steps=LENGTH)
    for _ in range(trajectories):
        store.insert({name: np.ones((LENGTH, *shape), np.float32) for name, shape in COLUMNS.items()})
    spans = {name: gpu.Window(1 - STEPS, STEPS) for name in COLUMNS}
    data = {name: torch.ones((trajectories * LENGTH, *shape)) for name, shape in COLUMNS.items()}
    step = 4 * sum(int(np.prod(shape)) for shape in COLUMNS.values())
    for batch in (64, 512, 4096):
        size = batch * STEPS * step
        for sampling in ("uniform", "prioritized"):
            for prefetch in (0, 2):
                loader = store.loader(batch, spans, sampling=sampling, framework="torch", device=CUDA, prefetch=prefetch)
                report(f"windows batch {batch:5} relive.gpu {sampling} prefetch={prefetch}", lambda loader=loader: next(loader), size)
                loader.close()
        gathered = Gathered(list(data.values()), batch * STEPS)

        def select(gathered: Gathered = gathered, batch: int = batch) -> object:
            begin = torch.randint(trajectories, (batch, 1)) * LENGTH + torch.randint(LENGTH - STEPS, (batch, 1))
            return gathered((begin + torch.arange(STEPS)).view(-1))

        report(f"windows batch {batch:5} torch index_select", select, size)
        if importlib.util.find_spec("torchrl") is not None:
            torchrl(data, trajectories, batch, size)


def torchrl(data: dict[str, torch.Tensor], trajectories: int, batch: int, size: int) -> None:
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer

    sampler = SliceSampler(num_slices=batch, traj_key="trajectory", cache_values=True, strict_length=True)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(trajectories * LENGTH), sampler=sampler, batch_size=batch * STEPS, pin_memory=True, prefetch=3)
    numbers = torch.arange(trajectories).repeat_interleave(LENGTH)
    buffer.extend(TensorDict({**data, "trajectory": numbers}, batch_size=[trajectories * LENGTH]))
    report(f"windows batch {batch:5} torchrl SliceSampler", lambda: buffer.sample().to(CUDA, non_blocking=True), size)


def interference() -> None:
    """Measures matrix products while a loader runs, and the loader while the products run."""
    store = gpu.Store({"x": ("uint8", (256,))}, capacity=2048, max_steps=4096)
    for _ in range(2048):
        store.insert({"x": np.ones((4096, 256), np.uint8)})
    a, b = (torch.randn(8192, 8192, device=CUDA, dtype=torch.bfloat16) for _ in range(2))

    def products(count: int = 60) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        for _ in range(count):
            a @ b
        end.record()
        end.synchronize()
        return 2 * 8192**3 * count / begin.elapsed_time(end) / 1e9

    for size in (1024, 16384):
        spans = {"x": gpu.Window(-(size // 256), size // 256)}
        loader = store.loader(4096, spans, steps="last", framework="torch", device=CUDA, prefetch=2)
        ended, batches = threading.Event(), 0

        def load(loader: gpu.Loader = loader, ended: threading.Event = ended) -> None:
            nonlocal batches
            stream = torch.cuda.Stream(CUDA)  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream):
                while not ended.is_set():
                    next(loader)
                    batches += 1
                    if batches % 4 == 0:
                        stream.synchronize()

        products(100)
        alone = [products() for _ in range(5)]
        thread = threading.Thread(target=load)
        thread.start()
        time.sleep(0.5)
        before, begin = batches, time.perf_counter()
        beside = [products() for _ in range(5)]
        rate = (batches - before) * 4096 * size / (time.perf_counter() - begin) / 1e9
        ended.set()
        thread.join()
        after = [products() for _ in range(5)]
        best = max(float(np.median(alone)), float(np.median(after)))
        lost = 1 - float(np.median(beside)) / best
        print(f"matmul: {np.median(alone):.0f} TFLOP/s alone, {np.median(beside):.0f} beside rows of {size} bytes at {rate:.1f} GB/s, {np.median(after):.0f} after: {lost:.1%} slower")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, default=16)
    parser.add_argument("--only", default="windows,rows,interference")
    options = parser.parse_args()
    for part in options.only.split(","):
        {"rows": lambda: rows(options.gib), "windows": windows, "interference": interference}[part]()


if __name__ == "__main__":
    main()
