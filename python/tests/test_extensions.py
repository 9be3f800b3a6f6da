"""relive.extensions: their effects on the items of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import relive
from conftest import uniform_table
from relive.extensions import InsertOnFirstSample, PriorityDiffusion, TableExtensionBase


def table(name: str, *extensions: TableExtensionBase) -> relive.Table:
    return relive.Table(
        name=name,
        sampler=relive.selectors.MaxHeap(),
        remover=relive.selectors.Fifo(),
        max_size=100,
        rate_limiter=relive.rate_limiters.MinSize(1),
        extensions=extensions,
    )


def fill(client: relive.Client, name: str, priorities: list[float]) -> list[int]:
    """Inserts an item for each step of one episode; returns their keys."""
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        keys = []
        for step, priority in enumerate(priorities):
            writer.append(np.int64(step))
            keys.append(writer.create_item(name, priority, writer.history[-1:]))
    return keys


def test_a_sampled_item_is_copied_once(connect: Callable[..., relive.Client]) -> None:
    client = connect(table("source", InsertOnFirstSample("target")), table("target"))
    keys = fill(client, "source", [1.0, 3.0, 2.0])
    for _ in range(2):
        (sample,) = client.sample("source", emit_timesteps=False)
        assert sample.info.key == keys[1]
    (copy,) = client.sample("target", emit_timesteps=False, timeout=10.0)
    assert copy.info.key == keys[1]
    assert copy.info.priority == 3.0
    assert copy.data[0].tolist() == [1]
    assert client.server_info()["target"].current_size == 1


def test_priorities_spread_to_neighbors(connect: Callable[..., relive.Client]) -> None:
    client = connect(table("steps", PriorityDiffusion(decay=0.5, before=2, after=1)))
    keys = fill(client, "steps", [0.0] * 6)
    client.update_priorities("steps", keys[3:4], [8.0])
    found = {item.key: item.priority for item in client.items("steps")}
    assert [found[key] for key in keys] == [0.0, 2.0, 4.0, 8.0, 4.0, 0.0]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: InsertOnFirstSample(""), "target_table"),
        (lambda: PriorityDiffusion(1.5, before=1), "decay"),
        (lambda: PriorityDiffusion(float("nan"), before=1), "decay"),
        (lambda: PriorityDiffusion(0.5, before=-1), "before"),
        (lambda: PriorityDiffusion(0.5, before=1, after=1025), "after"),
    ],
)
def test_numbers_out_of_range(make: Callable[[], Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PriorityDiffusion(None, 1), "decay is None, but it must be a number"),
        (lambda: PriorityDiffusion(0.5, 0.5), "before is 0.5, but it must be a whole number"),
        (lambda: InsertOnFirstSample(5), "target_table must be a string, got 5"),
        (lambda: uniform_table(extensions=None), "extensions must be a list of extensions from relive.extensions, got None"),
        (lambda: uniform_table(extensions="x"), "extensions must be a list of extensions from relive.extensions, got 'x'"),
    ],
)
def test_arguments_of_wrong_types(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        make()


def test_an_extension_is_a_description() -> None:
    extension = PriorityDiffusion(0.5, before=1)
    assert extension == PriorityDiffusion(0.5, 1, 0)
    table("first", extension)
    table("second", extension).replace()


def test_custom_extensions_can_subclass_these() -> None:
    asked: list[str] = []

    class Both(TableExtensionBase):
        def build_internal_extensions(self, table_name: str) -> Any:
            asked.append(table_name)
            return InsertOnFirstSample("target").build_internal_extensions(table_name)

    table("source", Both())
    assert asked == ["source"]
