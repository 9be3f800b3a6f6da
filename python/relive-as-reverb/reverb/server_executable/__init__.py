"""A server from a configuration."""

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    reverb_config_pb2="reverb.server_executable.reverb_config_pb2",
    server_from_proto="reverb.server_executable.server_from_proto",
    server_main="reverb.server_executable.server_main",
)
