"""The names of dm-reverb's extension module."""

from relive.checkpointers import Checkpointer
from relive.pybind import *  # noqa: F403

from reverb.platform.default.checkpointers import DefaultCheckpointer


def create_default_checkpointer(
    name: str, group: str = "", fallback_checkpoint_path: str | None = None
) -> Checkpointer:
    """What ``reverb.checkpointers.DefaultCheckpointer`` tells the server."""
    return DefaultCheckpointer(name, group, fallback_checkpoint_path).internal_checkpointer()
