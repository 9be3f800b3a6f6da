"""dm-reverb's extension module, of which `pybind` has the names."""

from reverb.pybind import *  # noqa: F403
