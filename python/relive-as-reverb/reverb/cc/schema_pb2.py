"""The messages of `schema.proto`."""

from relive.cc.schema_pb2 import *  # noqa: F403
