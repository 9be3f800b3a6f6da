"""Measures the parts of agents in Python separately: environments in worker processes, compared with gymnasium's own
vectors; the transfer of weights to actors; dataflow items from Python shards; and the import of the package.

    python benches/agents/parts.py --rounds 5

Requires a Python with the package, PyTorch and gymnasium; without `mujoco`, the MuJoCo rows are left out. Figures are
medians, with minimum and maximum.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gymnasium
import numpy as np
import torch

from relive import flow, rl
from relive.rl import torch as rlt
from relive.rl.vector import ProcessVectorEnv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))


class Trivial(gymnasium.Env[Any, Any]):
    """An environment without computation, so that only the communication is measured."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self._seen, self._steps = np.zeros(4, np.float32), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._steps = 0
        return self._seen, {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        return self._seen, 1.0, self._steps % 200 == 0, False, {}


def ant() -> Any:
    return gymnasium.make("Ant-v5")


def lander() -> Any:
    return gymnasium.make("LunarLander-v3")


def steps_per_s(envs: Any, steps: int) -> float:
    """Returns the steps per second of all environments together, with actions that were drawn in advance."""
    envs.reset(seed=1)
    actions = [envs.action_space.sample() for _ in range(16)]
    for step in range(steps // 10):
        envs.step(actions[step % 16])
    began = time.perf_counter()
    for step in range(steps):
        envs.step(actions[step % 16])
    took = time.perf_counter() - began
    envs.close()
    return envs.num_envs * steps / took


def vectors(make: Callable[[], Any], count: int, workers: int) -> dict[str, Callable[[int], float]]:
    """Measures gymnasium's and Relive's vector environments with one environment per process."""
    fns = [make] * count
    return {
        "Relive": lambda steps: steps_per_s(ProcessVectorEnv(fns, workers=workers), steps),
        "gymnasium.vector.AsyncVectorEnv": lambda steps: steps_per_s(gymnasium.vector.AsyncVectorEnv(fns), steps),
        "gymnasium.vector.SyncVectorEnv": lambda steps: steps_per_s(gymnasium.vector.SyncVectorEnv(fns), steps),
    }


class Wide(rlt.Policy):
    """Acts without a network, and records when it received weights."""

    loaded: list[float] = []

    def load(self, weights: Any) -> None:
        super().load(weights)
        Wide.loaded.append(time.perf_counter())

    def act(self, observations: Any, starts: Any) -> Any:
        return np.zeros(len(observations), np.int64)


class Rewriter(rlt.Learner):
    """Changes all weights with each batch, and records the times of requests for weights."""

    asked: list[float] = []

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module

    def learn(self, rollout: Any) -> None:
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter += 1e-3

    def weights(self) -> Any:
        Rewriter.asked.append(time.perf_counter())
        return super().weights()


class WideAgent:
    """An agent with 10 MB of parameters, which are published at each step of eight environments."""

    experience = rl.Rollouts(steps=1, environments=8)

    def policy(self, spec: Any, context: Any) -> Wide:
        return Wide(module())

    def learner(self, spec: Any, seed: int) -> Rewriter:
        return Rewriter(module())


def module() -> torch.nn.Module:
    return torch.nn.Linear(1_581, 1_581)


def weights_ms(updates: int) -> float:
    """Returns the time from the request for weights until the last of eight actors has them: the median over all
    updates."""
    Wide.loaded.clear(), Rewriter.asked.clear()
    rl.run(WideAgent(), "catch/0", actors=8, on="threads", steps=8 * updates, progress=False)
    took = []
    for asked, until in zip(Rewriter.asked, [*Rewriter.asked[1:], float("inf")], strict=True):
        loads = [loaded for loaded in Wide.loaded if asked < loaded < until]
        if len(loads) == 8:
            took.append(1e3 * (max(loads) - asked))
    if len(took) < updates // 2:
        raise RuntimeError(f"{len(took)} of {updates} updates reached all actors")
    return statistics.median(took)


class Count:
    """A shard that yields a given number of items."""

    def __init__(self, items: int) -> None:
        self.items = items

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.items))


