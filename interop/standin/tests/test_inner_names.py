"""Names of dm-reverb that few programs use: names in its compiled half, operations, and helpers."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import tensorflow as tf
from reverb import pybind, structured_writer
from reverb.cc import patterns_pb2, schema_pb2
from reverb.cc.ops import gen_reverb_ops
from reverb.platform.default import ensure_tf_install, load_op_library
from support_tables import STEP, config, queue, selectors, table


def test_configurations_have_a_type():
    """`Config` is available under the name that Acme's adders use in their type annotations."""
    assert structured_writer.Config is patterns_pb2.StructuredWriterConfig
    assert structured_writer.ConditionProto is patterns_pb2.Condition
    assert isinstance(config(lambda step: step["a"][-1]), reverb.structured.Config)

    def configs() -> list[structured_writer.Config]:
        return [config(lambda step: step["a"][-1])]

    assert configs.__annotations__ and configs()[0].table == "queue"


def test_signatures_are_inferred_as_tensor_specs():
    class Spec:
        def __init__(self, shape, dtype):
            self.shape, self.dtype = shape, dtype

    configs = [config(lambda step: {"x": step["a"][-3:], "y": step["b"]["c"][-1]})]
    spec = {"a": np.zeros([2], np.float32), "b": {"c": np.zeros([], np.int64)}}
    signature = structured_writer.infer_signature(configs, spec)
    assert signature == {"x": tf.TensorSpec([3, 2], tf.float32, "x"), "y": tf.TensorSpec([], tf.int64, "y")}
    assert table("inferred", signature=signature).info.signature == signature


@pytest.mark.parametrize("unpack", [False, True])
def test_samples_of_tables_without_a_signature_are_flat(serve, unpack):
    client = serve(queue(), queue("steps"))
    client.insert({"b": np.int64(1), "a": (np.ones(2, np.float32),)}, {"queue": 1.0, "steps": 1.0})
    (whole,) = client.sample("queue", 1, emit_timesteps=False, unpack_as_table_signature=unpack)
    assert type(whole.data) is list
    assert [column.shape for column in whole.data] == [(1, 2), (1,)]
    ((step,),) = client.sample("steps", 1, unpack_as_table_signature=unpack)
    assert type(step.data) is list
    assert [column.shape for column in step.data] == [(2,), ()]


def test_the_client_below(serve):
    client = serve(table(sampler=selectors.Prioritized(1.0)))
    below = pybind.Client(client.server_address)
    writer = below.NewWriter(1, 1, False, 25)
    writer.Append([np.int64(3), np.zeros(2)])
    writer.CreateItem("table", 1, 2.5)
    writer.Flush()
    writer.AppendSequence([np.arange(2), np.zeros((2, 2))])
    writer.Close(True)
    key, probability, size, priority, times, *columns = below.NewSampler("table", 1, 1).GetNextTrajectory()
    assert (float(probability), int(size), float(priority), int(times)) == (1.0, 1, 2.5, 1)
    assert [column.tolist() for column in columns] == [[3], [[0, 0]]]
    step, is_last = below.NewSampler("table", 1, 1).GetNextTimestep()
    assert (int(step[0]), int(step[5]), is_last) == (int(key), 3, True)
    below.MutatePriorities("table", [(int(key), 0.5)], [])
    (serialized,) = below.ServerInfo(5)
    info = schema_pb2.TableInfo.FromString(serialized)
    assert (info.name, info.current_size, info.max_size) == ("table", 1, 100)
    below.Reset("table")
    assert client.server_info(timeout=5)["table"].current_size == 0
    assert below.Checkpoint()


@pytest.mark.parametrize(
    "options", [pybind.AutoTunedChunkerOptions(4, 1.0), pybind.ConstantChunkerOptions(2, 4)], ids=["tuned", "constant"]
)
def test_the_trajectory_writer_below(serve, options):
    client = serve(queue())
    below = pybind.Client(client.server_address).NewTrajectoryWriter(options, True)
    assert below.max_num_keep_alive_refs == 4
    first = below.Append([np.int64(1), None])
    assert [reference is None for reference in first] == [False, True]
    partial = below.AppendPartial([np.int64(2), None])
    rest = below.Append([None, np.float32(0.5)])
    assert below.episode_steps == 2
    assert partial[0].numpy() == 2
    below.CreateItem("queue", 1.0, [[first[0], partial[0]], [rest[1]]], [False, True])
    below.Flush(0, -1)
    (sample,) = client.sample("queue", emit_timesteps=False)
    assert [column.tolist() for column in sample.data] == [[1, 2], 0.5]
    below.EndEpisode(True, None)
    below.Close()


