"""The store, in the process that creates it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy.typing as npt

from relive import _native
from relive._at_exit import close_at_exit
from relive.errors import InvalidArgumentError, UnavailableError
from relive.gpu import _columns, _datasets, _ranks, _removal, _saves, _writing
from relive.gpu._given import flag, floats, generations_of, number, place, places, real, store_name, whole
from relive.gpu._group import Group
from relive.gpu._local_group import LocalGroup
from relive.gpu._network import Network
from relive.gpu._outcomes import Changed, Inserted, Saved, Status
from relive.gpu._reading import Readable
from relive.gpu._removal import Candidates, Removal
from relive.gpu._waits import log_long_wait
from relive.gpu._writing import Request, Scan, Writer

# Creates the memory with this name, for a rank among a number of ranks.
_Make = Callable[["str | None", "tuple[int, int]"], _native.GpuStore]
# The extension's limits.
_MAX_READERS, _MAX_WRITERS = 1024, 65_536
# The longest delay before the exception of a removal function is raised.
_SHORT_S = 0.05


class Store(Readable):
    """A store with room for a fixed number of trajectories. The process that creates the store controls it, and the
    threads of this process may use it concurrently.

    When the store is closed or its process ends, its name becomes available again; readers in other processes keep
    their memory.

    Args:
      columns: the values of a step, by name: a data type, a pair of data type and shape, or an ``ArraySpec``. Strings
        cannot be stored.
      capacity: the number of trajectories that the store has room for. The memory for all of them is allocated at once.
      max_steps: the largest number of steps in a trajectory.
      removal: the trajectory to evict when the store is full: ``"fifo"`` the oldest, ``"lifo"`` the newest,
        ``"lowest_weight"``, ``"random"``, ``("max_times_sampled", n)`` a trajectory that was in ``n`` batches, else the
        oldest, or a function of :class:`Candidates` that returns the position of a candidate, or ``None`` to keep all
        candidates. Trajectories that are being read are not evicted.
      name: the name that other processes pass to :func:`attach`; a store without a name is private to this process. A
        killed process leaves the memory in ``/dev/shm``, and the next store with the same name replaces it, so use a
        fixed name.
      max_selectable: the largest number of trajectories, at most the capacity.
      seed: the seed for random removal.
      readers: the number of processes that may read concurrently, including this one and other ranks; 1 to 1,024.
      writers: the number of processes or threads that may write in place concurrently (:func:`attach_writer`); 0 to
        65,536.
      rank, ranks: this process's rank among ``ranks`` processes on this machine, which each create one store under the
        same ``name``. The constructor waits for all ranks, and the ranks together draw from all of their trajectories;
        see docs/gpu.md.
      group: instead of ``rank`` and ``ranks``: ``torch.distributed``, a PyTorch process group, a DeepSpeed or Megatron
        topology (an object with ``get_data_parallel_rank()`` and ``get_data_parallel_world_size()``), an mpi4py
        communicator, or a :class:`Group`.
      network: the connections between ranks on several machines; not needed if all ranks are on one machine.
      huge_pages: whether to request huge pages from the system, which make copies faster.
      files: columns that are kept in files instead of in memory, by name, with the path of each file. This is for
        columns that are larger than the memory: the system keeps the parts in memory that were used last. The store
        creates the files, and removes them when it is closed; after a kill, a file remains until a store is created
        with its path. Each rank needs files of its own, on a disk of its machine. A GPU does not read such a store in
        place.

    Raises:
      InvalidArgumentError: invalid columns or options.
      UnavailableError: the name or a file belongs to a store of a live process, or to an object that is not a store,
        which is left unchanged; not enough shared memory or disk space is available; or another rank has failed.
      DeadlineExceededError: another rank does not arrive in time.
      InternalError: the system denied the memory.
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
        files: Mapping[str, str | os.PathLike[str]] | None = None,
        rank: int | None = None,
        ranks: int | None = None,
        group: Any = None,
        network: Network | None = None,
    ) -> None:
        name = None if name is None else store_name(name)
        capacity, max_steps = whole("capacity", capacity, 1, 1 << 63), whole("max_steps", max_steps, 1, 1 << 32)
        readers, writers = whole("readers", readers, 1, _MAX_READERS + 1), whole("writers", writers, 0, _MAX_WRITERS + 1)
        huge_pages = flag("huge_pages", huge_pages)
        max_selectable = None if max_selectable is None else whole("max_selectable", max_selectable, 1, capacity + 1)
        seed = whole("seed", seed, 0, 1 << 64)
        columns = _columns.columns_of(columns)
        self._removal = _removal.given(removal)
        removal_ = _removal.as_native(self._removal)
        paths = _columns.paths_of(files)
        self._start(
            _ranks.group_for(name, group, rank, ranks),
            name,
            lambda name, shard: _native.GpuStore(
                _columns.as_native(columns), max_steps, capacity, removal_, name=name, max_selectable=max_selectable, seed=seed,
                readers=readers, writers=writers, shard=shard, huge_pages=huge_pages, files=paths,
            ),
            network,
        )

    def _start(self, group: Group | None, name: str | None, make: _Make, network: Network | None) -> None:
        """Creates the store, and connects the stores of all ranks."""
        if network is not None and not isinstance(network, Network):
            raise InvalidArgumentError(f"network is a {type(network).__name__}; give a relive.gpu.Network")
        if network is not None and group is None:
            raise InvalidArgumentError("network requires a group; give group=")
        if group is None or group.ranks == 1:
            super().__init__(make(name, (0, 1)), group=group)
            self._close_at_exit(name)
            return
        name = _ranks.agree_on_name(group, name)
        store, failed = None, None
        try:
            store = make(_ranks.segment_name(name, group.rank, group.ranks), (group.rank, group.ranks))
        except Exception as error:
            failed = error
        _ranks.join(group, store, failed, name, network)
        assert store is not None, "otherwise `join` has raised"
        _ranks.honor(group, network)
        super().__init__(store, group=group)
        self._close_at_exit(name)

    def _close_at_exit(self, name: str | None) -> None:
        """Makes sure that the file of a store with a name is removed."""
        if name is not None:
            close_at_exit(self, Store.close)

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
        writers: int = 64,
        huge_pages: bool = True,
        files: Mapping[str, str | os.PathLike[str]] | None = None,
        rank: int | None = None,
        ranks: int | None = None,
        group: Any = None,
        network: Network | None = None,
    ) -> Store:
        """Restores the store that was saved in a folder: trajectories, weights, generations, the order of removal, and
        the state of the random removal.

        Args:
          folder: as in :meth:`save`.
          name, readers, writers, huge_pages, files, rank, ranks, group, network: as in the class; they are not part of
            the checkpoint. The number of ranks must be the same as when the store was saved.
          removal, capacity, max_selectable: required if the store's removal was a function, which is not part of the
            checkpoint; omit them for other stores.

        Raises:
          NotFoundError: the folder has no checkpoint.
          DataLossError: a file is missing or damaged, or the ranks' parts are from different saves.
          InvalidArgumentError: the store's removal was a function but ``removal`` is missing, or ``removal`` is given
            although the store's removal was not a function.
        """
        if (removal is None) != (capacity is None) or (removal is None and max_selectable is not None):
            raise InvalidArgumentError("give removal and capacity together, for a store whose removal was a function")
        if removal is not None and not callable(removal):
            raise InvalidArgumentError(f"removal is {removal!r}; give the function that the store had, or nothing if it was not a function")
        name = None if name is None else store_name(name)
        readers, writers = whole("readers", readers, 1, _MAX_READERS + 1), whole("writers", writers, 0, _MAX_WRITERS + 1)
        huge_pages = flag("huge_pages", huge_pages)
        paths = _columns.paths_of(files)
        store = cls.__new__(cls)
        store._removal = _removal.given(removal)
        given = None if removal is None else (_removal.as_native(store._removal)[1], capacity, max_selectable)
        among = _ranks.group_for(name, group, rank, ranks)
        _saves.require_one_save(among, folder)
        store._start(
            among,
            name,
            lambda name, shard: _native.GpuStore.load(
                _saves.rank_folder(folder, shard), given, name=name, readers=readers, writers=writers, shard=shard, huge_pages=huge_pages,
                files=paths,
            ),
            network,
        )
        return store

    def save(self, folder: str | os.PathLike[str]) -> Saved:
        """Writes the store into a folder. Data that the last checkpoint in the folder already contains is not written
        again. Other threads may insert in the meantime. Each rank writes its own part, into a subfolder; all ranks must
        call this method, in the same order as their other calls.

        Raises:
          UnavailableError: another process is saving there.
          InvalidArgumentError: the folder has a checkpoint with different columns or a different capacity, or its name
            is empty.
          DataLossError: the folder's manifest is damaged; save into another folder, or remove this one.
          InternalError: a file cannot be written. The last checkpoint remains intact.
        """
        _saves.agree_on_save(self._group, folder)
        return Saved(*self._native.save(_saves.rank_folder(folder, self._native.shard())))

    @classmethod
    def of_dataset(
        cls, data: Any, *, table: str | None = None, capacity: int | None = None, max_steps: int | None = None,
        weight: float | Literal["length"] = 1.0, **options: Any,
    ) -> Store:
        """Creates a store with the columns of a data set, and inserts its episodes. The columns are the arrays that
        :meth:`insert_dataset` lists, without ``infos``. With several ranks, each rank takes a consecutive part of the
        episodes, so that the index of an episode equals its number in the data set for any number of ranks. All ranks
        call this together.

        Args:
          data, table, weight: as in :meth:`insert_dataset`. The columns of a table's first item become the columns of
            the store.
          capacity, max_steps: by default the largest number of episodes of a rank, and the length of the longest
            episode of all ranks.
          options: the other options of the class.

        Raises:
          InvalidArgumentError: the data has neither observations nor actions. Arrays with unknown names are ignored,
            which is logged to the logger ``relive``.
          TypeError, ValueError, ImportError, OSError: as for :meth:`insert_dataset`.
        """
        weight = _datasets.weight_of(weight)
        group = _ranks.group_for(options.get("name"), options.pop("group", None), options.pop("rank", None), options.pop("ranks", None))
        with _ranks.freeing(group):
            episodes, each, longest = _datasets.sized_episodes_of(data, table, group)
            columns = {name: (array.dtype, array.shape[1:]) for name, array in episodes.sample.items()}
            capacity = each if capacity is None else capacity
            max_steps = longest if max_steps is None else max_steps
            store = cls(columns, capacity=capacity, max_steps=max_steps, group=group, **options)
        try:
            store._insert_all(lambda: episodes, weight)
        except BaseException:
            store.close()
            raise
        return store

    def __len__(self) -> int:
        """Returns the number of trajectories of this rank."""
        return len(self._native)

    def __bool__(self) -> bool:
        """Returns true, even for an empty store."""
        return True

    def insert(self, trajectory: Mapping[str, npt.ArrayLike], weight: float = 1.0, *, timeout: float = 0.0) -> Inserted:
        """Copies a trajectory into the store. If the store is full, another trajectory is evicted.

        Args:
          trajectory: for each column, an array ``[length, …]`` of the column's data type, or a list. Converting a list
            may round floats, but must not change other values.
          weight: a finite, nonnegative number; a trajectory with weight 0 is kept, but never drawn.
          timeout: the number of seconds to wait for room while all trajectories are being read. After 5 seconds, the
            wait is logged to the logger ``relive``.

        Raises:
          InvalidArgumentError: an array that does not match its column, arrays of different lengths, no steps or more
            than ``max_steps``, or an invalid weight. Nothing is changed.
          UnavailableError: the store is full, and nothing can be evicted.
        """
        self._check_names(trajectory)
        arrays = [_columns.stored(trajectory[name], spec) for name, spec in self._columns.items()]
        timeout = real("timeout", timeout)
        weight = number("weight", weight)
        if timeout == 0:
            return Inserted(*self._native.insert(arrays, weight, 0.0))
        with log_long_wait("insert()", lambda: "there is no room: all trajectories are being read, or the removal keeps them"):
            return Inserted(*self._insert_within(arrays, weight, timeout))

    def _insert_within(self, arrays: list[Any], weight: float, timeout: float) -> tuple[int, int]:
        deadline = time.monotonic() + timeout
        # The extension raises a removal function's exception only after a wait, so there are several short waits.
        while isinstance(self._removal, _removal.Choice) and deadline - time.monotonic() > _SHORT_S:
            try:
                return self._native.insert(arrays, weight, _SHORT_S)
            except UnavailableError:
                continue
        return self._native.insert(arrays, weight, max(0.0, deadline - time.monotonic()))

    def insert_dataset(
        self, data: Any, *, table: str | None = None, weight: float | Literal["length"] = 1.0
    ) -> list[Inserted]:
        """Copies the episodes of a data set into the store, including an incomplete last episode. With several ranks,
        all ranks call this together with the same data. Each rank takes a part; of files and tables, it reads only this
        part (docs/gpu.md lists exceptions).

        An episode ends with a row of ``terminals`` or ``timeouts``; the data must have one of these. These arrays and
        ``observations``, ``actions``, ``rewards`` and ``next_observations``, if present, are stored in the columns of
        the same names; parts of nests are stored in ``observations/camera`` and so on. Arrays without a column, and
        arrays with other names, such as D4RL's ``infos``, are ignored; to use such arrays, make them part of the
        observations.

        Args:
          data: a folder of recorded episodes, a file of ``numpy.savez``, D4RL's HDF5, Parquet, Arrow or safetensors, a
            Minari data set, a ``pyarrow.Table`` or another table of :func:`relive.rl.arrays_of`, another store, a
            mapping of arrays, or episodes (:class:`relive.rl.recorded.Episode`); or a :class:`relive.Client`, a
            :class:`relive.Server` or the address of a server, together with ``table``.
          table: the table whose items become the trajectories, in the order of insertion, with the columns of the same
            names. The items need no ends of episodes, and their data must have a dimension for the steps. Reading does
            not count as sampling; the table must not change in the meantime.
          weight: the weight of each episode, or ``"length"`` for its number of steps, which makes every step equally
            likely to be the current step.

        Raises:
          InvalidArgumentError: a column is not in the data or has a different shape, values do not fit a column's data
            type, or the store does not have enough room for all episodes, also because of ``max_selectable`` or of rows
            that writers hold. No rank inserts anything.
          UnavailableError: another rank could not read its part, or its part does not fit. No rank inserts anything.
          TypeError, ValueError, ImportError, OSError: the same as for :func:`relive.rl.arrays_of`.
        """
        return self._insert_all(lambda: _datasets.episodes_of(data, table, self._group), weight)

    def _insert_all(self, read: Callable[[], _datasets.Episodes], weight: float | Literal["length"]) -> list[Inserted]:
        """Inserts this rank's part of a data set, after all ranks have checked theirs."""
        fitting: list[_datasets.Arrays] = []

        def check() -> bytes:
            nonlocal weight
            weight = _datasets.weight_of(weight)
            start, part, _ = read()
            room = self._native.room()
            if len(part) > room:
                raise InvalidArgumentError(
                    f"the data set has {len(part)} episodes, but there is room for only {room} without removing others; create a larger "
                    "store"
                )
            fitting.extend(_datasets.fitted(episode, self._columns, self.max_steps, number) for number, episode in enumerate(part, start))
            return b""

        _ranks.gathered(self._group, check, "insert_dataset")
        return [
            self.insert(episode, len(next(iter(episode.values()))) if weight == "length" else weight) for episode in fitting
        ]

    def update_weights(
        self, indices: npt.ArrayLike, weights: npt.ArrayLike, generations: npt.ArrayLike | None = None
    ) -> Changed:
        """Sets the weights of trajectories. All ranks call this together, each with the trajectories of its own batch,
        which can belong to any rank.

        Args:
          indices: the trajectories, ``[N]``, as in ``batch.indices``; not a mask of booleans.
          weights: ``[N]``; finite and nonnegative; tensors may have a gradient. A positive weight that is too small for
            a 32-bit float becomes the smallest positive 32-bit float.
          generations: as in ``batch.generations``: trajectories that have since been replaced are skipped. Without
            generations, the weights apply to the current trajectories.

        Returns:
          The outcome for the trajectories in this process's store.

        Raises:
          InvalidArgumentError: an invalid weight, or lists of different lengths or with more than one dimension. No
            rank changes anything.
          NotFoundError: a negative index or generation, or an index beyond the capacity. No rank changes anything.
          TypeError: indices or generations that are not integers, or weights that are not numbers. No rank changes
            anything.
          UnavailableError: another rank passed invalid arguments. Nothing is changed.
        """
        if self._group is not None and self._group.ranks > 1:
            return Changed(*self._native.update_weights(*_ranks.own_updates(self._group, self.capacity, indices, weights, generations)))
        return Changed(*self._native.update_weights(places("indices", indices), floats("weights", weights), generations_of(generations)))

    def remove(self, indices: npt.ArrayLike, generations: npt.ArrayLike | None = None) -> Changed:
        """Removes trajectories of this rank, except those that a live process is reading. The arguments and errors are
        the same as for :meth:`update_weights`."""
        return Changed(*self._native.remove(places("indices", indices), generations_of(generations)))

    def status(self, index: int) -> Status:
        """Returns the state of an index.

        Raises:
          NotFoundError: the index is negative or beyond the capacity.
        """
        return Status(*self._native.status(place(index)))

    def writer(self) -> Writer:
        """Returns a writer for a thread of this process. Other processes use :func:`attach_writer`.

        An open writer holds one row, even between trajectories, so ``capacity`` must be larger than the number of open
        writers.

        Raises:
          UnavailableError: the store already has its maximum number of writers.
        """
        return Writer(_native.GpuWriter.of(self._native))

    def scan(self, *, timeout: float = 0.0) -> Scan:
        """Serves the writers: assigns rows to writers that wait for a row, makes finished trajectories available for
        drawing, reclaims the rows of processes that have ended, and reports the writers that wait for an answer. All of
        this happens only during calls to this method.

        Args:
          timeout: the number of seconds to wait until there is something to report.
        """
        requests, finished, aborted, starved = self._native.scan(timeout)
        return Scan([Request(*request) for request in requests], [Inserted(*place) for place in finished], aborted, starved)

    def observe(self, requests: Sequence[Request], column: str) -> npt.NDArray[Any]:
        """Returns a copy of a column of the current steps of writers that wait for an answer, ``[requests, …]``; zeros
        for a writer that has ended since.

        Raises:
          NotFoundError: the column does not exist, or a writer is not waiting.
        """
        position = _columns.position({name: at for at, name in enumerate(self._columns)}, column)
        return self._native.observe(_writing.as_native(requests), position)

    def answer(self, requests: Sequence[Request], values: Mapping[str, npt.ArrayLike]) -> None:
        """Writes values ``[requests, …]`` into columns of the current steps of writers, which then continue. Writers
        that have ended since are skipped.

        Raises:
          NotFoundError: the column does not exist, or a writer is not waiting.
          InvalidArgumentError: values that do not match their column.
        """
        _writing.answer(self._native, self._columns, requests, values)

    def sweep(self) -> int:
        """Releases the trajectories that were being read by processes that have since ended, and returns the number of
        those processes. An insertion that finds no room also does this."""
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
        parts = [f"has no {sorted(missing)}"] * bool(missing) + [f"has {sorted(unknown)}, which are not columns"] * bool(unknown)
        raise InvalidArgumentError(f"the trajectory {' and '.join(parts)}; the columns are {list(self._columns)}")
