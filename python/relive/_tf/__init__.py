"""Adapters for TensorFlow: real ``tf.data`` datasets on top of Relive's samplers.

Nothing outside this package and :mod:`relive.tf_client` imports TensorFlow, and ``import relive`` imports neither of
the two.
"""

from relive._tf.datasets import TimestepDataset, TrajectoryDataset
from relive._tf.pattern import PatternDataset, pattern_dataset_with_info

__all__ = ["PatternDataset", "TimestepDataset", "TrajectoryDataset", "pattern_dataset_with_info"]
