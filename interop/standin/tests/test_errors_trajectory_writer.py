"""Errors of `TrajectoryWriter` and `TrajectoryColumn`."""

from __future__ import annotations

import datetime

import numpy as np
import reverb
from raising import raises
from support_tables import SIGNATURE, queue


def trajectory_writer(serve, num_keep_alive_refs=3, sig=None, **options):
    client = serve(queue(signature=sig), queue("other"))
    return client.trajectory_writer(num_keep_alive_refs, **options)


@raises(RuntimeError, "history cannot be accessed before `append` is called at least once.")
def test_history_before_the_first_step(serve):
    trajectory_writer(serve).history


@raises(ValueError, "num_keep_alive_refs (0) must be a positive integer")
def test_configure_no_refs(serve):
    trajectory_writer(serve).configure(("a",), num_keep_alive_refs=0, max_chunk_length=1)


@raises(ValueError, "max_chunk_length (0) must be None or a positive integer <= num_keep_alive_refs (1)")
def test_configure_length_zero(serve):
    trajectory_writer(serve).configure(("a",), num_keep_alive_refs=1, max_chunk_length=0)


@raises(ValueError, "max_chunk_length (2) must be None or a positive integer <= num_keep_alive_refs (1)")
def test_configure_length_too_long(serve):
    trajectory_writer(serve).configure(("a",), num_keep_alive_refs=1, max_chunk_length=2)


@raises(RuntimeError, "Flush must be called before ApplyConfig.")
def test_configure_late(serve):
    writer = trajectory_writer(serve)
    writer.configure(("a",), num_keep_alive_refs=3, max_chunk_length=2)
    writer.append({"a": 1})
    writer.configure(("a",), num_keep_alive_refs=2, max_chunk_length=1)


@raises(
    ValueError,
    "Field ('a',) has already been set in the active step by previous (partial) append call and thus"
    " must be omitted or set to None but got: 2",
)
def test_a_field_set_twice(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1}, partial_step=True)
    writer.append({"a": 2})


