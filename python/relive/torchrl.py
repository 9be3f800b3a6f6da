"""Storage and sampler for torchrl's replay buffers, built on a :class:`relive.ReplayBuffer`.

>>> from torchrl.data import TensorDictReplayBuffer  # doctest: +SKIP
>>> storage = relive.torchrl.Storage(100_000, prioritized=0.6)  # doctest: +SKIP
>>> buffer = TensorDictReplayBuffer(storage=storage, sampler=relive.torchrl.Sampler(beta=0.4), batch_size=256)  # doctest: +SKIP

Needs the package ``torchrl``.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tensordict import TensorDict, TensorDictBase
from torchrl.data import PrioritizedSampler, TensorStorage
from torchrl.data.replay_buffers.storages import Storage as AnyStorage

import relive
from relive import nest
from relive._frameworks import as_column, as_floats
from relive._numbers import number

__all__ = ["Sampler", "Storage"]

_PARTS = "parts"
_FILE = "replay"


class Storage(TensorStorage):
    """The storage of a torchrl buffer: the newest ``max_size`` transitions, in a Relive table, compressed if that makes
    them smaller.

    It stores tensordicts and needs a :class:`Sampler`, which draws whole batches from the table; indexing such as
    ``buffer[3]`` is not supported. A transition keeps its key permanently; with ``prioritized``, samples return the key
    as ``"index"``, otherwise ``"index"`` is 0. New transitions get the highest priority so far. Copies and pickled
    buffers contain the transitions and their priorities, like those of :class:`relive.ReplayBuffer`.

    Args:
      max_size: the number of transitions that are kept.
      prioritized: the exponent α of prioritized replay; ``None``: uniform sampling.
      n_step, discount: n-step transitions, as in :class:`relive.ReplayBuffer`; columns then have that class's names and
        shapes. torchrl's ``MultiStep`` takes torchrl's names.
      seed: the seed of the random choices.

    Raises:
      ValueError: a number that is out of range. With ``prioritized``, :meth:`set` also raises it for columns named
        ``weights`` or ``keys``.
    """

    def __init__(
        self, max_size: int, *, prioritized: float | None = None, n_step: int = 1, discount: float | None = None, seed: int | None = None
    ) -> None:
        # Skips the superclass's constructor, which allocates tensors for all transitions.
        AnyStorage.__init__(self, max_size)
        self.device = torch.device("cpu")
        self.prioritized = prioritized
        self._seed = seed
        self.replay = relive.ReplayBuffer(max_size, prioritized=prioritized, n_step=n_step, discount=discount, seed=seed)
        # The keys and transitions that the sampler has drawn.
        self._drawn: tuple[Any, Any] | None = None

    def draw(self, batch_size: int, beta: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Samples a batch, which :meth:`get` then returns; returns its keys and its importance weights."""
        self.replay.beta = beta
        batch = self.replay.sample(batch_size, to="torch")
        count = len(nest.flatten(batch)[0])
        if self.prioritized is None:
            # Columns named "weights" or "keys" are the user's own.
            weights, keys = torch.ones(count), np.zeros(count, np.uint64)
        else:
            weights, keys = batch.pop("weights"), batch.pop("keys")
        index = torch.from_numpy(keys.view(np.int64))
        self._drawn = index, TensorDict(batch, [count])
        return index, weights

    def get(self, index: Any) -> Any:
        """Returns the batch that was just drawn.

        Raises:
          IndexError: any other index, since a table cannot be indexed.
        """
        drawn, self._drawn = self._drawn, None
        if drawn is None or index is not drawn[0]:
            raise IndexError("a relive.torchrl.Storage cannot be read by index; use sample() with a relive.torchrl.Sampler")
        return drawn[1]

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Adds transitions; the oldest are evicted.

        Raises:
          TypeError: the data is not a tensordict, or contains something other than tensors.
          IndexError: the caller passed indices to overwrite.
        """
        if not set_cursor:
            raise IndexError("the transitions of a relive.torchrl.Storage are immutable; add new ones")
        if not isinstance(data, TensorDictBase):
            raise TypeError(f"a relive.torchrl.Storage takes tensordicts, got {type(data).__name__}")
        steps = data.exclude("index").to("cpu").to_dict()
        if data.ndim:
            self.replay.add_batch(_as_numpy(steps))
        else:
            self.replay.add(_as_numpy(steps))

    def end_episode(self, environments: npt.ArrayLike | None = None) -> None:
        """With ``n_step``, ends episodes that are abandoned without a last step, as in
        :meth:`relive.ReplayBuffer.end_episode`: ``buffer.storage.end_episode()`` before the environments are reset."""
        self.replay.end_episode(environments)

    def __len__(self) -> int:
        return len(self.replay)

    @property
    def initialized(self) -> bool:
        """Always true: a table does not track which sampler has seen a transition."""
        return True

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Saves the transitions in a folder."""
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        self.replay.save(os.path.join(path, _FILE))

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Replaces the transitions with saved ones.

        Raises:
          FileNotFoundError: no ``Storage`` has saved transitions there.
          ValueError: the storage that saved them has a different ``max_size``, ``prioritized``, ``n_step`` or
            ``discount``.
        """
        if not os.path.exists(os.path.join(path, _FILE)):
            raise FileNotFoundError(f"{os.fspath(path)} has no transitions of a relive.torchrl.Storage; to move the transitions of another "
                                    'storage, load them into a buffer with that storage, and extend this one by buffer[:].exclude("index")')
        loaded = relive.ReplayBuffer.load(os.path.join(path, _FILE), seed=self._seed)
        own, saved = (dataclasses.asdict(replay._settings) for replay in (self.replay, loaded))
        for name in ("capacity", "prioritized", "n_step", "discount"):
            if own[name] != saved[name]:
                loaded.close()
                setting = "max_size" if name == "capacity" else name
                raise ValueError(f"the transitions were saved by a storage with {setting}={saved[name]}, but this one has "
                                 f"{setting}={own[name]}; load them into a storage with the saved value")
        self.replay.close()
        self.replay, self._drawn = loaded, None

    def state_dict(self) -> dict[str, Any]:
        """Not supported.

        Raises:
          RuntimeError: always; ``dumps`` saves the buffer.
        """
        raise RuntimeError("a relive.torchrl.Storage has no state_dict(); save the buffer with dumps(path), and load it with loads(path)")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Not supported, like :meth:`state_dict`."""
        self.state_dict()

    def _empty(self) -> None:
        self.replay.clear()
        self._drawn = None

    def __getstate__(self) -> dict[str, Any]:
        # The superclass's state has the parts of its tensors.
        # Python 3.10's objects have no such method.
        superclass = getattr(AnyStorage, "__getstate__", vars)
        state: dict[str, Any] = {**superclass(self), "_drawn": None}
        return state

    def __repr__(self) -> str:
        return f"{type(self).__name__}(max_size={self.max_size}, prioritized={self.prioritized}, size={len(self)})"


