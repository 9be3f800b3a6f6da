"""Patterns, and the writer that cuts items out of steps with them."""

from relive.structured_writer import *  # noqa: F403
