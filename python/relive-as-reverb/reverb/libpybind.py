"""dm-reverb's extension module, with the names of `pybind`."""

from reverb.pybind import *  # noqa: F403
