"""The same seed, rules and calls give the same samples."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import uniform_table

import relive
from relive import selectors


def sampled(server: relive.Server, *, table: str = "table", ways: str = "batches") -> list[int]:
    """Returns the samples of a table of a hundred items, before and after changes of some priorities."""
    client = server.localhost_client()
    with client.trajectory_writer(100) as writer:
        writer.append_sequence({"step": np.arange(100)})
        writer.create_window_items(table, np.arange(1.0, 101.0), np.arange(-100, 0))
    if ways == "sample":
        return [int(sample.data[0][0]) for sample in client.sample(table, 50, emit_timesteps=False)]
    drawn = []
    with client.batches(table, batch_size=16, prefetch=0, max_batches=8) as batches:
        for batch in batches:
            client.update_priorities(table, batch.info.key, np.full(16, 3.0))
            drawn.extend(batch.data["step"][:, 0].tolist())
    return drawn


SAMPLERS = [selectors.Uniform(), selectors.Prioritized(0.6), selectors.WithoutReplacement()]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
@pytest.mark.parametrize("ways", ["batches", "sample"])
def test_tables_of_one_seed_give_the_same_samples(sampler: relive.selectors.ItemSelector, ways: str) -> None:
    def drawn(seed: int | None) -> list[int]:
        with relive.Server([uniform_table(sampler=sampler, seed=seed)]) as server:
            return sampled(server, ways=ways)

    assert drawn(7) == drawn(7) != drawn(8)
    assert drawn(None) != drawn(None)


def test_a_table_seed_overrides_the_seed_of_the_server() -> None:
    def drawn(seed: int, own: int | None) -> tuple[list[int], list[int]]:
        with relive.Server([uniform_table(seed=own), uniform_table("other")], seed=seed) as server:
            return sampled(server), sampled(server, table="other")

    assert drawn(1, None) == drawn(1, None)
    first, second = drawn(1, None)
    assert first != second
    assert drawn(1, 5)[0] == drawn(2, 5)[0]
    # A table's own seed does not affect other tables.
    assert drawn(1, 5)[1] == second


def test_the_seed_of_an_added_table_applies() -> None:
    def drawn(transport: str) -> list[int]:
        with relive.Server([uniform_table()]) as server:
            client = relive.Client(f"localhost:{server.port}", transport=transport)
            client.add_table(uniform_table("added", seed=3))
            return sampled(server, table="added")

    assert drawn("in-process") == drawn("tcp")


def test_invalid_seeds_are_refused() -> None:
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match="seed"):
            uniform_table(seed=wrong)
        with pytest.raises(ValueError, match="seed"):
            relive.Server([uniform_table()], seed=wrong)
    with pytest.raises(TypeError, match="seed"):
        uniform_table(seed="7")
    with pytest.raises(TypeError, match="seed"):
        uniform_table(seed=True)


def test_a_table_that_replaces_another_has_its_seed() -> None:
    table = uniform_table(seed=11)
    with relive.Server([table]) as server:
        first = sampled(server)
    with relive.Server([table.replace()]) as server:
        assert sampled(server) == first
    with relive.Server([table.replace(seed=12)]) as server:
        assert sampled(server) != first


def test_queues_and_stacks_accept_seeds() -> None:
    assert relive.Table.queue("queue", 3, seed=1).name == "queue"
    assert relive.Table.stack("stack", 3, seed=1).name == "stack"
