"""The state of a server's checkpoints, as reported by :meth:`relive.Client.checkpoint_status`."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class RunningCheckpoint:
    """A checkpoint that is being written."""

    trigger: str
    """The reason: ``"interval"``, ``"request"`` or ``"close"``."""
    phase: str
    """``"capturing"`` while the server collects references to the items, ``"writing"`` while it writes them."""
    began_at: float
    """The time at which it started, in seconds since the epoch by the server's clock."""
    elapsed_s: float
    """The number of seconds since it started."""
    items_done: int
    """The number of items written so far."""
    items_total: int
    """The total number of items, or 0 until it is known."""
    bytes_done: int
    """The number of bytes written so far."""
    bytes_total: int
    """The number of bytes that were not stored before, or 0 until it is known."""


@dataclasses.dataclass(frozen=True)
class FinishedCheckpoint:
    """A checkpoint that has ended, successfully or not."""

    trigger: str
    """The reason: ``"interval"``, ``"request"`` or ``"close"``."""
    began_at: float
    """The time at which it started, in seconds since the epoch by the server's clock. Its content dates from shortly
    after this time."""
    took_s: float
    """How long it took, in seconds."""
    longest_pause_s: float
    """The longest time for which it blocked access to a table."""
    path: str | None
    """Its path on the server's machine, or ``None`` if it failed."""
    written_bytes: int
    """The number of bytes that were written for it."""
    total_bytes: int
    """Its size in bytes, including all data that it refers to; earlier checkpoints may have written most of this
    data."""
    error: str | None
    """The reason for its failure. Earlier checkpoints stay valid."""


@dataclasses.dataclass(frozen=True)
class CheckpointStatus:
    """A server's checkpoints at one moment."""

    enabled: bool
    """Whether the server has a location for checkpoints."""
    running: RunningCheckpoint | None
    """The checkpoint that is being written."""
    queued: bool
    """Whether another checkpoint starts when the current checkpoint ends. Requests made now share that next
    checkpoint."""
    last: FinishedCheckpoint | None
    """The checkpoint that ended last, successfully or not."""
    last_saved: FinishedCheckpoint | None
    """The last successful checkpoint, which a restart loads. The same as ``last`` unless ``last`` failed."""
    next_due_s: float | None
    """The seconds until the next automatic checkpoint, or ``None`` if there are no automatic checkpoints."""
    loaded: str | None
    """The path or URL of the checkpoint that the server loaded when it started, or ``None`` if it started with empty
    tables."""

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
