"""What becomes of a server's checkpoints, as :meth:`relive.Client.checkpoint_status` tells it."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class RunningCheckpoint:
    """A checkpoint that is being written."""

    trigger: str
    """Why: ``"interval"``, ``"request"`` or ``"close"``."""
    phase: str
    """``"capturing"`` while references to the items are collected, ``"writing"`` while these are written."""
    began_at: float
    """When it began, in seconds since the epoch by the server's clock."""
    elapsed_s: float
    """How long it has run."""
    items_done: int
    """Items written."""
    items_total: int
    """Items that it will have; 0 until that is known."""
    bytes_done: int
    """Bytes of data written."""
    bytes_total: int
    """Bytes of data that were not stored before; 0 until that is known."""


@dataclasses.dataclass(frozen=True)
class FinishedCheckpoint:
    """A checkpoint that has ended, well or badly."""

    trigger: str
    """Why: ``"interval"``, ``"request"`` or ``"close"``."""
    began_at: float
    """When it began, in seconds since the epoch by the server's clock. It holds what was in the tables shortly after."""
    took_s: float
    """How long it took."""
    longest_pause_s: float
    """The longest time for which it kept others from a table."""
    path: str | None
    """Where it is, on the server's machine; ``None`` if it failed."""
    written_bytes: int
    """Bytes that were written for it."""
    total_bytes: int
    """Bytes of it and of all that it refers to, most of which may have been there before."""
    error: str | None
    """Why it failed. Earlier checkpoints stay valid then."""


@dataclasses.dataclass(frozen=True)
class CheckpointStatus:
    """A server's checkpoints at one moment."""

    enabled: bool
    """Whether the server has somewhere to write them."""
    running: RunningCheckpoint | None
    """The one that is being written."""
    queued: bool
    """Whether another one begins when that one ends. Whoever asks now shares it."""
    last: FinishedCheckpoint | None
    """The one that ended last, well or badly."""
    last_saved: FinishedCheckpoint | None
    """The last that was written: what a restart finds. The same as ``last`` unless that one failed."""
    next_due_s: float | None
    """Seconds until the next one that nobody has to ask for; ``None`` if they are not written by the clock."""
    loaded: str | None
    """Path or URL of the checkpoint with which the server began; ``None`` if it began with empty tables."""

    @classmethod
    def _from_native(cls, native: dict[str, Any]) -> CheckpointStatus:
        def made_of(kind: Any, fields: dict[str, Any] | None) -> Any:
            return None if fields is None else kind(**fields)

        return cls(
            enabled=native["enabled"],
            running=made_of(RunningCheckpoint, native["running"]),
            queued=native["queued"],
            last=made_of(FinishedCheckpoint, native["last"]),
            last_saved=made_of(FinishedCheckpoint, native["last_saved"]),
            next_due_s=native["next_due_s"],
            loaded=native["loaded"],
        )
