"""The messages of `reverb_config.proto`."""

from relive.server_executable.reverb_config_pb2 import *  # noqa: F403
