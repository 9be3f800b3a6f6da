"""Trajectories from the tables of a Relive server."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from relive import nest
from relive.client import Client
from relive.errors import InvalidArgumentError
from relive.gpu._given import text
from relive.gpu._group import Group
from relive.gpu._ranks import part_of
from relive.server import Server

# The number of items that a request reads.
_ITEMS_AT_ONCE = 256


Columns = dict[str, npt.NDArray[Any]]


def trajectories_of(source: Any, table: str, group: Group | None) -> tuple[int, list[Columns], Columns]:
    """Reads this rank's part of the items of a table in the order of insertion, each with its columns by name. Nothing
    is sampled, and the table stays unchanged.

    Returns:
      The number of the part's first item, the items of the part, and the columns of the table's first item.

    Raises:
      InvalidArgumentError: the source has no tables, the table is empty, or an item has columns of different lengths.
      NotFoundError: there is no such table.
    """
    client = _client(source, text("table", table))
    keys = [item.key for item in client.items(table)]
    part = part_of(group, len(keys))
    found = _items(client, table, keys[part])
    sample = found if part.start == 0 else _items(client, table, keys[:1])
    if not (sample or found):
        raise InvalidArgumentError(f"table {table!r} has no items")
    return part.start, found, (sample or found)[0]


def _items(client: Client, table: str, keys: list[int]) -> list[Columns]:
    found = []
    for start in range(0, len(keys), _ITEMS_AT_ONCE):
        items = client.get_items(table, keys[start : start + _ITEMS_AT_ONCE])
        # Items without a value were deleted after their keys were read.
        found += [_columns_of(item.data, item.info.key) for item in items if item is not None]
    return found


def _client(source: Any, table: str) -> Client:
    if isinstance(source, Server):
        return source.localhost_client()
    if isinstance(source, str):
        return Client(source)
    if isinstance(source, Client):
        return source
    raise InvalidArgumentError(
        f"a {type(source).__name__} has no table {table!r}; give a relive.Client, a relive.Server or the address of a server, or omit table="
    )


def _columns_of(data: Any, key: int) -> Columns:
    columns = {"/".join(map(str, path)): np.asarray(leaf) for path, leaf in nest.flatten_with_path(data)}
    lengths = {array.shape[:1] for array in columns.values()}
    if len(lengths) != 1 or lengths == {()}:
        shapes = {name: array.shape for name, array in columns.items()}
        raise InvalidArgumentError(
            f"item {key} has columns of the shapes {shapes}; an item becomes a trajectory if all its columns have the same number of steps"
        )
    return columns
