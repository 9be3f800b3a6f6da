"""The messages of `checkpoint.proto`."""

from relive.cc.checkpointing.checkpoint_pb2 import *  # noqa: F403
