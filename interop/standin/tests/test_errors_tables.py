"""Errors of `Table`, `Server`, rate limiters, selectors, and tables from messages."""

from __future__ import annotations

import pytest
import reverb
import tensorflow as tf
from google.protobuf import message
from raising import check, raises
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


@pytest.mark.parametrize("max_times_sampled", [2**31, -(2**31) - 1, 2**70, 1.5])
def test_table_times_sampled(max_times_sampled):
    with pytest.raises(TypeError, match="max_times_sampled"):
        table(max_times_sampled=max_times_sampled)


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


def test_a_checkpoint_with_another_table(tmp_path):
    def server(*names):
        checkpointer = reverb.checkpointers.DefaultCheckpointer(str(tmp_path))
        return reverb.Server([queue(name) for name in names], checkpointer=checkpointer)

    first = server("a")
    first.localhost_client().checkpoint()
    first.stop()
    with pytest.raises(ValueError) as raised:
        server("b", "c")
    text = "Trying to load table 'a' but table was not found in provided list of tables. Available tables: ['b', 'c']"
    check(raised.value, ValueError, text)


def test_a_group_of_checkpoints(tmp_path):
    server = reverb.Server([queue()], checkpointer=reverb.checkpointers.DefaultCheckpointer(str(tmp_path), "group"))
    with pytest.raises(ValueError) as raised:
        server.localhost_client().checkpoint()
    check(raised.value, ValueError, "Setting non-empty group is not supported")
    server.stop()


@raises(TypeError, "…")
def test_server_port_type():
    reverb.Server([queue()], port="x")


@raises(ValueError, "min_size_to_sample (0) must be a positive integer")
def test_limiter_min_size_zero():
    limiters.MinSize(0)


@raises(TypeError, "…")
def test_limiter_of_a_text():
    limiters.MinSize("x")


@pytest.mark.parametrize("kind", [limiters.Queue, limiters.Stack])
def test_limiter_below_one(is_standin, kind):
    if not is_standin:
        pytest.skip("dm-reverb's blocks all inserts")
    for size in (0, 0.5, float("nan")):
        with pytest.raises(ValueError, match="size"):
            kind(size)


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
