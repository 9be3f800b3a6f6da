"""Names that programs use."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import threading

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


def test_an_empty_fallback_is_none(tmp_path, is_standin):
    checkpointer = reverb.checkpointers.DefaultCheckpointer(str(tmp_path), fallback_checkpoint_path="")
    if is_standin:
        # dm-reverb's compiled object does not show its options.
        assert checkpointer.internal_checkpointer().fallback_checkpoint_path is None
    server = reverb.Server([reverb.Table.queue("queue", 7)], checkpointer=checkpointer)
    assert reverb.Client(f"localhost:{server.port}").server_info()["queue"].current_size == 0
    server.stop()


@pytest.mark.parametrize("kind", [reverb.rate_limiters.Queue, reverb.rate_limiters.Stack])
@pytest.mark.parametrize("size", [2.5, np.float64(3), np.float32(3), np.int64(4), 1])
def test_sizes_of_queues_are_numbers(kind, size):
    fifo, lifo = reverb.selectors.Fifo(), reverb.selectors.Lifo()
    table = reverb.Table("table", fifo, lifo, 10, kind(size), max_times_sampled=1)
    assert table.info.rate_limiter_info.max_diff == size
    assert table.can_insert(int(size)) and not table.can_insert(int(size) + 1)


def test_bools_are_numbers(serve):
    options = {"max_times_sampled": True, "rate_limiter": reverb.rate_limiters.MinSize(True)}
    table = reverb.Table("table", reverb.selectors.Fifo(), reverb.selectors.Fifo(), max_size=True, **options)
    client = serve(table)
    assert (table.info.max_size, table.info.max_times_sampled) == (1, 1)
    client.insert([1], {"table": 1.0})
    for other in (reverb.Table.queue("queue", True), reverb.Table.stack("stack", np.True_)):
        assert (other.info.max_size, other.info.max_times_sampled) == (1, 1)
    for limiter in (
        reverb.rate_limiters.SampleToInsertRatio(1.0, True, 5.0),
        reverb.pybind.RateLimiter(1.0, np.True_, -4.0, 6.0),
    ):
        assert "min_size_to_sample=1" in repr(limiter)
    assert len(list(client.sample("table", True))) == 1


def test_the_parts_below(serve):
    table = reverb.Table.queue("queue", 7)
    assert isinstance(table.internal_table, reverb.pybind.Table)
    assert table.internal_table.name() == "queue"
    assert table.internal_table.can_insert(7) and not table.internal_table.can_sample(1)
    info = reverb.reverb_types.TableInfo.from_serialized_proto(table.internal_table.info())
    assert (info.name, info.max_size) == ("queue", 7)
    server = reverb.Server([table])
    assert isinstance(server._server, reverb.pybind.Server) and server._port == server.port
    client = server.localhost_client()
    assert isinstance(client._client, reverb.pybind.Client)
    assert len(client._client.ServerInfo(10)) == 1
    server._server.Stop()


def test_tables_of_running_servers(serve, is_standin):
    if not is_standin:
        pytest.skip("dm-reverb's servers have fixed tables")
    client = serve(reverb.Table.queue("queue", 7))
    client.add_table(reverb.Table.queue("added", 8))
    assert client.server_info(timeout=10)["added"].max_size == 8


def test_attributes_of_limiters():
    limiters = reverb.rate_limiters
    for limiter in (limiters.SampleToInsertRatio(2.0, 3, 4.0), limiters.RateLimiter(2.0, 3, 2.0, 10.0)):
        assert (limiter._samples_per_insert, limiter._min_size_to_sample) == (2.0, 3)
        assert (limiter._min_diff, limiter._max_diff) == (2.0, 10.0)
        limiter.tag = 1
    for kind in (limiters.MinSize, limiters.Queue, limiters.Stack):
        assert isinstance(kind(1), limiters.RateLimiter)


def test_limiters_of_a_configuration():
    from reverb.cc.checkpointing import checkpoint_pb2
    from reverb.server_executable import server_from_proto

    proto = checkpoint_pb2.RateLimiterCheckpoint(samples_per_insert=2, min_size_to_sample=3, min_diff=-1, max_diff=5)
    limiter = server_from_proto.rate_limiter_from_proto(proto)
    assert isinstance(limiter, reverb.rate_limiters.RateLimiter)
    assert repr(limiter) == "RateLimiter(samples_per_insert=2, min_diff_=-1, max_diff=5, min_size_to_sample=3)"


def test_texts_of_tables():
    import tensorflow as tf

    queue = (
        "Table(sampler=FifoSelector, remover=FifoSelector, max_size=7, max_times_sampled=1, name=queue, rate_limiter="
        "RateLimiter(samples_per_insert=1, min_diff_=0, max_diff=7, min_size_to_sample=1), signature="
    )
    table = reverb.Table.queue("queue", 7)
    assert repr(table) == repr(table.internal_table) == f"{queue}nullptr)"
    signature = {name: tf.TensorSpec([None], tf.float32, "x") for name in ("b", "a")}
    tensor = """
    key: "{}"
    value {{
      tensor_spec_value {{
        name: "x"
        shape {{
          dim {{
            size: -1
          }}
        }}
        dtype: DT_FLOAT
      }}
    }}
