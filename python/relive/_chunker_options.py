"""How many steps of a column are stored together, as dm-reverb's interface has it."""

from __future__ import annotations

import dataclasses


class ChunkerOptions:
    """Base class of the options."""


@dataclasses.dataclass(frozen=True)
class ConstantChunkerOptions(ChunkerOptions):
    """Chunks of a fixed length.

    Args:
      max_chunk_length: steps of a chunk.
      num_keep_alive_refs: steps that items can still refer to.
    """

    max_chunk_length: int
    num_keep_alive_refs: int


@dataclasses.dataclass(frozen=True)
class AutoTunedChunkerOptions(ChunkerOptions):
    """Chunks whose length is tuned to the items.

    Args:
      num_keep_alive_refs: steps that items can still refer to; the only thing that equality looks at.
      throughput_weight: how much the bytes that are sent count, against those that are stored.
    """

    num_keep_alive_refs: int
    throughput_weight: float = dataclasses.field(compare=False)
