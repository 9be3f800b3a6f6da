"""Names that programs use."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import reverb

_PUBLIC = """
    Client Writer Server Table TFClient TimestepDataset TrajectoryDataset PatternDataset TrajectoryWriter TrajectoryColumn
    ReplaySample SampleInfo ReverbError DeadlineExceededError selectors rate_limiters structured checkpointers
    client errors item_selectors pattern_dataset pybind replay_sample reverb_types server structured_writer tf_client
    timestep_dataset trajectory_dataset trajectory_writer platform
"""
_IN_MODULES = {
    "client": "Client Writer",
    "errors": "ReverbError DeadlineExceededError",
    "item_selectors": "Fifo Lifo MaxHeap MinHeap Prioritized Uniform",
    "pattern_dataset": "PatternDataset pattern_dataset_with_info",
    "pybind": """ItemSelector FifoSelector LifoSelector UniformSelector HeapSelector PrioritizedSelector selector_from_proto
        TableExtension RateLimiter Table Writer Sampler Client Checkpointer create_default_checkpointer Server WeakCellRef
        ChunkerOptions ConstantChunkerOptions AutoTunedChunkerOptions TrajectoryWriter StructuredWriter""",
    "rate_limiters": "RateLimiter MinSize SampleToInsertRatio Queue Stack",
    "replay_sample": "ReplaySample SampleInfo",
    "reverb_types": "TableInfo",
    "server": "Server Table TableExtensionBase",
    "structured_writer": """StructuredWriter create_reference_step pattern_from_transform create_config unpack_pattern
        infer_signature Condition constant_priority_fn td_error""",
    "tf_client": "TFClient",
    "timestep_dataset": "TimestepDataset",
    "trajectory_dataset": "TrajectoryDataset",
    "trajectory_writer": "TrajectoryWriter TrajectoryColumn _ColumnHistory",
    "platform.checkpointers_lib": "CheckpointerBase DefaultCheckpointer TempDirCheckpointer",
    "platform.default.checkpointers": "CheckpointerBase DefaultCheckpointer TempDirCheckpointer default_checkpointer",
    "server_executable.server_from_proto": "selector_from_proto rate_limiter_from_proto tables_from_proto",
    "server_executable.reverb_config_pb2": "ReverbServerConfig",
    "cc.schema_pb2": """ChunkData SequenceRange FlatTrajectory PrioritizedItem KeyWithPriority SampleInfo TableInfo
        RateLimiterCallStats RateLimiterInfo KeyDistributionOptions""",
    "cc.patterns_pb2": "PatternNode Priority Condition StructuredWriterConfig",
    "cc.checkpointing.checkpoint_pb2": "PriorityTableCheckpoint RateLimiterCheckpoint",
}


@pytest.mark.parametrize("name", _PUBLIC.split())
def test_public_names(name):
    assert getattr(reverb, name) is not None


@pytest.mark.parametrize("module", _IN_MODULES)
def test_names_in_modules(module):
    found = importlib.import_module(f"reverb.{module}")
    assert [name for name in _IN_MODULES[module].split() if not hasattr(found, name)] == []


def test_selectors_are_instances_of_their_classes():
    selectors, pybind = reverb.selectors, reverb.pybind
    assert isinstance(selectors.MaxHeap(), pybind.HeapSelector)
    assert isinstance(selectors.MinHeap(), pybind.HeapSelector)
    assert isinstance(selectors.Fifo(), pybind.FifoSelector)
    assert isinstance(selectors.Lifo(), pybind.LifoSelector)
    assert isinstance(selectors.Uniform(), pybind.UniformSelector)
    assert isinstance(selectors.Prioritized(0.5), pybind.PrioritizedSelector)
    assert isinstance(selectors.Prioritized(0.5), pybind.ItemSelector)


def test_chunkers_compare():
    constant, tuned = reverb.pybind.ConstantChunkerOptions, reverb.pybind.AutoTunedChunkerOptions
    assert constant(2, 4) == constant(2, 4)
    assert constant(2, 4) != constant(1, 4)
    assert constant(2, 4) != constant(2, 5)
    assert tuned(3, 1.0) == tuned(3, 0.5)
    assert tuned(3, 1.0) != tuned(4, 1.0)


def test_information_tensors_of_a_sampler():
    assert reverb.pybind.Sampler.NUM_INFO_TENSORS == 5


def test_checkpointers_are_checkpointers(tmp_path):
    base = reverb.checkpointers.CheckpointerBase
    assert isinstance(reverb.checkpointers.DefaultCheckpointer(str(tmp_path)), base)
    assert isinstance(reverb.checkpointers.default_checkpointer(), reverb.checkpointers.TempDirCheckpointer)


def test_options_of_a_table_are_messages(serve):
    client = serve(
        reverb.Table(
            "table",
            reverb.selectors.Prioritized(0.5),
            reverb.selectors.MinHeap(),
            10,
            reverb.rate_limiters.SampleToInsertRatio(2.0, 3, 4.0),
        )
    )
    info = client.server_info(timeout=5)["table"]
    assert info.sampler_options.HasField("prioritized")
    assert info.sampler_options.prioritized.priority_exponent == 0.5
    assert info.remover_options.HasField("heap")
    assert info.remover_options.heap.min_heap
    assert not info.remover_options.HasField("fifo")
    assert info.rate_limiter_info.samples_per_insert == 2.0
    assert info.rate_limiter_info.min_size_to_sample == 3
    assert reverb.pybind.selector_from_proto(info.sampler_options.SerializeToString()) is not None


def test_signatures_are_tensor_specs(serve):
    import tensorflow as tf

    signature = {"a": tf.TensorSpec([None, 2], tf.float32, "a"), "b": [tf.TensorSpec([], tf.string)]}
    table = reverb.Table.queue("table", 10, signature=signature)
    client = serve(table)
    assert client.server_info(timeout=5)["table"].signature == signature
    assert table.info.signature == signature


def test_tables_from_a_configuration():
    from google.protobuf import text_format

    from reverb.server_executable import reverb_config_pb2, server_from_proto

    text = """
        port: 0
        tables {
            table_name: "queue" max_size: 7 max_times_sampled: 1
            sampler { fifo: true } remover { lifo: true }
            rate_limiter { samples_per_insert: 1 min_size_to_sample: 1 min_diff: 0 max_diff: 7 }
        }
        tables {
            table_name: "heap" max_size: 8
            sampler { heap { min_heap: true } } remover { prioritized { priority_exponent: 0.5 } }
            rate_limiter { samples_per_insert: 2 min_size_to_sample: 3 min_diff: -1e9 max_diff: 1e9 }
        }
    """
    config = text_format.Parse(text, reverb_config_pb2.ReverbServerConfig())
    queue, heap = server_from_proto.tables_from_proto(config.tables)
    assert (queue.name, queue.info.max_size, queue.info.max_times_sampled) == ("queue", 7, 1)
    assert queue.info.remover_options.lifo
    assert heap.info.sampler_options.heap.min_heap
    assert heap.info.remover_options.prioritized.priority_exponent == 0.5
    assert heap.info.rate_limiter_info.min_size_to_sample == 3


def test_tensorflow_messages_can_be_embedded():
    import tensorflow as tf
    from reverb.cc.checkpointing import checkpoint_pb2
    from tensorflow.python.saved_model import nested_structure_coder

    signature = {"a": tf.TensorSpec([3], tf.float32)}
    encoded = nested_structure_coder.encode_structure(signature)
    table = checkpoint_pb2.PriorityTableCheckpoint(table_name="table", signature=encoded)
    assert nested_structure_coder.decode_proto(table.signature) == signature


def test_sample_information():
    import tensorflow as tf

    info = reverb.SampleInfo
    assert tuple(info.tf_dtypes()) == (tf.uint64, tf.double, tf.int64, tf.double, tf.int32)
    assert [shape.rank for shape in info.tf_shapes()] == [0] * 5
    assert [np.asarray(zero).item() for zero in info.zeros()] == [0] * 5


def test_a_server_from_the_command_line(is_standin):
    """The stand-in's `reverb_server`, which exits with 0 on Ctrl-C."""
    if not is_standin:
        pytest.skip("dm-reverb's never says that it is ready")
    config = """--config=tables { table_name: "queue" max_size: 7 sampler { fifo: true } remover { fifo: true }
        rate_limiter { samples_per_insert: 1 min_size_to_sample: 1 max_diff: 7 } }"""
    server = subprocess.Popen(
        [sys.executable, "-m", "reverb.server_executable.server_main", config],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ready = server.stdout.readline()
        port = int(ready.split()[-1])
        client = reverb.Client(f"localhost:{port}")
        assert client.server_info(timeout=10)["queue"].max_size == 7
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=20) == 0
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