def items_per_s(on: Any, items: int) -> float:
    """Returns the items per second of two shards of Python objects, which pass through a function and are gathered in
    order of arrival."""
    shards = flow.from_iterators([Count(items), Count(items)], on=on).for_each(increased)
    began = time.perf_counter()
    count = sum(1 for _ in shards.gather_async(num_async=64))
    took = time.perf_counter() - began
    if count != 2 * items:
        raise RuntimeError(f"{count} of {2 * items} items came")
    return count / took


def increased(item: int) -> int:
    return item + 1


class Arrays:
    """A shard that yields an array a given number of times, in items with another value."""

    def __init__(self, items: int, size: int) -> None:
        self.items, self.size = items, size

    def __iter__(self) -> Iterator[dict[str, Any]]:
        array = np.ones(self.size, np.uint8)
        return ({"observation": array, "reward": 1.0} for _ in range(self.items))


def array_mb_per_s(items: int, size: int) -> float:
    """Returns the megabytes per second of arrays of two shards in processes, after the first of them."""
    arrays = iter(flow.from_iterators([Arrays(items, size), Arrays(items, size)], on="processes").gather_async())
    next(arrays)
    began = time.perf_counter()
    count = sum(1 for _ in arrays)
    return count * size / (time.perf_counter() - began) / 1e6


def imported() -> dict[str, float]:
    """Returns the seconds and MiB that `import relive` takes."""
    code = "import time; t = time.perf_counter(); import relive; t = time.perf_counter() - t;" \
        "kib = next(int(row.split()[1]) for row in open('/proc/self/status') if row.startswith('VmRSS')); print([t, kib / 1024])"
    found = [json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout) for _ in range(5)]
    return {"s": statistics.median(s for s, _ in found), "MiB": statistics.median(mib for _, mib in found)}


def measured(name: str, unit: str, contenders: dict[str, Callable[[], float]], rounds: int) -> None:
    found: dict[str, list[float]] = {contender: [] for contender in contenders}
    for _ in range(rounds):
        for contender, run in contenders.items():
            found[contender].append(run())
    print(f"\n{name} ({unit})")
    own = statistics.median(next(iter(found.values())))
    for contender, figures in found.items():
        median = statistics.median(figures)
        print(f"  {contender:<34} {median:>12,.1f} ({min(figures):,.1f} to {max(figures):,.1f}), {own / median:5.2f} x", flush=True)


def rows(quick: bool) -> Iterable[tuple[str, str, dict[str, Callable[[], float]]]]:
    """Yields all rows: name, unit, contenders."""
    scale = 1 if quick else 10
    sizes = {"a trivial environment, 64 in 2 processes": (Trivial, 64, 2, 300), "8 LunarLander-v3 in 2 processes": (lander, 8, 2, 300),
             "8 Ant-v5 (MuJoCo) in 2 processes": (ant, 8, 2, 60)}
    for name, (make, count, workers, steps) in sizes.items():
        if can(make):
            contenders = vectors(make, count, workers)
            yield name, "steps/s", {who: lambda run=run, steps=steps: run(scale * steps) for who, run in contenders.items()}
    yield "10 MB of weights to 8 actors in threads, at each update", "ms", {"Relive": lambda: weights_ms(30 * scale)}
    yield "flow, gather_async over two Python shards in threads", "items/s", {"Relive": lambda: items_per_s("threads", 20_000 * scale)}
    yield "flow, gather_async over two Python shards in processes", "items/s", {"Relive": lambda: items_per_s("processes", 20_000 * scale)}
    yield "flow, arrays of 4 MiB from two Python shards in processes", "MB/s", {"Relive": lambda: array_mb_per_s(50 * scale, 1 << 22)}


def can(make: Callable[[], Any]) -> bool:
    """Returns whether the environment can be created here; prints the reason if not."""
    try:
        make().close()
    except (gymnasium.error.Error, ImportError) as why:
        print(f"left out: {make.__name__}: {why}")
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, to see that it runs")
    parser.add_argument("--only", default="", help="rows whose name has this text")
    options = parser.parse_args()
    from machine import machine

    torch.set_num_threads(1)
    print(machine())
    print("import relive:", imported())
    for name, unit, contenders in rows(options.quick):
        if options.only in name:
            measured(name, unit, contenders, options.rounds)


if __name__ == "__main__":
    main()
