"""The names of dm-reverb's extension module."""

from relive.pybind import *  # noqa: F403
