"""Errors of `Table`, `Server`, rate limiters, selectors, and tables from messages."""

from __future__ import annotations

import reverb
import tensorflow as tf
from google.protobuf import message
from raising import raises
from reverb.cc import schema_pb2
from reverb.cc.checkpointing import checkpoint_pb2
from reverb.server_executable import server_from_proto
from support_tables import limiters, queue, selectors, table


@raises(ValueError, "name must be nonempty")
def test_table_without_name():
    table("")


@raises(ValueError, "max_size (0) must be a positive integer")
def test_table_size_zero():
    table(max_size=0)


@raises(ValueError, "Unsupported signature spec: <dtype: 'float32'>")
def test_table_signature():
    table(signature={"a": tf.float32})


@raises(ValueError, "Unsupported signature spec: 5")
def test_table_signature_of_a_number():
    table(signature=5)


@raises(TypeError, "…")
def test_table_float_size():
    table(max_size=1.5)


@raises(ValueError, "max_size (0) must be a positive integer")
def test_queue_size_zero():
    reverb.Table.queue("q", 0)


@raises(ValueError, "max_size (0) must be a positive integer")
def test_stack_size_zero():
    reverb.Table.stack("q", 0)


@raises(ValueError, "name must be nonempty")
def test_replace_name():
    queue().replace(name="")


@raises(ValueError, "At least one table must be provided")
def test_server_none():
    reverb.Server([])


@raises(ValueError, "At least one table must be provided")
def test_server_without_arguments():
    reverb.Server()


@raises(ValueError, "Multiple items in tables have the same name: a, b")
def test_server_dupes():
    reverb.Server([queue("a"), queue("a"), queue("b"), queue("b")])


@raises(TypeError, "…")
def test_server_port_type():
    reverb.Server([queue()], port="x")


@raises(ValueError, "min_size_to_sample (0) must be a positive integer")
def test_limiter_min_size_zero():
    limiters.MinSize(0)


@raises(TypeError, "…")
def test_limiter_of_a_text():
    limiters.MinSize("x")


@raises(ValueError, "samples_per_insert (0) must be > 0")
def test_limiter_ratio_zero():
    limiters.SampleToInsertRatio(0, 1, 1)


@raises(
    ValueError,
    "The size of error_buffer must be >= max(1.0, samples_per_insert) as smaller values could "
    "completely block samples and/or insert calls.",
)
def test_limiter_ratio_buffer():
    limiters.SampleToInsertRatio(4.0, 1, 1.0)


@raises(
    ValueError,
    "The range covered by error_buffer is above samples_per_insert * min_size_to_sample. This will "
    "result in a deadlock as soon as min_size_to_sample items have been inserted.",
)
def test_limiter_ratio_above():
    limiters.SampleToInsertRatio(1.0, 1, (5.0, 10.0))


@raises(ValueError, "min_size_to_sample (0) must be a positive integer")
def test_limiter_ratio_min_size_zero():
    limiters.SampleToInsertRatio(1.0, 0, 10.0)


@raises(ValueError, "…")
def test_limiter_ratio_tuple():
    limiters.SampleToInsertRatio(1.0, 1, (1.0,))


@raises(TypeError, "…")
def test_selector_prioritized_str():
    selectors.Prioritized("x")


@raises(TypeError, "…")
def test_selector_prioritized_none():
    selectors.Prioritized()


@raises(TypeError, "…")
def test_base_checkpointer():
    reverb.checkpointers.CheckpointerBase()


@raises(TypeError, "…")
def test_base_extension():
    reverb.server.TableExtensionBase()


@raises(NotImplementedError, "distribution=None")
def test_from_proto_empty():
    server_from_proto.selector_from_proto(schema_pb2.KeyDistributionOptions())


@raises(ValueError, "distribution=fifo but the associated boolean value is false.")
def test_from_proto_false():
    server_from_proto.selector_from_proto(schema_pb2.KeyDistributionOptions(fifo=False))


@raises(ValueError, "distribution=lifo but the associated boolean value is false.")
def test_from_proto_false_lifo():
    server_from_proto.selector_from_proto(schema_pb2.KeyDistributionOptions(lifo=False))


@raises(NotImplementedError, "distribution=None")
def test_from_proto_tables():
    server_from_proto.tables_from_proto([checkpoint_pb2.PriorityTableCheckpoint(table_name="x")])


@raises(message.DecodeError, "…")
def test_info_from_bytes():
    reverb.reverb_types.TableInfo.from_serialized_proto(b"\xff")
