"""Errors of `Writer`."""

from __future__ import annotations

import numpy as np
from raising import raises
from support_tables import SIGNATURE, queue


@raises(ValueError, "Cannot reuse already closed Writer")
def test_a_closed_writer_in_a_with_block(serve):
    writer = serve(queue()).writer(1)
    writer.close()
    with writer:
        pass


@raises(ValueError, "num_timesteps (…) must be a positive integer")
def test_item_of_no_steps(serve):
    writer = serve(queue()).writer(1)
    writer.append([1])
    writer.create_item("queue", 0, 1.0)


@raises(ValueError, "Argument `num_timesteps` is larger than number of buffered timesteps.")
def test_item_too_long(serve):
    writer = serve(queue()).writer(3)
    writer.append([1])
    writer.create_item("queue", 2, 1.0)


@raises(ValueError, "Argument `num_timesteps` is larger than number of buffered timesteps.")
def test_item_longer_than_the_kept_chunks(serve):
    writer = serve(queue()).writer(2)
    for _ in range(4):
        writer.append([1])
    writer.create_item("queue", 3, 1.0)


@raises(ValueError, "`num_timesteps` must be <= `max_timesteps`")
def test_item_longer_than_max(serve):
    writer = serve(queue()).writer(3)
    for _ in range(5):
        writer.append([1])
    writer.create_item("queue", 4, 1.0)


@raises(ValueError, "`priority` must not be nan.")
def test_item_nan(serve):
    writer = serve(queue()).writer(1)
    writer.append([1])
    writer.create_item("queue", 1, float("nan"))


@raises(TypeError, "CreateItem(): incompatible function arguments.…")
def test_item_priority_type(serve):
    writer = serve(queue()).writer(1)
    writer.append([1])
    writer.create_item("queue", 1, "x")


@raises(TypeError, "CreateItem(): incompatible function arguments.…")
def test_item_table_type(serve):
    writer = serve(queue()).writer(1)
    writer.append([1])
    writer.create_item(5, 1, 1.0)


@raises(ValueError, "Unable to find signatures for table 'nowhere' in signature cache.  Available tables: […].")
def test_item_unknown(serve):
    writer = serve(queue("a"), queue("b")).writer(1)
    writer.append([1])
    writer.create_item("nowhere", 1, 1.0)
    writer.flush()


@raises(ValueError, "close() has already been called on Writer.")
def test_close_twice(serve):
    writer = serve(queue()).writer(1)
    writer.close()
    writer.close()


@raises(RuntimeError, "Calling method Append after Close has been called")
def test_append_closed(serve):
    writer = serve(queue()).writer(1)
    writer.close()
    writer.append([1])


@raises(RuntimeError, "Calling method Append after Close has been called")
def test_sequence_closed(serve):
    writer = serve(queue()).writer(1)
    writer.close()
    writer.append_sequence([np.zeros(2)])


@raises(RuntimeError, "Calling method CreateItem after Close has been called")
def test_item_closed(serve):
    writer = serve(queue()).writer(1)
    writer.append([1])
    writer.close()
    writer.create_item("queue", 1, 1.0)


@raises(RuntimeError, "Calling method Flush after Close has been called")
def test_flush_closed(serve):
    writer = serve(queue()).writer(1)
    writer.close()
    writer.flush()


@raises(ValueError, "AppendSequence called with scalar tensor at index 0.")
def test_sequence_scalar(serve):
    writer = serve(queue()).writer(3)
    writer.append_sequence([np.float32(1)])


@raises(ValueError, "AppendSequence called with empty data.")
def test_sequence_empty(serve):
    writer = serve(queue()).writer(3)
    writer.append_sequence([])


@raises(
    ValueError,
    "AppendSequence called with tensors of non equal batch dimension: 0: Tensor<name: '', dtype: "
    "double, shape: [2]>, 1: Tensor<name: '', dtype: double, shape: [3]>.",
)
def test_sequence_lengths(serve):
    writer = serve(queue()).writer(3)
    writer.append_sequence([np.zeros(2), np.zeros(3)])