class Sampler(PrioritizedSampler):
    """Draws batches of a :class:`Storage`, by priority if the storage has priorities.

    The importance weights are ``"priority_weight"``, normalized by the largest weight in the batch; torchrl normalizes
    by the largest weight in the buffer.

    Args:
      beta: the exponent β of the weights, at least 0; the attribute may be changed at any time.

    Raises:
      ValueError: ``beta`` is negative or not finite.
      TypeError: ``beta`` is not a number.
    """

    # Whether this sampler has logged that it ignores positions.
    _has_told = False

    def __init__(self, beta: float = 0.4) -> None:
        # Skips the superclass's constructor, which builds a sum tree. torchrl passes priorities only to this class.
        self.beta, self.reduction = beta, "max"

    @property
    def beta(self) -> float:
        """The exponent β of the weights."""
        return self._beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._beta = number("beta", beta, least=0)

    def sample(self, storage: Any, batch_size: int) -> tuple[torch.Tensor, dict[str, Any]]:
        """Returns the keys and the weights of transitions.

        Raises:
          TypeError: the storage has the wrong class.
          ValueError: the storage is empty.
        """
        index, weights = _ours(storage).draw(batch_size, self.beta)
        return index, {"priority_weight": weights}

    def update_priority(self, index: Any, priority: Any, *, storage: Any = None) -> None:
        """Sets the priorities of transitions by key, the ``"index"`` of a sample. Keys of evicted transitions are
        ignored, and so are the positions that ``extend`` and ``add`` return, with one warning in the log."""
        own = _ours(storage)
        if own.prioritized is None:
            return
        keys = torch.as_tensor(index).cpu().numpy().reshape(-1).astype(np.int64).view(np.uint64)
        values = np.broadcast_to(as_floats("priority", priority).reshape(-1), keys.shape)
        # torchrl's buffers also call this for the positions of new transitions. Without this check, their priorities
        # would count for the highest priority. Keys are random 64-bit numbers, so no key is this small.
        is_key = keys >= own.max_size
        # torchrl's buffers pass the default priority for steps that they add without one.
        if not self._has_told and (values[~is_key] != self.default_priority).any():
            self._has_told = True
            logging.getLogger("relive").warning(
                "update_priority: the positions that extend() and add() return are not keys, so their priorities are ignored, as is the "
                "td_error of new transitions: these have the highest priority so far. Update the priorities of samples, by their \"index\"; "
                "for other priorities of new transitions, use storage.replay.add_batch(..., priority=...)"
            )
        if is_key.any():
            own.replay.update(keys[is_key], values[is_key])

    def add(self, index: Any) -> None:
        """Does nothing: the storage sets the priority of new transitions."""

    def extend(self, index: Any) -> None:
        """Does nothing, like :meth:`add`."""

    def mark_update(self, index: Any, *, storage: Any = None) -> None:
        """Does nothing, like :meth:`add`."""

    @property
    def default_priority(self) -> float:
        """The default priority."""
        return 1.0

    def state_dict(self) -> dict[str, Any]:
        """Returns the exponent of the priorities."""
        return {"beta": self.beta}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Sets the exponent of the priorities."""
        self.beta = state_dict["beta"]

    def dumps(self, path: str | os.PathLike[str]) -> None:
        """Does nothing: the storage saves the state."""

    def loads(self, path: str | os.PathLike[str]) -> None:
        """Does nothing, like :meth:`dumps`."""

    def _empty(self) -> None:
        """Does nothing: the storage is emptied instead."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(beta={self.beta})"


def _ours(storage: Any) -> Storage:
    if not isinstance(storage, Storage):
        raise TypeError(f"a relive.torchrl.Sampler draws from a relive.torchrl.Storage, but the buffer has {type(storage).__name__}")
    return storage


def _as_numpy(steps: dict[str, Any]) -> dict[str, npt.NDArray[Any] | dict[str, Any]]:
    """Converts nested tensors to nested arrays."""
    arrays = {}
    for name, value in steps.items():
        if not isinstance(value, (dict, torch.Tensor)):
            raise TypeError(f"{name!r} is of the type {type(value).__name__}, but a relive.torchrl.Storage takes only tensors; exclude it")
        arrays[name] = _as_numpy(value) if isinstance(value, dict) else as_column(value)
    return arrays
