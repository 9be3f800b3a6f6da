"""Relive's Rust client, controlled through the program `relive-interop`."""

from __future__ import annotations

import json
import pathlib
import subprocess

import numpy as np

from .servers import die_with_parent
from .wait import Background

_NUMPY_NAMES = {"float": "float32", "double": "float64", "half": "float16"}


class ClientError(Exception):
    """An error from the client; `kind` is the client's name for it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Sample:
    """One sample, with its columns as numpy arrays."""

    def __init__(self, answer: dict) -> None:
        self.columns = [_array(column) for column in answer.pop("columns")]
        self.info = answer

    def __repr__(self) -> str:
        return f"Sample({self.info}, {self.columns})"


class OurClient:
    """One process with one client; the methods have the names of the program's commands."""

    def __init__(self, binary: pathlib.Path, address: str, timeout_ms: int = 20_000) -> None:
        self._process = subprocess.Popen(
            [str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            preexec_fn=die_with_parent)
        self.call("connect", address=address, timeout_ms=timeout_ms)

    def call(self, op: str, patience_s: float = 60.0, **arguments):
        self._process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        line = Background(self._process.stdout.readline).result(patience_s)
        assert line, f"relive-interop ended with {self._process.wait()}"
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise ClientError(**answer["error"])
        return answer

    def insert(self, step, priorities: dict[str, float]) -> None:
        self.call("insert", step=_nest(step), priorities=priorities)

    def sample(self, table: str, count: int = 1, timeout_ms: int = 10_000) -> list[Sample]:
        return [Sample(answer) for answer in self.call("sample", table=table, count=count, timeout_ms=timeout_ms)]

    def values(self, table: str, count: int = 1) -> list[float]:
        return [float(sample.columns[0].flat[-1]) for sample in self.sample(table, count)]

    def tables(self) -> dict[str, dict]:
        return {table["name"]: table for table in self.call("server_info", timeout_ms=10_000)["tables"]}

    def writer(self, num_keep_alive_refs: int, chunk_length: int | None = None, validate_items: bool = True,
               codec: str | None = None) -> None:
        self.call("writer", num_keep_alive_refs=num_keep_alive_refs, chunk_length=chunk_length,
                  validate_items=validate_items, codec=codec)

    def append(self, step, partial: bool = False) -> None:
        self.call("append", step=_nest(step), partial=partial)

    def create_item(self, table: str, priority: float, *columns: dict) -> int:
        return self.call("create_item", table=table, priority=priority, columns=columns)

    def flush(self, timeout_ms: int = 10_000) -> None:
        self.call("flush", timeout_ms=timeout_ms)

    def end_episode(self, clear: bool = True, timeout_ms: int = 10_000) -> None:
        self.call("end_episode", clear=clear, timeout_ms=timeout_ms)

    def sampler(self, table: str, **options) -> None:
        self.call("sampler", table=table, options=options)

    def next(self, timeout_ms: int = 10_000) -> Sample | None:
        """Returns the sampler's next sample, or None if the sampler has ended."""
        answer = self.call("next", timeout_ms=timeout_ms)
        return None if answer == "end" else Sample(answer)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()


def step(path: str, position: int) -> dict:
    """Returns a column of one step, without a leading dimension."""
    return {"path": path, "step": position}


def last(path: str, count: int) -> dict:
    """Returns a column of the newest steps."""
    return {"path": path, "range": [-count, None, 1]}


def rows(path: str, *positions: int) -> dict:
    return {"path": path, "rows": list(positions)}


def strided(path: str, start: int, stop: int | None, stride: int) -> dict:
    return {"path": path, "range": [start, stop, stride]}


def _nest(value) -> dict:
    if isinstance(value, dict):
        return {"dict": {name: _nest(inner) for name, inner in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [_nest(inner) for inner in value]}
    if isinstance(value, list):
        return {"list": [_nest(inner) for inner in value]}
    return {"leaf": _tensor(np.asarray(value))}


def _tensor(array: np.ndarray) -> dict:
    if array.dtype.kind in "OSU":
        data = [element.encode().hex() if isinstance(element, str) else bytes(element).hex() for element in array.flat]
        return {"dtype": "string", "shape": list(array.shape), "data": data}
    return {"dtype": array.dtype.name, "shape": list(array.shape), "data": [array.tobytes().hex()]}


def _array(value: dict) -> np.ndarray:
    runs = [bytes.fromhex(run) for run in value["data"]]
    if value["dtype"] == "string":
        array = np.empty(len(runs), object)
        array[:] = runs
        return array.reshape(value["shape"])
    dtype = np.dtype(_NUMPY_NAMES.get(value["dtype"], value["dtype"]))
    return np.frombuffer(b"".join(runs), dtype).reshape(value["shape"])
