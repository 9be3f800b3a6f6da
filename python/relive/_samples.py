"""The iterator that ``Client.sample`` returns."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from relive._numbers import whole
from relive._structures import packed, timesteps
from relive.replay_sample import ReplaySample, SampleInfo

if TYPE_CHECKING:
    from relive import _native
    from relive.client import Client

# The number of samples that are requested ahead of the caller.
_MAX_SAMPLES_AHEAD = 64

# The number of seconds to wait for the structure of items if the call does not wait for items.
_LOOKUP_S = 1.0


class Samples(Generator[Any, None, None]):
    """The samples of one call, as a generator that continues after an error, such as a timeout or Ctrl-C."""

    def __init__(
        self, client: Client, table: str, num_samples: int, timeout: float | None, *, emit_timesteps: bool, unpack: bool
    ) -> None:
        self._client = client
        self._table = table
        self._num_samples = num_samples
        self._timeout = timeout
        self._emit_timesteps = emit_timesteps
        self._unpack = unpack
        # A timeout of 0 means that only available items are wanted, but their structure is needed even so.
        self._lookup_timeout = _LOOKUP_S if timeout == 0 else timeout
        # Created by the first `next()`.
        self._sampler: _native.Sampler | None = None
        self._structure: Any = None
        self._is_renewed = False
        self._is_closed = False

    def __next__(self) -> Any:
        if self._is_closed:
            raise StopIteration
        sampler = self._start() if self._sampler is None else self._sampler
        try:
            info, columns = next(sampler)
        except StopIteration:
            self.close()
            raise
        structure = self._structure
        if structure is not None and not self._is_renewed and len(columns) != structure.num_leaves:
            structure = self._client._renewed_structure(self._table, self._lookup_timeout)
            self._structure, self._is_renewed = structure, True
        sample_info = SampleInfo(*info)
        if self._emit_timesteps:
            return timesteps(sample_info, columns, structure)
        return ReplaySample(sample_info, packed(structure, columns))

    def _start(self) -> _native.Sampler:
        if whole("num_samples", self._num_samples) < 1:
            raise ValueError(f"max_samples ({self._num_samples}) must be at least 1: num_samples is the number of items")
        if self._unpack:
            self._structure = self._client._structure(self._table, self._lookup_timeout, required=True)
        self._sampler = self._client._native.samples(self._table, self._num_samples, _MAX_SAMPLES_AHEAD, self._timeout)
        return self._sampler

    def send(self, value: None, /) -> Any:
        return next(self)

    def throw(self, *error: Any) -> Any:
        """Closes the iterator and raises the exception."""
        self.close()
        return super().throw(*error)

    def close(self) -> None:
        """Ends the iteration. A second close does nothing."""
        self._is_closed = True
        if self._sampler is not None:
            self._sampler.close()
