"""dm-reverb's options for the number of steps of a column that are stored together."""

from __future__ import annotations

import dataclasses


class ChunkerOptions:
    """Base class of the options."""


@dataclasses.dataclass(frozen=True)
class ConstantChunkerOptions(ChunkerOptions):
    """Chunks of a fixed length.

    Args:
      max_chunk_length: the number of steps in a chunk.
      num_keep_alive_refs: the number of steps that items can still refer to.
    """

    max_chunk_length: int
    num_keep_alive_refs: int


@dataclasses.dataclass(frozen=True)
class AutoTunedChunkerOptions(ChunkerOptions):
    """Chunks whose length adapts to the items.

    Args:
      num_keep_alive_refs: the number of steps that items can still refer to; the only field that equality compares.
      throughput_weight: the weight of sent bytes relative to stored bytes.
    """

    num_keep_alive_refs: int
    throughput_weight: float = dataclasses.field(compare=False)
