"""The results of sampling."""

import pytest

from relive import ReplaySample, SampleInfo


def test_fields_match_dm_reverb() -> None:
    assert SampleInfo._fields == ("key", "probability", "table_size", "priority", "times_sampled")
    assert ReplaySample._fields == ("info", "data")


def test_zeros() -> None:
    zeros = SampleInfo.zeros()
    assert zeros == (0, 0.0, 0, 0.0, 0)
    assert [type(value) for value in zeros] == [int, float, int, float, int]


@pytest.mark.tensorflow
def test_tensorflows_types_and_shapes() -> None:
    import tensorflow as tf
    assert SampleInfo.tf_dtypes() == (tf.uint64, tf.float64, tf.int64, tf.float64, tf.int32)
    assert SampleInfo.tf_shapes() == (tf.TensorShape([]),) * 5