"""
    fields = "".join(f"  fields {{{tensor.format(name)}  }}\n" for name in "ab")
    assert repr(reverb.Table.queue("queue", 7, signature=signature)) == f"{queue}dict_value {{\n{fields}}}\n)"


def test_addresses_that_are_bytes(serve):
    import tensorflow as tf

    client = serve(reverb.Table.queue("queue", 7, signature=tf.TensorSpec([None], tf.int64)))
    address = client.server_address.encode()
    reverb.Client(address).insert(np.int64(5), {"queue": 1.0})
    reverb.TFClient(address).insert([tf.constant(6, tf.int64)], tf.constant(["queue"]), tf.constant([1.0], tf.float64))
    dataset = reverb.TrajectoryDataset.from_table_signature(address, "queue", 1, max_samples=2)
    assert [sample.data.numpy().tolist() for sample in dataset] == [[5], [6]]


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


@pytest.mark.parametrize("is_in_a_file", [False, True])
def test_a_server_from_the_command_line(is_standin, tmp_path, is_in_a_file):
    """The stand-in's `reverb_server`, which exits with 0 on Ctrl-C."""
    if not is_standin:
        pytest.skip("dm-reverb's never says that it is ready")
    config = """-config=tables { table_name: "queue" max_size: 7 sampler { fifo: true } remover { fifo: true } """
    config += "rate_limiter { samples_per_insert: 1 min_size_to_sample: 1 max_diff: 7 } }"
    flags = ["unused", config, "--alsologtostderr", "--nologtostderr", "--v=1", "-stderrthreshold", "info"]
    if is_in_a_file:
        file = tmp_path / "flags"
        file.write_text("\n".join(["# A server.", f"--flagfile={file}", *flags, ""]))
        flags = ["--flagfile", str(file)]
    server = subprocess.Popen(
        [sys.executable, "-m", "reverb.server_executable.server_main", *flags],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ready = server.stdout.readline()
        port = int(ready.split()[-1])
        client = reverb.Client(f"localhost:{port}")
        assert client.server_info(timeout=10)["queue"].max_size == 7
        writer = client.trajectory_writer(1)
        writer.append({"a": 1})
        with pytest.raises(ValueError, match="^Unable to create item in table 'nowhere' since the table could not be found."):
            writer.create_item("nowhere", 1.0, {"a": writer.history["a"][:]})
        writer.close()
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=20) == 0
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def test_tables_from_a_configuration_are_tables_of_this_package():
    from reverb.cc.checkpointing import checkpoint_pb2
    from reverb.server_executable import server_from_proto

    table = checkpoint_pb2.PriorityTableCheckpoint(table_name="queue", max_size=7)
    for selector in (table.sampler, table.remover):
        selector.fifo = True
    table.rate_limiter.samples_per_insert = table.rate_limiter.min_size_to_sample = 1
    (made,) = server_from_proto.tables_from_proto([table])
    assert isinstance(made, reverb.Table) and made.name == "queue"


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_sigint_ends_the_wait_for_a_server_even_if_it_is_ignored(handler):
    server = reverb.Server([reverb.Table.queue("queue", 7)])
    main, has_ended = threading.main_thread(), threading.Event()

    def interrupt():
        while not has_ended.wait(0.05):
            signal.pthread_kill(main.ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            server.wait()
    finally:
        has_ended.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
        server.stop()
