"""The messages of `patterns.proto`."""

from relive.cc.patterns_pb2 import *  # noqa: F403