@raises(TypeError, "Append(): incompatible function arguments.…")
def test_append_object(serve):
    writer = serve(queue()).writer(3)
    writer.append([object()])


@raises(TypeError, "Append(): incompatible function arguments.…")
def test_append_none(serve):
    writer = serve(queue()).writer(3)
    writer.append([None])


@raises(ValueError, "Number of tensors per timestep was inconsistent. Previously it was 1, but is now 2.")
def test_append_more(serve):
    writer = serve(queue()).writer(3)
    writer.append([1])
    writer.append([1, 2])


@raises(ValueError, "Cannot concatenate tensors that have different data types. Got float and int64.")
def test_append_dtype(serve):
    writer = serve(queue()).writer(3)
    writer.append([np.float32(1)])
    writer.append([np.int64(1)])
    writer.create_item("queue", 2, 1.0)
    writer.flush()


@raises(
    ValueError,
    "Unable to concatenate tensors at index 0 due to mismatched shapes.  Tensor 0 has shape: [2], "
    "but tensor 1 has shape: [3]",
)
def test_append_shape(serve):
    writer = serve(queue()).writer(3)
    writer.append([np.zeros(2)])
    writer.append([np.zeros(3)])
    writer.create_item("queue", 2, 1.0)
    writer.flush()


@raises(
    ValueError,
    "Unable to CreateItem in table 'queue' because Append was called with a tensor signature "
    "inconsistent with the table signature. At timestep offset 0, flattened index 1, saw a tensor of"
    " dtype float, shape [], but expected tensor 'b/b' of dtype int64 and shape compatible with [?]."
    "  (Flattened) table signature: 0: Tensor<name: 'a/a', dtype: float, shape: [?,2]>, 1: "
    "Tensor<name: 'b/b', dtype: int64, shape: [?]>, data signature: 0: Tensor<name: '', dtype: "
    "float, shape: [2]>, 1: Tensor<name: '', dtype: float, shape: []>.",
)
def test_signature_dtype(serve):
    writer = serve(queue(signature=SIGNATURE)).writer(3)
    writer.append({"a": np.zeros(2, np.float32), "b": np.float32(1)})
    writer.create_item("queue", 1, 1.0)
    writer.flush()


@raises(
    ValueError,
    "Unable to CreateItem in table 'queue' because Append was called with a tensor signature "
    "inconsistent with the table signature. At timestep offset 0, flattened index 0, saw a tensor of"
    " dtype float, shape [3], but expected tensor 'a/a' of dtype float and shape compatible with "
    "[?,2].  (Flattened) table signature: 0: Tensor<name: 'a/a', dtype: float, shape: [?,2]>, 1: "
    "Tensor<name: 'b/b', dtype: int64, shape: [?]>, data signature: 0: Tensor<name: '', dtype: "
    "float, shape: [3]>, 1: Tensor<name: '', dtype: int64, shape: []>.",
)
def test_signature_shape(serve):
    writer = serve(queue(signature=SIGNATURE)).writer(3)
    writer.append({"a": np.zeros(3, np.float32), "b": np.int64(1)})
    writer.create_item("queue", 1, 1.0)
    writer.flush()


@raises(
    ValueError,
    "Unable to CreateItem in table 'queue' because Append was called with a tensor signature "
    "inconsistent with table signature.  Append for timestep offset 0 was called with 1 tensors, but"
    " table requires 2 tensors per entry.  Table signature: 0: Tensor<name: 'a/a', dtype: float, "
    "shape: [?,2]>, 1: Tensor<name: 'b/b', dtype: int64, shape: [?]>, data signature: 0: "
    "Tensor<name: '', dtype: float, shape: [2]>.",
)
def test_signature_columns(serve):
    writer = serve(queue(signature=SIGNATURE)).writer(3)
    writer.append({"a": np.zeros(2, np.float32)})
    writer.create_item("queue", 1, 1.0)
    writer.flush()