@raises(
    ValueError,
    "Field ('a', 1, 'b') has already been set in the active step by previous (partial) append call "
    "and thus must be omitted or set to None but got: [0. 0.]",
)
def test_a_nested_field_set_twice(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": [1, {"b": 2}]}, partial_step=True)
    writer.append({"a": [None, {"b": np.zeros(2)}]})


@raises(ValueError, "Tensor of wrong dtype provided for column ('a', 'b'). Got double but expected float.")
def test_dtype(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": {"b": np.float32(1)}})
    writer.append({"a": {"b": np.float64(1)}})


@raises(ValueError, "Tensor of wrong dtype provided for column ('a', 'b'). Got int64 but expected int32.")
def test_dtype_int(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": {"b": np.int32(1)}})
    writer.append({"a": {"b": np.int64(1)}})


@raises(ValueError, "Tensor of wrong dtype provided for column ('a', 'b'). Got int64 but expected string.")
def test_dtype_str(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": {"b": "x"}})
    writer.append({"a": {"b": np.int64(1)}})


@raises(ValueError, "Tensor of wrong dtype provided for column ('a', 'b'). Got half but expected bool.")
def test_dtype_bool(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": {"b": True}})
    writer.append({"a": {"b": np.float16(1)}})


@raises(
    ValueError,
    "Tensor of incompatible shape provided for column ('a', 'b'). Got [2,4] which is incompatible " "with [2,3].",
)
def test_shape(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": {"b": np.zeros((2, 3))}})
    writer.append({"a": {"b": np.zeros((2, 4))}})


@raises(ValueError, "Tensor of incompatible shape provided for column (0,). Got [] which is incompatible with [2,3].")
def test_shape_rank(serve):
    writer = trajectory_writer(serve)
    writer.append([np.zeros((2, 3))])
    writer.append([1.0])


@raises(TypeError, "Append(): incompatible function arguments.…")
def test_no_tensor(serve):
    writer = trajectory_writer(serve)
    writer.append([object()])


@raises(TypeError, "Append(): incompatible function arguments.…")
def test_an_array_of_objects(serve):
    writer = trajectory_writer(serve)
    writer.append([np.array([object(), 1])])


@raises(TypeError, "Append(): incompatible function arguments.…")
def test_a_time(serve):
    writer = trajectory_writer(serve)
    writer.append([datetime.datetime.now()])


@raises(TypeError, "All leaves of `trajectory` must be `TrajectoryColumn` but got {'a': 1}")
def test_not_columns(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.create_item("queue", 1.0, {"a": 1})


@raises(TypeError, "All leaves of `trajectory` must be `TrajectoryColumn` but got {'a': …}")
def test_not_columns_mixed(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.create_item("queue", 1.0, {"a": writer.history["a"][:], "b": np.zeros(2)})


@raises(TypeError, "All leaves of `trajectory` must be `TrajectoryColumn` but got {'a': …}")
def test_history_as_item(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.create_item("queue", 1.0, writer.history)


@raises(ValueError, "trajectory must not be empty.")
def test_empty_item(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.create_item("queue", 1.0, {})


@raises(ValueError, "`priority` must not be nan.")
def test_item_nan(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.create_item("queue", float("nan"), {"a": writer.history["a"][:]})
    writer.flush()


@raises(TypeError, "CreateItem(): incompatible function arguments.…")
def test_item_priority_type(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.create_item("queue", "x", {"a": writer.history["a"][:]})


@raises(TypeError, "CreateItem(): incompatible function arguments.…")
def test_item_table_type(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.create_item(5, 1.0, {"a": writer.history["a"][:]})


@raises(ValueError, "Unable to create item in table 'nowhere' since the table could not be found.")
def test_item_unknown(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.create_item("nowhere", 1.0, {"a": writer.history["a"][:]})


@raises(RuntimeError, "Priority table nowhere was not found")
def test_item_unknown_unvalidated(serve):
    writer = trajectory_writer(serve, validate_items=False)
    writer.append({"a": 1})
    writer.create_item("nowhere", 1.0, {"a": writer.history["a"][:]})
    writer.flush()


@raises(ValueError, "…Column references tensors with different dtypes: int64 (index 0) != float (index 1).")
def test_item_dtypes(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": np.int64(1), "b": np.float32(2)})
    writer.create_item("queue", 1.0, [reverb.TrajectoryColumn([*writer.history["a"][:], *writer.history["b"][:]])])


@raises(
    ValueError,
    "…Column references tensors with incompatible shapes: [2] (index 0) not compatible with [3] " "(index 1).",
)
def test_item_shapes(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": np.zeros(2), "b": np.zeros(3)})
    writer.create_item("queue", 1.0, [reverb.TrajectoryColumn([*writer.history["a"][:], *writer.history["b"][:]])])


@raises(
    ValueError,
    "Unable to create item in table 'queue' since the provided trajectory is inconsistent with the "
    "table signature. The trajectory has 1 columns but the table signature has 2 columns.\n\nThe table"
    " signature is:\n\t0: Tensor<name: 'a/a', dtype: float, shape: [?,2]>, 1: Tensor<name: 'b/b', "
    "dtype: int64, shape: [?]>\n\nThe provided trajectory signature was:\n\t0: Tensor<name: '0', dtype: "
    "float, shape: [1,2]>.\n",
)
def test_signature_columns(serve):
    writer = trajectory_writer(serve, sig=SIGNATURE)
    writer.append({"a": np.zeros(2, np.float32), "b": 1})
    writer.create_item("queue", 1.0, {"a": writer.history["a"][:]})


@raises(
    ValueError,
    "Unable to create item in table 'queue' since the provided trajectory is inconsistent with the "
    "table signature. The table expects column 1 to be a int64 [?] tensor but got a float [1] "
    "tensor.\n\nThe table signature is:\n\t0: Tensor<name: 'a/a', dtype: float, shape: [?,2]>, 1: "
    "Tensor<name: 'b/b', dtype: int64, shape: [?]>\n\nThe provided trajectory signature is:\n\t0: "
    "Tensor<name: '0', dtype: float, shape: [1,2]>, 1: Tensor<name: '1', dtype: float, shape: [1]>.\n",
)
def test_signature_dtype(serve):
    writer = trajectory_writer(serve, sig=SIGNATURE)
    writer.append({"a": np.zeros(2, np.float32), "b": np.float32(1)})
    writer.create_item("queue", 1.0, {"a": writer.history["a"][:], "b": writer.history["b"][:]})


@raises(
    ValueError,
    "Unable to create item in table 'queue' since the provided trajectory is inconsistent with the "
    "table signature. The table expects column 0 to be a float [?,2] tensor but got a float [1,3] "
    "tensor.\n\nThe table signature is:\n\t0: Tensor<name: 'a/a', dtype: float, shape: [?,2]>, 1: "
    "Tensor<name: 'b/b', dtype: int64, shape: [?]>\n\nThe provided trajectory signature is:\n\t0: "
    "Tensor<name: '0', dtype: float, shape: [1,3]>, 1: Tensor<name: '1', dtype: int64, shape: [1]>.\n",
)
def test_signature_shape(serve):
    writer = trajectory_writer(serve, sig=SIGNATURE)
    writer.append({"a": np.zeros(3, np.float32), "b": 1})
    writer.create_item("queue", 1.0, {"a": writer.history["a"][:], "b": writer.history["b"][:]})


@raises(
    ValueError,
    "Unable to create item in table 'queue' since the provided trajectory is inconsistent with the "
    "table signature. The table expects column 0 to be a float [?,2] tensor but got a float [2] "
    "tensor.\n\nThe table signature is:\n\t0: Tensor<name: 'a/a', dtype: float, shape: [?,2]>, 1: "
    "Tensor<name: 'b/b', dtype: int64, shape: [?]>\n\nThe provided trajectory signature is:\n\t0: "
    "Tensor<name: '0', dtype: float, shape: [2]>, 1: Tensor<name: '1', dtype: int64, shape: [1]>.\n",
)
def test_signature_squeezed(serve):
    writer = trajectory_writer(serve, sig=SIGNATURE)
    writer.append({"a": np.zeros(2, np.float32), "b": 1})
    writer.create_item("queue", 1.0, {"a": writer.history["a"][-1], "b": writer.history["b"][:]})


@raises(
    ValueError,
    "Unable to create item in table 'queue' since the provided trajectory is inconsistent with the "
    "table signature. The table expects column 1 to be a int64 [?] tensor but got a float [1] "
    "tensor.\n\nThe table signature is:\n\t0: Tensor<name: 'a/a', dtype: float, shape: [?,2]>, 1: "
    "Tensor<name: 'b/b', dtype: int64, shape: [?]>\n\nThe provided trajectory signature is:\n\t0: "
    "Tensor<name: '0', dtype: float, shape: [1,2]>, 1: Tensor<name: '1', dtype: float, shape: [1]>.\n",
)
def test_signature_names(serve):
    writer = trajectory_writer(serve, sig=SIGNATURE)
    writer.append({"x": np.zeros(2, np.float32), "y": np.float32(1)})
    writer.create_item("queue", 1.0, {"x": writer.history["x"][:], "y": writer.history["y"][:]})


@raises(
    ValueError,
    "TrajectoryColumns cannot contain any None data references: TrajectoryColumn at path ('a', -1) " "got [None].",
)
def test_column_none(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.append({"a": None, "b": 2})
    writer.history["a"][-1]


@raises(
    ValueError,
    "TrajectoryColumns cannot contain any None data references: TrajectoryColumn at path ('b', "
    "slice(-2, None, None)) got […].",
)
def test_column_none_slice(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.append({"a": 1, "b": 2})
    writer.history["b"][-2:]


@raises(
    ValueError,
    "TrajectoryColumns cannot contain any None data references: TrajectoryColumn at path ('a', "
    "slice(-3, None, None)) got […].",
)
def test_column_none_old(serve):
    writer = trajectory_writer(serve, 2)
    for _ in range(4):
        writer.append({"a": 1})
    writer.history["a"][-3:]


@raises(
    ValueError,
    "TrajectoryColumns cannot contain any None data references: TrajectoryColumn at path ('a', [0, " "-1]) got […].",
)
def test_column_none_list(serve):
    writer = trajectory_writer(serve, 2)
    for _ in range(4):
        writer.append({"a": 1})
    writer.history["a"][[0, -1]]


@raises(IndexError, "list index out of range")
def test_column_index(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.history["a"][9]


@raises(TypeError, "_ColumnHistory indices must be integers or slices, not <class 'str'>")
def test_column_str(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.history["a"]["x"]


@raises(TypeError, "_ColumnHistory indices must be integers or slices, not <class 'tuple'>")
def test_column_tuple(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.history["a"][0, 1]


@raises(TypeError, "TrajectoryColumn indices must be integers or slices, not <class 'str'>")
def test_trajectory_column_str(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.history["a"][:]["x"]


@raises(IndexError, "…")
def test_trajectory_column_index(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.history["a"][:][5]


@raises(ValueError, "Columns must contain exactly one data reference when squeeze set, got 2")
def test_trajectory_column_squeeze(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.append({"a": 1})
    reverb.TrajectoryColumn(list(writer.history["a"][:]), squeeze=True)


@raises(ValueError, "TrajectoryColumns cannot contain any None data references: TrajectoryColumn at path None got […].")
def test_trajectory_column_none(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    reverb.TrajectoryColumn([*writer.history["a"][:], None])


@raises(
    ValueError,
    "TrajectoryColumns cannot contain any None data references: TrajectoryColumn at path ('a',) got " "[None].",
)
def test_trajectory_column_none_path():
    reverb.TrajectoryColumn([None], path=("a",))


@raises(ValueError, "Columns must contain exactly one data reference when squeeze set, got 0")
def test_trajectory_column_squeeze_empty():
    reverb.TrajectoryColumn([], squeeze=True)


@raises(RuntimeError, "set_last called on empty history column")
def test_set_last_empty():
    reverb.trajectory_writer._ColumnHistory(("a",), 2).set_last(1)


@raises(RuntimeError, "set_last called on already set cell")
def test_set_last_set():
    h = reverb.trajectory_writer._ColumnHistory(("a",), 2)
    h.append(1)
    h.set_last(1)


@raises(ValueError, "block_until_num_items must be >= 0, got -1")
def test_flush_negative(serve):
    trajectory_writer(serve).flush(-1)


@raises(reverb.DeadlineExceededError, "Flush call did not complete within provided timeout of 0:00:00.200000")
def test_flush_timeout(serve):
    writer = serve(queue(size=1)).trajectory_writer(3)
    writer.append({"a": 1})
    for _ in range(3):
        writer.create_item("queue", 1.0, {"a": writer.history["a"][:]})
    writer.flush(timeout_ms=200)


@raises(reverb.DeadlineExceededError, "End episode call did not complete within provided timeout of 0:00:01.200000")
def test_end_timeout(serve):
    writer = serve(queue(size=1)).trajectory_writer(3)
    writer.append({"a": 1})
    for _ in range(3):
        writer.create_item("queue", 1.0, {"a": writer.history["a"][:]})
    writer.end_episode(timeout_ms=1200)


@raises(RuntimeError, "TrajectoryWriter::Close has been called.")
def test_append_closed(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.close()
    writer.append({"a": 1})


@raises(RuntimeError, "TrajectoryWriter::Close has been called.")
def test_item_closed(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    column = writer.history["a"][:]
    writer.close()
    writer.create_item("queue", 1.0, {"a": column})


@raises(RuntimeError, "TrajectoryWriter::Close has been called.")
def test_flush_closed(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.close()
    writer.flush()


@raises(RuntimeError, "TrajectoryWriter::Close has been called.")
def test_end_closed(serve):
    writer = trajectory_writer(serve)
    writer.append({"a": 1})
    writer.close()
    writer.end_episode()


@raises(TypeError, "…")
def test_flush_by_a_text(serve):
    trajectory_writer(serve).flush("x")
