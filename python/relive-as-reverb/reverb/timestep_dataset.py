"""`TimestepDataset`: a `tf.data` dataset where TensorFlow is installed, an iterable of numpy samples elsewhere."""

import importlib.util

if importlib.util.find_spec("tensorflow"):
    from relive._tf.datasets import TimestepDataset as TimestepDataset
else:
    from relive.timestep_dataset import TimestepDataset as TimestepDataset  # type: ignore[assignment]
