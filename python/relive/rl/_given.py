"""Batches that are passed to a run, which then has no table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relive.rl import _state


def is_source(data: Any) -> bool:
    """Returns whether the value is an iterator of batches, such as a ``relive.gpu.Loader``, rather than a data set."""
    return isinstance(data, Iterator)


class SourceBridge:
    """An iterator of batches, in the extension's form.

    Raises:
      TypeError: the run has checkpoints, and the iterator cannot be saved.
    """

    def __init__(self, source: Iterator[Any], *, is_saved: bool) -> None:
        if is_saved and not (callable(getattr(source, "state", None)) and callable(getattr(source, "restore", None))):
            raise TypeError(
                f"data is a {type(source).__name__} without state() and restore(), but a run with a checkpoint_dir must be able to resume "
                "it"
            )
        self._source, self._is_saved = source, is_saved

    def next_batch(self) -> Any:
        """Returns the next batch, or ``None`` at the end."""
        return next(self._source, None)

    def save(self) -> bytes:
        """Returns the state to resume the source from."""
        return _state.encode(self._source.state()) if self._is_saved else b""  # type: ignore[attr-defined]

    def restore(self, state: bytes) -> None:
        """Restores a state."""
        if state:
            self._source.restore(_state.decode(state))  # type: ignore[attr-defined]

    def reweigh(self, batch: Any, priorities: Any) -> None:
        """Passes the learner's new priorities of a batch to the source.

        Raises:
          ValueError: the source has no priorities.
        """
        update = getattr(self._source, "update_weights", None)
        if update is None:
            raise ValueError(f"the learner returned priorities, but the batches of a {type(self._source).__name__} have none")
        update(batch, priorities)


def samples_of(batch: Any) -> int:
    """Returns the number of items in a batch: the number of rows of its first array, or 1 if it has no array."""
    indices = getattr(batch, "indices", None)
    if indices is not None and hasattr(indices, "__len__"):
        return len(indices)
    return 1
