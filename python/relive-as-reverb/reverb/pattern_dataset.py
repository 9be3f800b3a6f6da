"""`PatternDataset`: a `tf.data` dataset where TensorFlow is installed, an iterable of numpy items elsewhere."""

import importlib.util

if importlib.util.find_spec("tensorflow"):
    from relive._tf.pattern import PatternDataset as PatternDataset
    from relive._tf.pattern import pattern_dataset_with_info as pattern_dataset_with_info
else:
    from relive.pattern_dataset import PatternDataset as PatternDataset  # type: ignore[assignment]
    from relive.pattern_dataset import pattern_dataset_with_info as pattern_dataset_with_info  # type: ignore[assignment]
