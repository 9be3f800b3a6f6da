"""The store, in the process that makes it."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy.typing as npt

from relive import _native
from relive.errors import InvalidArgumentError, ReverbError, UnavailableError
from relive.gpu import _columns, _datasets, _ranks, _removal, _writing
from relive.gpu._given import real, whole
from relive.gpu._group import Group
from relive.gpu._local_group import LocalGroup
from relive.gpu._network import Network
from relive.gpu._outcomes import Changed, Inserted, Saved, Status
from relive.gpu._reading import Readable
from relive.gpu._removal import Candidates, Removal
from relive.gpu._waits import told
from relive.gpu._writing import Request, Scan, Writer

# Makes the memory of this name, with a rank of so many.
_Make = Callable[["str | None", "tuple[int, int]"], _native.GpuStore]
# What a removal's function raises is told after so long.
_SHORT_S = 0.05


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
      name: by which other processes :func:`attach`; without it the store is this process's alone. A process that is killed leaves the
        memory in ``/dev/shm``, and the next store of the name takes its place: give a fixed one.
      max_selectable: most trajectories that there may be, up to the capacity.
      seed: of the random removal.
      readers: processes that may read at the same time, this one and other ranks included; 1 to 1,024.
      writers: processes or threads that may write in place at the same time (:func:`attach_writer`); 0 to 65,536.
      rank, ranks: this process's place among ``ranks`` processes of this machine, which make a store each under the same ``name``. They
        wait for each other here, and draw from all of their trajectories together: docs/gpu.md says how.
      group: in place of ``rank`` and ``ranks``: ``torch.distributed``, a process group of it, a topology of DeepSpeed or Megatron
        (an object with ``get_data_parallel_rank()`` and ``get_data_parallel_world_size()``), a communicator of mpi4py, or a
        :class:`Group`.
      network: how ranks of several machines reach each other; not needed if all are on one.
      huge_pages: whether the system is asked for large pages of memory, which make copies faster.

    Raises:
      InvalidArgumentError: columns or options that make no sense.
      UnavailableError: a living process has a store of this name, or there is something else of this name that is no store, which stays as
        it is; there is not as much shared memory; or another rank has failed.
      DeadlineExceededError: another rank does not come.
      InternalError: the system refused the memory.
    """

    _native: _native.GpuStore
    _group: Group | None

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
        writers: int = 64,
        huge_pages: bool = True,
        rank: int | None = None,
        ranks: int | None = None,
        group: Any = None,
        network: Network | None = None,
    ) -> None:
        capacity, max_steps = whole("capacity", capacity, 1, 1 << 63), whole("max_steps", max_steps, 1, 1 << 32)
        readers, writers = whole("readers", readers, 1, 1 << 32), whole("writers", writers, 0, 1 << 32)
        max_selectable = None if max_selectable is None else whole("max_selectable", max_selectable, 1, capacity + 1)
        seed = whole("seed", seed, 0, 1 << 64)
        columns = _columns.columns_of(columns)
        self._removal = _removal.given(removal)
        removal_ = _removal.as_native(self._removal)
        self._start(
            _ranks.group_for(name, group, rank, ranks),
            name,
            lambda name, shard: _native.GpuStore(
                _columns.as_native(columns), max_steps, capacity, removal_, name=name, max_selectable=max_selectable, seed=seed,
                readers=readers, writers=writers, shard=shard, huge_pages=huge_pages,
            ),
            network,
        )

    def _start(self, group: Group | None, name: str | None, make: _Make, network: Network | None) -> None:
        """Makes the store, and has those of all ranks read each other."""
        if network is not None and not isinstance(network, Network):
            raise InvalidArgumentError(f"network is a {type(network).__name__}; give a relive.gpu.Network")
        if network is not None and group is None:
            raise InvalidArgumentError("network is for the ranks of a group, and there is none: give group=")
        if group is None or group.ranks == 1:
            super().__init__(make(name, (0, 1)), group=group)
            return
        name = _ranks.agree_on_name(group, name)
        store, failed = None, None
        try:
            store = make(_ranks.segment_name(name, group.rank, group.ranks), (group.rank, group.ranks))
        except ReverbError as error:
            failed = error
        _ranks.join(group, store, failed, name, network)
        assert store is not None, "otherwise `join` has raised"
        _ranks.honour(group, network)
        super().__init__(store, group=group)

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
        rank: int | None = None,
        ranks: int | None = None,
        group: Any = None,
        network: Network | None = None,
    ) -> Store:
        """The store that was saved in a folder: trajectories, weights, generations, who goes next, and the random removal's numbers.

        Args:
          folder: as in :meth:`save`.
          name, readers, huge_pages, rank, ranks, group, network: as in the class. The ranks are as many as those that saved.
          removal, capacity, max_selectable: of a store whose removal was a function, which no file has; not given for others.

        Raises:
          NotFoundError: there is no checkpoint.
          DataLossError: a file is missing or damaged.
          InvalidArgumentError: the removal is one of these and not given, or given for another store.
        """
        if (removal is None) != (capacity is None) or (removal is None and max_selectable is not None):
            raise InvalidArgumentError("removal and capacity are given together, for a store whose removal was a function")
        if removal is not None and not callable(removal):
            raise InvalidArgumentError(f"removal is {removal!r}; give the function that the store had, or nothing: the file has all others")
        store = cls.__new__(cls)
        store._removal = _removal.given(removal)
        given = None if removal is None else (_removal.as_native(store._removal)[1], capacity, max_selectable)
        among = _ranks.group_for(name, group, rank, ranks)
        store._start(
            among,
            name,
            lambda name, shard: _native.GpuStore.load(
                _rank_folder(folder, shard), given, name=name, readers=readers, shard=shard, huge_pages=huge_pages
            ),
            network,
        )
        return store

    def save(self, folder: str | os.PathLike[str]) -> Saved:
        """Writes the store into a folder; of what its last checkpoint there still has, nothing is written again. Others may insert meanwhile.
        Each rank writes its own part, into a folder there.

        Raises:
          UnavailableError: another process saves there.
          InvalidArgumentError: the folder has a checkpoint of other columns or another capacity, or is an empty text.
          DataLossError: the folder's manifest is damaged; save into another folder, or remove this one.
          InternalError: a file cannot be written. The last checkpoint is still there.
        """
        return Saved(*self._native.save(_rank_folder(folder, self._native.shard())))

    @classmethod
    def of_dataset(
        cls, data: Any, *, capacity: int | None = None, max_steps: int | None = None, weight: float | Literal["length"] = 1.0, **options: Any
    ) -> Store:
        """A store with the columns of a data set, and its episodes in it: those that :meth:`insert_dataset` names, and no ``infos``. Of several ranks each has a part of them, in their order, so
        that an episode's index is its number, whatever the number of ranks.

        Args:
          data, weight: as in :meth:`insert_dataset`.
          capacity, max_steps: as many episodes (of each rank), and as many steps as the longest, as the data set has, unless given.
          options: the others of the class.
        """
        episodes = _datasets.episodes_of(data)
        first = episodes[0]
        columns = {name: (array.dtype, array.shape[1:]) for name, array in first.items()}
        longest = max(len(next(iter(episode.values()))) for episode in episodes)
        group = _ranks.group_for(options.get("name"), options.pop("group", None), options.pop("rank", None), options.pop("ranks", None))
        each = -(-len(episodes) // (1 if group is None else group.ranks))
        capacity = each if capacity is None else capacity
        max_steps = longest if max_steps is None else max_steps
        store = cls(columns, capacity=capacity, max_steps=max_steps, group=group, **options)
        store._insert_all(episodes, weight)
        return store

    def __len__(self) -> int:
        """Number of trajectories; those of this rank."""
        return len(self._native)

    def __bool__(self) -> bool:
        """An empty store is a store."""
        return True

    def insert(self, trajectory: Mapping[str, npt.ArrayLike], weight: float = 1.0, *, timeout: float = 0.0) -> Inserted:
        """Copies a trajectory in. If there is no room, another one goes.

        Args:
          trajectory: for each column an array ``[length, …]`` of its data type, or a list, which becomes one if that changes no number
            but by the rounding of floats.
          weight: finite and not negative; at 0 it is kept, but never drawn.
          timeout: seconds to wait for room while all trajectories are being read. The log of the name ``relive`` says after 5 seconds
            that it waits.

        Raises:
          InvalidArgumentError: an array that does not fit its column, arrays that differ in length, no steps or more than
            ``max_steps``, or a weight that is none. Nothing is changed.
          UnavailableError: there is no room, and nothing that may go.
        """
        self._check_names(trajectory)
        arrays = [_columns.stored(trajectory[name], spec) for name, spec in self._columns.items()]
        timeout = real("timeout", timeout)
        if weight is None or isinstance(weight, str):
            raise InvalidArgumentError(f"weight is {weight!r}; give a number")
        if timeout == 0:
            return Inserted(*self._native.insert(arrays, weight, 0.0))
        with told("insert()", lambda: "there is no room; all trajectories are being read, or the removal keeps them"):
            return Inserted(*self._insert_within(arrays, weight, timeout))

    def _insert_within(self, arrays: list[Any], weight: float, timeout: float) -> tuple[int, int]:
        deadline = time.monotonic() + timeout
        # The extension raises what a function has raised once its wait is over: with one there are several short waits.
        while isinstance(self._removal, _removal.Choice) and deadline - time.monotonic() > _SHORT_S:
            try:
                return self._native.insert(arrays, weight, _SHORT_S)
            except UnavailableError:
                continue
        return self._native.insert(arrays, weight, max(0.0, deadline - time.monotonic()))

    def insert_dataset(self, data: Any, *, weight: float | Literal["length"] = 1.0) -> list[Inserted]:
        """Copies the episodes of a data set in; all of them, also one that was still going on at the end. Of several ranks, which all
        call this with the same data, each takes a part.

        An episode ends with a row of ``terminals`` or ``timeouts``, of which there must be one. These, and the arrays ``observations``, ``actions``,
        ``rewards`` and ``next_observations``, as far as the data has them, go into the columns of their names; parts of nests into
        ``observations/camera`` and so on. Arrays for which there is no column are left out, and so are those of other names, such as
        D4RL's ``infos``: what is wanted of them is to be made a part of the observations.

        Args:
          data: a folder of recorded episodes, a file of ``numpy.savez``, D4RL's HDF5, Parquet, Arrow or safetensors, a data set of
            Minari, a ``pyarrow.Table``, another store, a mapping of arrays, or episodes (:class:`relive.rl.recorded.Episode`).
          weight: of each episode, or ``"length"`` for its number of steps: then every step is as likely to be the current one.

        Raises:
          InvalidArgumentError: a column is not in the data or of another shape, values do not fit a column's data type, or there
            is not room for all episodes. Nothing is inserted.
          TypeError, ValueError, ImportError, OSError: as :func:`relive.rl.arrays_of`.
        """
        return self._insert_all(_datasets.episodes_of(data), weight)

    def _insert_all(self, episodes: list[dict[str, npt.NDArray[Any]]], weight: float | Literal["length"]) -> list[Inserted]:
        if weight != "length":
            weight = _datasets.weight_of(weight)
        episodes = episodes[_ranks.part_of(self._group, len(episodes))]
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
        """Gives trajectories new weights. All ranks call this together, each with the trajectories of its own batch, whoever has them.

        Args:
          indices: which, ``[N]``, as ``batch.indices``.
          weights: ``[N]``; finite and not negative. A positive one too small for a 32-bit float becomes the smallest that is none.
          generations: as ``batch.generations``: trajectories that others have replaced since are skipped. Without them the
            weights are for whatever is there now.

        Returns:
          What became of those that are in this process's store.

        Raises:
          InvalidArgumentError: a weight that is none, or lists of different lengths. Nothing is changed, by any rank.
          NotFoundError: an index beyond the capacity. Nothing is changed, by any rank.
          TypeError: indices or generations that are no integers. Nothing is changed, by any rank.
          UnavailableError: another rank gave what it could not. Nothing is changed.
        """
        if self._group is not None and self._group.ranks > 1:
            indices, weights, generations = _ranks.own_updates(self._group, self.capacity, indices, weights, generations)
        return Changed(*self._native.update_weights(indices, weights, generations))

    def remove(self, indices: npt.ArrayLike, generations: npt.ArrayLike | None = None) -> Changed:
        """Removes trajectories of this rank; those that are being read by a living process stay. The arguments and errors are those of
        :meth:`update_weights`."""
        return Changed(*self._native.remove(indices, generations))

    def status(self, index: int) -> Status:
        """What there is to know of an index.

        Raises:
          NotFoundError: it is beyond the capacity.
        """
        return Status(*self._native.status(index))

    def writer(self) -> Writer:
        """A writer for a thread of this process. Other processes :func:`attach_writer`.

        Raises:
          UnavailableError: as many write as may.
        """
        return Writer(_native.GpuWriter.of(self._native))

    def scan(self, *, timeout: float = 0.0) -> Scan:
        """Does what writers want: gives rows to those that wait for one, makes finished trajectories ones that can be drawn, takes the rows of
        processes that have ended back, and reports who waits for an answer. Nothing of this happens between calls.

        Args:
          timeout: seconds to wait until there is something to report.
        """
        requests, finished, aborted, starved = self._native.scan(timeout)
        return Scan([Request(*request) for request in requests], [Inserted(*place) for place in finished], aborted, starved)

    def observe(self, requests: Sequence[Request], column: str) -> npt.NDArray[Any]:
        """A copy of what writers that wait for an answer have written into a column of their current steps, ``[requests, …]``.

        Raises:
          NotFoundError: there is no such column, or a writer does not wait.
        """
        position = _columns.position({name: at for at, name in enumerate(self._columns)}, column)
        return self._native.observe([request.writer for request in requests], position)

    def answer(self, requests: Sequence[Request], values: Mapping[str, npt.ArrayLike]) -> None:
        """Writes values ``[requests, …]`` into columns of the current steps of writers, which go on then.

        Raises:
          NotFoundError: there is no such column, or a writer does not wait.
          InvalidArgumentError: values that do not fit their column.
        """
        _writing.answer(self._native, self._columns, requests, values)

    def sweep(self) -> int:
        """Takes back what processes that have ended were reading, and says how many processes those were. An insertion that finds no
        room does this by itself."""
        return self._native.sweep()

    def close(self) -> None:
        super().close()
        if isinstance(self._group, LocalGroup):
            self._group.close()

    def _check_names(self, trajectory: Mapping[str, Any]) -> None:
        if not isinstance(trajectory, Mapping):
            raise InvalidArgumentError(
                f"the trajectory is a {type(trajectory).__name__}; give a mapping from the names of the columns, {list(self._columns)}, to arrays"
            )
        if trajectory.keys() == self._columns.keys():
            return
        missing, unknown = self._columns.keys() - trajectory.keys(), trajectory.keys() - self._columns.keys()
        parts = [f"has no {sorted(missing)}"] * bool(missing) + [f"has {sorted(unknown)}, which are no columns"] * bool(unknown)
        raise InvalidArgumentError(f"the trajectory {' and '.join(parts)}; the columns are {list(self._columns)}")


def _rank_folder(folder: str | os.PathLike[str], shard: tuple[int, int]) -> str:
    """Where a rank's part of a checkpoint is."""
    rank, ranks = shard
    return os.fspath(folder if ranks == 1 else pathlib.Path(folder) / f"rank-{rank}-of-{ranks}")