def test_a_writer_on_the_writer_below(serve):
    client = serve(queue())
    below = pybind.Client(client.server_address).NewTrajectoryWriter(pybind.AutoTunedChunkerOptions(4, 1.0), True)
    writer = reverb.TrajectoryWriter(below)
    for number in range(3):
        writer.append({"x": np.int64(number)})
    writer.create_item("queue", 1.0, {"x": writer.history["x"][-2:]})
    writer.flush()
    (sample,) = client.sample("queue", emit_timesteps=False)
    assert sample.data[0].tolist() == [1, 2]


def test_the_structured_writer_below(serve):
    client = serve(queue())
    configs = [config(lambda step: {"x": step["a"][-2:]}).SerializeToString()]
    below = pybind.Client(client.server_address).NewStructuredWriter(configs)
    below.Append([np.int64(1), np.int64(2)])
    below.AppendPartial([np.int64(3), None])
    assert below.step_is_open
    below.Append([None, np.int64(4)])
    below.Flush(0, None)
    (sample,) = client.sample("queue", emit_timesteps=False)
    assert sample.data[0].tolist() == [1, 3]
    below.EndEpisode(True, None)


def test_the_server_below(tmp_path):
    made = pybind.Table(
        name="below",
        sampler=selectors.Fifo(),
        remover=selectors.Fifo(),
        max_size=3,
        max_times_sampled=0,
        rate_limiter=pybind.RateLimiter(samples_per_insert=1.0, min_size_to_sample=1, min_diff=-10.0, max_diff=10.0),
        extensions=[],
        signature=None,
    )
    assert made.name() == "below"
    assert made.can_insert(1) and not made.can_sample(1)
    assert schema_pb2.TableInfo.FromString(made.info()).max_size == 3
    checkpointer = pybind.create_default_checkpointer(str(tmp_path), "", None)
    server = pybind.Server([made], _free_port(), checkpointer)
    server.Stop()
    assert server.Wait() is False


def _free_port():
    import socket

    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return listening.getsockname()[1]


def test_operations_of_a_client(serve):
    client = serve(table(sampler=selectors.Prioritized(1.0)))
    handle = gen_reverb_ops.reverb_client(server_address=client.server_address, shared_name="client")
    one = tf.constant([1.0], tf.float64)
    gen_reverb_ops.reverb_client_insert(handle, [tf.constant(5, tf.int64)], tf.constant(["table"]), one)
    sample = gen_reverb_ops.reverb_client_sample(handle, "table", [tf.int64])
    assert (sample.outputs[0].numpy(), sample.priority.numpy()) == (5, 1.0)
    keys = tf.reshape(sample.key, [1])
    gen_reverb_ops.ReverbClientUpdatePriorities(handle=handle, table="table", keys=keys, priorities=one * 3)
    assert (
        gen_reverb_ops.ReverbClientSample(handle=handle, table="table", Toutput_list=[tf.int64]).priority.numpy() == 3.0
    )


@pytest.mark.parametrize("kind", ["trajectory", "timestep"])
def test_operations_of_datasets(serve, kind):
    from tensorflow.python.data.ops import dataset_ops

    client = serve(queue())
    client.insert([np.int64(7)], {"queue": 1.0})
    shape = tf.TensorShape([1] if kind == "trajectory" else [])
    dtypes = [*reverb.SampleInfo.tf_dtypes(), tf.int64]
    shapes = [*reverb.SampleInfo.tf_shapes(), shape]
    make = getattr(gen_reverb_ops, f"reverb_{kind}_dataset")
    variant = make(server_address=client.server_address, table="queue", dtypes=dtypes, shapes=shapes, max_samples=1)
    spec = tuple(tf.TensorSpec(*pair) for pair in zip(shapes, dtypes, strict=True))
    (element,) = dataset_ops._VariantDataset(variant, spec)
    assert element[-1].numpy().tolist() == ([7] if kind == "trajectory" else 7)


def test_helpers(monkeypatch):
    assert ensure_tf_install.ensure_tf_version() is None
    monkeypatch.setattr(tf.version, "VERSION", "2.2.0")
    with pytest.raises(ImportError, match="version >= 2.3.0; Detected an installation of version 2.2.0"):
        ensure_tf_install.ensure_tf_version()
    for text, kind in [("x.so: undefined symbol: y", ImportError), ("something else", KeyError)]:
        with pytest.raises(kind, match=text.split(": ")[0]):
            try:
                raise KeyError(text)
            except KeyError as error:
                load_op_library.reraise_wrapped_error(error)


def test_reference_steps_have_their_structure():
    assert sorted(structured_writer.create_reference_step(STEP)) == ["a", "b"]
