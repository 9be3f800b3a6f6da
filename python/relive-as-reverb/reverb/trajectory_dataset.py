"""`TrajectoryDataset`: a `tf.data` dataset where TensorFlow is installed, an iterable of numpy samples elsewhere."""

import importlib.util

if importlib.util.find_spec("tensorflow"):
    from relive._tf.datasets import TrajectoryDataset as TrajectoryDataset
else:
    from relive.trajectory_dataset import TrajectoryDataset as TrajectoryDataset  # type: ignore[assignment]
