"""Codecs that writers choose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive
from relive import structured

Connect = Callable[..., relive.Client]

CODECS = ("auto", "raw", "snappy", "lz4", "zstd")

FIRST = np.arange(400, dtype=np.int32) // 50


def fifo_table() -> relive.Table:
    return uniform_table(sampler=relive.selectors.Fifo(), max_times_sampled=1)


def stored_bytes(client: relive.Client) -> int:
    return int(client.status()["encoded_bytes"])


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_returns_the_same_data(connect: Connect, codec: str) -> None:
    client = connect(fifo_table())
    assert codec in ("auto", *client.status()["codecs"])
    with client.trajectory_writer(3, chunk_length=3, codec=codec) as writer:
        for step in range(3):
            writer.append({"picture": FIRST + step, "name": f"step {step}"})
        writer.create_item("table", 1.0, {name: column[:] for name, column in writer.history.items()})
    raw = 3 * FIRST.nbytes
    assert stored_bytes(client) > raw if codec == "raw" else stored_bytes(client) < raw / 2
    batch = next(iter(client.batches("table", 1, timeout=PATIENCE_S)))
    np.testing.assert_array_equal(batch.data["picture"][0], [FIRST, FIRST + 1, FIRST + 2])
    assert batch.data["name"].tolist() == [[b"step 0", b"step 1", b"step 2"]]


@pytest.mark.parametrize("codec", CODECS)
def test_other_writers_support_codecs_as_well(connect: Connect, codec: str) -> None:
    client = connect(fifo_table())
    config = structured.create_config(structured.pattern_from_transform([None], lambda steps: steps[0][-2:]), "table")
    with client.structured_writer([config], codec=codec) as writer:
        writer.append([FIRST])
        writer.append([FIRST + 1])
    with client.writer(2, codec=codec) as old:
        old.append([FIRST + 2])
        old.append([FIRST + 3])
        old.create_item("table", 2, 1.0)
    samples = client.sample("table", 2, emit_timesteps=False, timeout=PATIENCE_S)
    first, second = [np.asarray(sample.data[0]) for sample in samples]
    np.testing.assert_array_equal(first, [FIRST, FIRST + 1])
    np.testing.assert_array_equal(second, [FIRST + 2, FIRST + 3])


def test_unknown_codecs_are_refused(connect: Connect) -> None:
    client = connect()
    config = structured.create_config(structured.pattern_from_transform([None], lambda steps: steps[0][-1:]), "table")
    wanted = r"codec must be 'auto' or one of 'raw', 'snappy', 'lz4', 'zstd', got 'gzip'"
    for make in (
        lambda: client.trajectory_writer(1, codec="gzip"),
        lambda: client.structured_writer([config], codec="gzip"),
        lambda: client.writer(1, codec="gzip"),
    ):
        with pytest.raises(ValueError, match=wanted):
            make()
    with pytest.raises(TypeError):
        client.trajectory_writer(1, codec=None)  # type: ignore[arg-type]
