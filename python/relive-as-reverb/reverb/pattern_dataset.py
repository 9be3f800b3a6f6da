"""`PatternDataset`: a `tf.data` dataset if TensorFlow is installed, otherwise an iterable of numpy items."""

import importlib.util
from collections.abc import Callable as _Callable
from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from reverb import _borrowed
from reverb.client import Client as _Client

if importlib.util.find_spec("tensorflow"):
    from relive._tf import pattern as _relive
else:
    from relive import pattern_dataset as _relive  # type: ignore[no-redef]


class PatternDataset(_relive.PatternDataset):
    __doc__ = _relive.PatternDataset.__doc__

    # A client whose writer treats conditions as dm-reverb does.
    _client_class = _Client


def pattern_dataset_with_info(
    input_dataset: _Any,
    configs: _Sequence[_Any],
    respect_episode_boundaries: bool,
    is_end_of_episode: _Callable[[_Any], _Any],
) -> _Any:
    """Like `PatternDataset`, with each item in a `ReplaySample` with zeros as information."""
    return _relive._with_info(
        PatternDataset(input_dataset, configs, respect_episode_boundaries, is_end_of_episode)
    )


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
