"""`PatternDataset`: a `tf.data` dataset if TensorFlow is installed, otherwise an iterable of numpy items."""

import importlib.util

from reverb import _borrowed

if importlib.util.find_spec("tensorflow"):
    from relive._tf.pattern import PatternDataset as PatternDataset
    from relive._tf.pattern import pattern_dataset_with_info as pattern_dataset_with_info
else:
    from relive.pattern_dataset import PatternDataset as PatternDataset  # type: ignore[assignment]
    from relive.pattern_dataset import pattern_dataset_with_info as pattern_dataset_with_info  # type: ignore[assignment]


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Any Callable Sequence",
    dataset_ops="tensorflow.python.data.ops.dataset_ops",
    gen_reverb_ops="reverb.cc.ops.gen_reverb_ops",
    patterns_pb2="reverb.cc.patterns_pb2",
    replay_sample="reverb.replay_sample",
    structured_function="tensorflow.python.data.ops.structured_function",
    structured_writer="reverb.structured_writer",
    tf="tensorflow",
    tree="tree",
)
