"""`TrajectoryDataset`: a `tf.data` dataset if TensorFlow is installed, otherwise an iterable of numpy samples."""

import importlib.util

from reverb import _borrowed
from reverb.client import Client as _Client

if importlib.util.find_spec("tensorflow"):
    from relive._tf.datasets import TrajectoryDataset as _TrajectoryDataset
else:
    from relive.trajectory_dataset import TrajectoryDataset as _TrajectoryDataset  # type: ignore[assignment]


class TrajectoryDataset(_TrajectoryDataset):
    __doc__ = _TrajectoryDataset.__doc__

    # A client that waits for a stopped server of this process.
    _client_class = _Client


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Any List Optional Union",
    gen_reverb_ops="reverb.cc.ops.gen_reverb_ops",
    replay_sample="reverb.replay_sample",
    reverb_client="reverb.client",
    tf="tensorflow.compat.v1",
    tree="tree",
)
