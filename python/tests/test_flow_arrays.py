"""Dataflow of large arrays from shards in processes, which are sent beside the pickles of their items."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pathlib
import pickle
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from relive import flow
from relive.flow import _parcels

LARGE = 300_000


class Kept:
    """An item with arrays of all kinds among other values."""

    def __init__(self, number: int) -> None:
        self.number = number
        whole = np.full((2, LARGE), number, np.int16)
        read_only = np.full(LARGE, number, np.float32)
        read_only.flags.writeable = False
        self.arrays: dict[str, Any] = {
            "whole": whole,
            "again": whole,
            "fortran": np.asfortranarray(np.arange(2 * LARGE).reshape(2, LARGE) + number),
            "strided": whole[:, ::2],
            "read-only": read_only,
            "small": np.full(3, number),
            "empty": np.zeros((0, LARGE)),
            "objects": np.array([number, "text"], object),
        }


def made(count: int) -> Iterator[Any]:
    for number in range(count):
        # Small items stand between the large ones, and are sent together with one that follows.
        yield from (number, -number, Kept(number))


@pytest.mark.parametrize("gathered", ["gather_sync", "gather_async"])
def test_arrays_arrive_as_they_were_sent(gathered: str) -> None:
    items = getattr(flow.from_iterators([functools.partial(made, 4)], on="processes"), gathered)()
    for number in range(4):
        assert [next(items), next(items)] == [number, -number]
        kept, expected = next(items), Kept(number)
        assert kept.number == number and kept.arrays["whole"] is kept.arrays["again"]
        for name, array in expected.arrays.items():
            found = kept.arrays[name]
            np.testing.assert_array_equal(found, array, strict=True)
            assert (found.flags.writeable, found.flags.f_contiguous) == (array.flags.writeable, array.flags.f_contiguous), name
    assert next(items, None) is None


def reused(count: int) -> Iterator[Any]:
    array = np.zeros(LARGE)
    for number in range(count):
        array += 1
        yield number, array


def test_a_shard_may_change_an_array_after_its_item() -> None:
    for number, array in flow.from_iterators([functools.partial(reused, 50)], on="processes").gather_async():
        assert (array == number + 1).all()
        # The array belongs to the consumer.
        array[:] = -1


class Weighted:
    """Yields the sum of its weights."""

    def __init__(self) -> None:
        self.weights = np.zeros(LARGE)

    def set_weights(self, weights: Any, *, scale: float) -> None:
        self.weights = weights["layer"]
        self.weights *= scale

    def __iter__(self) -> Weighted:
        return self

    def __next__(self) -> float:
        return float(self.weights.sum())


def test_calls_of_methods_may_have_large_arguments() -> None:
    items = flow.from_actors([Weighted()], on="processes").gather_sync().zip_with_source_actor()
    shard, total = next(items)
    assert total == 0
    for value in (1.0, 2.0):
        weights = {"layer": np.full(LARGE, value)}
        shard.set_weights(weights, scale=2.0)
        assert next(items)[1] == 2 * value * LARGE
        assert (weights["layer"] == value).all(), "the caller keeps its own array"


def dies_within_an_item(to: pathlib.Path) -> Iterator[Any]:
    to.write_text(str(os.getpid()))
    yield 1
    # Half of the arrays have been sent when the process is killed.
    threading.Timer(0.0, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        yield np.zeros(50_000_000)


def test_a_shard_that_dies_within_an_item_is_reported(tmp_path: pathlib.Path) -> None:
    shards = [functools.partial(dies_within_an_item, tmp_path / "pid"), functools.partial(made, 1)]
    items = flow.from_iterators(shards, on="processes").gather_async()
    found: list[Any] = []
    with pytest.raises(RuntimeError, match="ended with signal 9"):
        while True:
            found.append(items.next(timeout=60))
    found.extend(items)
    assert [item for item in found if isinstance(item, int)].count(1) == 1
    assert any(isinstance(item, Kept) for item in found)


def test_a_parcel_may_be_pickled_as_a_whole() -> None:
    # As it is for an actor of Ray.
    kept = _parcels.unpack(pickle.loads(pickle.dumps(_parcels.pack(Kept(3)), pickle.HIGHEST_PROTOCOL)))
    for name, array in Kept(3).arrays.items():
        np.testing.assert_array_equal(kept.arrays[name], array, strict=True)
        assert kept.arrays[name].flags.writeable == array.flags.writeable, name


def test_a_transfer_of_many_arrays_is_whole() -> None:
    ours, theirs = multiprocessing.Pipe()
    arrays = [np.full(_parcels._LARGE_BYTES, number % 256, np.uint8) for number in range(2 * _parcels._MOST_PARTS + 1)]
    sending = threading.Thread(target=_parcels.send, args=(ours, "items", 7, [b"first", _parcels.pack(arrays)]))
    sending.start()
    kind, content, (first, parcel) = _parcels.receive(theirs)
    sending.join()
    assert (kind, content, first) == ("items", 7, b"first")
    for array, found in zip(arrays, _parcels.unpack(parcel), strict=True):
        assert array[0] == found[0] and array[-1] == found[-1] and len(array) == len(found)
    ours.close()
    with pytest.raises(EOFError):
        _parcels.receive(theirs)
