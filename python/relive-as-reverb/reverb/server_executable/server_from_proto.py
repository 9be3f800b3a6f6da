"""Tables from a configuration."""

from relive.server_executable.server_from_proto import rate_limiter_from_proto as rate_limiter_from_proto
from relive.server_executable.server_from_proto import selector_from_proto as selector_from_proto
from relive.server_executable.server_from_proto import tables_from_proto as tables_from_proto

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Sequence",
    checkpoint_pb2="reverb.cc.checkpointing.checkpoint_pb2",
    reverb="reverb",
    reverb_types="reverb.reverb_types",
    schema_pb2="reverb.cc.schema_pb2",
)
