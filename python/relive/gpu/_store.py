"""The store, in the process that makes it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy.typing as npt

from relive import _native
from relive.errors import InvalidArgumentError
from relive.gpu import _columns, _datasets, _removal
from relive.gpu._reading import Readable
from relive.gpu._removal import Candidates, Removal


@dataclasses.dataclass(frozen=True)
class Inserted:
    """Where a trajectory is."""

    index: int
    generation: int
    """Which of the trajectories that were there one after another."""


class Changed(NamedTuple):
    """What came of a change."""

    applied: int
    """Trajectories that were changed."""
    skipped: int
    """Trajectories that are there no more; where they were to be removed, also those that somebody reads."""


class Saved(NamedTuple):
    """What a save has written."""

    number: int
    """Of the checkpoint; the next one in its folder has the next number."""
    trajectories: int
    written_trajectories: int
    """Those that were written now, and not by an earlier save."""
    written_bytes: int
    removed_files: int
    """Files that nothing needed any more."""


class Status(NamedTuple):
    """What there is to know of an index."""

    state: Literal["free", "writing", "selectable", "pinned", "evicting"]
    """``"selectable"`` has a trajectory, ``"pinned"`` one that somebody reads."""
    generation: int
    length: int
    """Number of steps."""
    weight: float
    """0 if it is not selectable."""
    inserted: int
    """Number of trajectories that were inserted before."""
    sampled: int
    """How often it was in a batch."""
    pins: int
    """How many times it is being read."""


class Store(Readable):
    """Room for trajectories. The process that makes it decides about it; its threads may use it at the same time.

    When it is closed, or its process ends, its name is free again; readers of other processes keep the memory that they have.

    Args:
      columns: by name what a step has: a data type, a pair of data type and shape, or an ``ArraySpec``. Strings cannot be stored.
      capacity: number of trajectories for which there is room. The memory for all of them is taken at once.
      max_steps: most steps of a trajectory.
      removal: which one goes when there is no room for another: ``"fifo"`` the oldest, ``"lifo"`` the newest, ``"lowest_weight"``,
        ``"random"``, ``("max_times_sampled", n)`` each after it was in batches ``n`` times, and if there is none the oldest, or a function
        of :class:`Candidates` that gives the position of one, or ``None`` to keep all. One that is being read stays.
      name: by which other processes :func:`attach`; without it the store is this process's alone.
      max_selectable: most trajectories that there may be, below the capacity.
      seed: of the random removal.
      readers: processes that may read at the same time, this one included; 1 to 1,024.
      huge_pages: whether the system is asked for large pages of memory, which make copies faster.

    Raises:
      InvalidArgumentError: columns or options that make no sense.
      UnavailableError: a living process has a store of this name, or there is not as much shared memory.
      InternalError: the system refused the memory.
    """

    _native: _native.GpuStore

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        capacity: int,
        max_steps: int,
        removal: Removal = "fifo",
        name: str | None = None,
        max_selectable: int | None = None,
        seed: int = 0,
        readers: int = 16,
        huge_pages: bool = True,
    ) -> None:
        for what, value, limit in (
            ("capacity", capacity, 1 << 63), ("max_steps", max_steps, 1 << 32), ("max_selectable", max_selectable, 1 << 63),
            ("readers", readers, 1 << 32),
        ):
            if value is not None and not 1 <= value < limit:
                raise InvalidArgumentError(f"{what} is {value}; it must be 1 to {limit - 1}")
        if not 0 <= seed < 1 << 64:
            raise InvalidArgumentError(f"seed is {seed}; it must be 0 to {(1 << 64) - 1}")
        super().__init__(
            _native.GpuStore(
                _columns.as_native(_columns.columns_of(columns)), max_steps, capacity, _removal.as_native(removal), name=name,
                max_selectable=max_selectable, seed=seed, readers=readers, huge_pages=huge_pages,
            )
        )

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        name: str | None = None,
        removal: Callable[[Candidates], int | None] | None = None,
        capacity: int | None = None,
        max_selectable: int | None = None,
        readers: int = 16,
        huge_pages: bool = True,
    ) -> Store:
        """The store that was saved in a folder: trajectories, weights, generations, who goes next, and the random removal's numbers.

        Args:
          folder: as in :meth:`save`.
          name, readers, huge_pages: as in the class.
          removal, capacity, max_selectable: of a store whose removal was a function, which no file has; not given for others.

        Raises:
          NotFoundError: there is no checkpoint.
          DataLossError: a file is missing or damaged.
          InvalidArgumentError: the removal is one of these and not given, or given for another store.
        """
        if (removal is None) != (capacity is None) or (removal is None and max_selectable is not None):
            raise InvalidArgumentError("removal and capacity are given together, for a store whose removal was a function")
        given = None if removal is None else (_removal.as_native(removal)[1], capacity, max_selectable)
        store = cls.__new__(cls)
        Readable.__init__(
            store, _native.GpuStore.load(os.fspath(folder), given, name=name, readers=readers, huge_pages=huge_pages)
        )
        return store

    def save(self, folder: str | os.PathLike[str]) -> Saved:
        """Writes the store into a folder; of what its last checkpoint there has, nothing is written again. Others may insert meanwhile.

        Raises:
          UnavailableError: another process saves there.
          InvalidArgumentError: the folder has a checkpoint of other columns or another capacity.
          InternalError: a file cannot be written. The last checkpoint is still there.
        """
        return Saved(*self._native.save(os.fspath(folder)))

    @classmethod
    def of_dataset(
        cls, data: Any, *, capacity: int | None = None, max_steps: int | None = None, weight: float | Literal["length"] = 1.0, **options: Any
    ) -> Store:
        """A store with the columns of a data set, and its episodes in it.

        Args:
          data, weight: as in :meth:`insert_dataset`.
          capacity, max_steps: as many episodes, and as many steps as the longest, as the data set has, unless given.
          options: the others of the class.
        """
        episodes = _datasets.episodes_of(data)
        first = episodes[0]
        columns = {name: (array.dtype, array.shape[1:]) for name, array in first.items()}
        longest = max(len(next(iter(episode.values()))) for episode in episodes)
        store = cls(columns, capacity=capacity or len(episodes), max_steps=max_steps or longest, **options)
        store._insert_all(episodes, weight)
        return store

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self._native)

    def __bool__(self) -> bool:
        """An empty store is a store."""
        return True

    def insert(self, trajectory: Mapping[str, npt.ArrayLike], weight: float = 1.0, *, timeout: float = 0.0) -> Inserted:
        """Copies a trajectory in. If there is no room, another one goes.

        Args:
          trajectory: for each column an array ``[length, …]`` of its data type.
          weight: finite and not negative; at 0 it is kept, but never drawn.
          timeout: seconds to wait for room while all trajectories are being read.

        Raises:
          InvalidArgumentError: an array that does not fit its column, arrays that differ in length, no steps or more than
            ``max_steps``, or a weight that is none. Nothing is changed.
          UnavailableError: there is no room, and nothing that may go.
        """
        self._check_names(trajectory)
        arrays = [trajectory[name] for name in self._columns]
        return Inserted(*self._native.insert(arrays, weight, timeout))

    def insert_dataset(self, data: Any, *, weight: float | Literal["length"] = 1.0) -> list[Inserted]:
        """Copies the episodes of a data set in; all of them, also one that was still going on at the end.

        An episode ends with a row of ``terminals`` or ``timeouts``. The arrays ``observations``, ``actions``, ``rewards``, ``terminals``,
        and where the data has them ``timeouts`` and ``next_observations``, go into the columns of their names; parts of nests into
        ``observations/camera`` and so on. Arrays for which there is no column are left out.

        Args:
          data: a folder of recorded episodes, a file of ``numpy.savez`` or of D4RL's HDF5, a data set of Minari, a mapping of
            arrays, or episodes (:class:`relive.rl.recorded.Episode`).
          weight: of each episode, or ``"length"`` for its number of steps: then every step is as likely to be the current one.

        Raises:
          InvalidArgumentError: a column is not in the data or of another shape, values do not fit a column's data type, or there
            is not room for all episodes. Nothing is inserted.
          TypeError, ValueError, ImportError, OSError: as :func:`relive.rl.arrays_of`.
        """
        return self._insert_all(_datasets.episodes_of(data), weight)

    def _insert_all(self, episodes: list[dict[str, npt.NDArray[Any]]], weight: float | Literal["length"]) -> list[Inserted]:
        room = self.capacity - len(self)
        if len(episodes) > room:
            raise InvalidArgumentError(
                f"the data set has {len(episodes)} episodes, and there is room for {room} without removing others: make the store larger"
            )
        fitting = [_datasets.fitted(episode, self._columns, self.max_steps, number) for number, episode in enumerate(episodes)]
        return [
            self.insert(episode, len(next(iter(episode.values()))) if weight == "length" else weight) for episode in fitting
        ]

    def update_weights(
        self, indices: npt.ArrayLike, weights: npt.ArrayLike, generations: npt.ArrayLike | None = None
    ) -> Changed:
        """Gives trajectories new weights.

        Args:
          indices: which, ``[N]``, as ``batch.indices``.
          weights: ``[N]``; finite and not negative.
          generations: as ``batch.generations``: trajectories that others have replaced since are skipped. Without them the
            weights are for whatever is there now.

        Raises:
          InvalidArgumentError: a weight that is none, or lists of different lengths. Nothing is changed.
          NotFoundError: an index beyond the capacity. Nothing is changed.
        """
        return Changed(*self._native.update_weights(indices, weights, generations))

    def remove(self, indices: npt.ArrayLike, generations: npt.ArrayLike | None = None) -> Changed:
        """Removes trajectories; those that are being read stay. The arguments and errors are those of :meth:`update_weights`."""
        return Changed(*self._native.remove(indices, generations))

    def status(self, index: int) -> Status:
        """What there is to know of an index.

        Raises:
          NotFoundError: it is beyond the capacity.
        """
        return Status(*self._native.status(index))

    def sweep(self) -> int:
        """Takes back what processes that have ended were reading, and says how many processes those were. An insertion that finds no
        room does this by itself."""
        return self._native.sweep()

    def _check_names(self, trajectory: Mapping[str, Any]) -> None:
        if trajectory.keys() == self._columns.keys():
            return
        missing, unknown = self._columns.keys() - trajectory.keys(), trajectory.keys() - self._columns.keys()
        parts = [f"has no {sorted(missing)}"] * bool(missing) + [f"has {sorted(unknown)}, which are no columns"] * bool(unknown)
        raise InvalidArgumentError(f"the trajectory {' and '.join(parts)}; the columns are {list(self._columns)}")
