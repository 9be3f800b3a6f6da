"""The configuration of a server from the command line, with absl's flags; absl must be installed."""

from typing import Any

from absl import flags as flags
from google.protobuf import text_format as text_format

from reverb.server_executable import reverb_config_pb2 as reverb_config_pb2

_CONFIG = flags.DEFINE_string("config", None, "A ReverbServerConfig in protobuf's text format", required=True)


def get_server_config_proto() -> Any:
    """Returns the ``ReverbServerConfig`` of the flag ``--config``."""
    return text_format.Parse(_CONFIG.value, reverb_config_pb2.ReverbServerConfig())
