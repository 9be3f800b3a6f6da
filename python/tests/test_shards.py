"""Sharded tables: clients use them like any other table, over every transport."""

import pathlib
import threading
from typing import Any

import numpy as np
import pytest

import relive


def table(shards: Any = 3, **changed: Any) -> relive.Table:
    rules: dict[str, Any] = {
        "name": "t",
        "sampler": relive.selectors.Prioritized(1.0),
        "remover": relive.selectors.Fifo(),
        "max_size": 1_000,
        "rate_limiter": relive.rate_limiters.MinSize(5),
    } | changed
    return relive.Table(**rules, shards=shards)


@pytest.mark.parametrize("transport", ["in-process", "tcp", "shm"])
def test_clients_see_one_table(transport: str) -> None:
    wide = table()
    with relive.Server([wide]) as server:
        client = relive.Client(f"localhost:{server.port}", transport=transport)
        with client.trajectory_writer(num_keep_alive_refs=1) as writer:
            for step in range(60):
                writer.append({"x": np.full(4, step, np.float32)})
                writer.create_item("t", float(step % 4), {"x": writer.history["x"][-1:]})
            writer.flush()
        assert client.transport == transport
        info = client.server_info()["t"]
        assert (info.current_size, info.num_episodes, info.max_size) == (60, 1, 1_000)
        assert client.status()["tables"]["t"].shards == 3
        with client.batches("t", batch_size=64) as batches:
            batch = next(batches)
        steps = np.asarray(batch.data["x"]).reshape(64, 4)[:, 0].astype(int)
        assert set(steps % 4) <= {1, 2, 3}, "items of priority 0 are not picked"
        np.testing.assert_allclose(batch.info.probability, (steps % 4) / 90.0)
        assert set(np.asarray(batch.info.table_size)) == {60}
        keys = np.asarray(batch.info.key)
        client.update_priorities("t", keys, np.zeros(len(keys)))
        client.mutate_priorities("t", deletes=[int(keys[0])])
        assert client.server_info()["t"].current_size == 59
        client.reset("t")
        assert wide.info.current_size == 0


def test_a_sampler_waits_for_all_shards_together() -> None:
    wide = table()
    with relive.Server([wide]) as server:
        client = server.localhost_client()
        taken: list[Any] = []
        reader = threading.Thread(target=lambda: taken.extend(client.sample("t", num_samples=2)))
        reader.start()
        for number in range(5):
            assert not wide.can_sample(1)
            client.insert(np.float32(number), {"t": 1.0})
        reader.join(timeout=60)
        assert len(taken) == 2


@pytest.mark.parametrize("format", ["relive", "reverb"])
def test_checkpoints_fit_any_number_of_shards(tmp_path: pathlib.Path, format: str) -> None:
    path = str(tmp_path / "root")
    for shards in (1, 4, 1):
        checkpointer = relive.checkpointers.DefaultCheckpointer(path, format=format)
        wide = table(shards)
        with relive.Server([wide], checkpointer=checkpointer) as server:
            client = server.localhost_client()
            if not wide.info.current_size:
                for number in range(50):
                    client.insert(np.float32(number), {"t": 1.0})
            info = wide.info
            assert (info.current_size, info.shards, info.num_episodes) == (50, shards, 50)
            client.checkpoint()


def test_unsupported_sharded_tables_are_refused() -> None:
    with pytest.raises(ValueError, match=r"its sampler Fifo needs all items in one place; use Uniform or Prioritized"):
        table(sampler=relive.selectors.Fifo())
    with pytest.raises(ValueError, match=r"use MinSize, or use shards = 1"):
        table(rate_limiter=relive.rate_limiters.Queue(5))
    with pytest.raises(ValueError, match=r"shards \(0\) must be from 1 to 64"):
        table(0)
    with pytest.raises(TypeError, match="shards is '2', but it must be a whole number"):
        table("2")
    assert table(2).replace(name="other").info.shards == 2
    assert table(2).replace(shards=1).info.shards == 1
