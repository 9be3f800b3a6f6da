"""Tables as servers describe them."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import Any

import pytest

from relive import _protos, reverb_types, selectors
from relive.reverb_types import TableInfo
from relive.specs import ArraySpec

SIGNATURE = {"a": ArraySpec((None, 3), "float32", "name"), "b": [ArraySpec((), object)]}

NATIVE: dict[str, Any] = {
    "name": "table",
    "sampler": ("prioritized", 0.5),
    "remover": ("min_heap",),
    "max_size": 10,
    "max_times_sampled": 3,
    "samples_per_insert": 2.0,
    "min_diff": -1.0,
    "max_diff": 4.0,
    "min_size_to_sample": 2,
    "insert_completed": 7,
    "sample_completed": 9,
    "signature": SIGNATURE,
    "current_size": 5,
    "num_episodes": 1,
    "num_deleted_episodes": 2,
    "num_unique_samples": 4,
    "worker_time_ms": [1, 2, 3, 4, 5, 6],
    "limiter_cursor": 5.0,
}


def test_plain_fields() -> None:
    info = TableInfo._from_native(NATIVE)
    for name in ("name", "max_size", "max_times_sampled", "current_size", "num_episodes", "num_unique_samples"):
        assert getattr(info, name) == NATIVE[name]
    assert info.num_deleted_episodes == 2
    assert (info.num_inserts, info.num_samples) == (7, 9)
    assert (info.limiter_cursor, info.waiters) == (5.0, None)


def test_messages() -> None:
    info = TableInfo._from_native(NATIVE)
    assert info.sampler_options.prioritized.priority_exponent == 0.5
    assert not info.sampler_options.is_deterministic
    assert info.remover_options.heap.min_heap
    assert info.remover_options.is_deterministic
    limiter = info.rate_limiter_info
    assert (limiter.samples_per_insert, limiter.min_diff, limiter.max_diff) == (2.0, -1.0, 4.0)
    assert limiter.min_size_to_sample == 2
    assert (limiter.insert_stats.completed, limiter.sample_stats.completed) == (7, 9)
    times = info.table_worker_time
    assert (times.running_ms, times.sampling_ms, times.waiting_for_inserts_ms) == (1, 2, 6)


def test_counters_are_present_even_when_zero() -> None:
    info = TableInfo._from_native({**NATIVE, "insert_completed": 0, "sample_completed": 0})
    assert info.rate_limiter_info.HasField("insert_stats")
    assert info.rate_limiter_info.HasField("sample_stats")


def test_selectors() -> None:
    info = TableInfo._from_native(NATIVE)
    assert info.sampler == selectors.Prioritized(0.5)
    assert info.remover == selectors.MinHeap()


def test_signature() -> None:
    info = TableInfo._from_native(NATIVE)
    assert info.structure == SIGNATURE
    if "tensorflow" not in sys.modules:
        assert info.signature == SIGNATURE
    assert TableInfo._from_native({**NATIVE, "signature": None}).signature is None


@pytest.mark.tensorflow
def test_signature_is_tensorflows_where_it_is_in_use() -> None:
    import tensorflow as tf
    info = TableInfo._from_native(NATIVE)
    assert info.signature == {
        "a": tf.TensorSpec([None, 3], tf.float32, "name"),
        "b": [tf.TensorSpec([], tf.string)],
    }
    assert info.structure == SIGNATURE


def test_is_a_dataclass_like_dm_reverbs() -> None:
    names = [field.name for field in dataclasses.fields(TableInfo)]
    assert names[:12] == [
        "name", "sampler_options", "remover_options", "max_size", "max_times_sampled", "rate_limiter_info", "signature",
        "current_size", "num_episodes", "num_deleted_episodes", "num_unique_samples", "table_worker_time",
    ]  # fmt: skip
    info = TableInfo._from_native(NATIVE)
    assert info == TableInfo._from_native(NATIVE)
    assert info != TableInfo._from_native({**NATIVE, "current_size": 6})
    assert dataclasses.replace(info, name="other").name == "other"
    assert "sampler_options=prioritized" in repr(info)


def test_unknown_attributes() -> None:
    with pytest.raises(AttributeError, match="'TableInfo' object has no attribute 'other'"):
        TableInfo._from_native(NATIVE).other  # noqa: B018


def test_copies_and_pickles() -> None:
    info = TableInfo._from_native(NATIVE)
    for made in (copy.deepcopy(info), pickle.loads(pickle.dumps(info))):
        assert made == info
        assert made.structure == SIGNATURE


def test_from_a_message() -> None:
    from relive import _structured_value

    native = TableInfo._from_native(NATIVE)
    message = _protos.message(_protos.SCHEMA, "TableInfo")(
        name="table",
        sampler_options=native.sampler_options,
        remover_options=native.remover_options,
        max_size=10,
        max_times_sampled=3,
        rate_limiter_info=native.rate_limiter_info,
        signature=_structured_value.encode_signature(SIGNATURE),
        current_size=5,
        num_episodes=1,
        num_deleted_episodes=2,
        num_unique_samples=4,
        table_worker_time=native.table_worker_time,
    )
    info = TableInfo.from_serialized_proto(message.SerializeToString())
    assert info == native
    assert (info.sampler, info.remover) == (native.sampler, native.remover)
    assert (info.num_inserts, info.structure) == (7, SIGNATURE)


def test_from_an_empty_message() -> None:
    info = TableInfo.from_serialized_proto(b"")
    assert (info.name, info.signature, info.structure) == ("", None, None)
    with pytest.raises(NotImplementedError, match="distribution=None"):
        info.sampler  # noqa: B018


@pytest.mark.parametrize(
    ("spec", "field", "deterministic"),
    [
        (("fifo",), "fifo", True),
        (("lifo",), "lifo", True),
        (("uniform",), "uniform", False),
        (("without_replacement",), "uniform", False),
        (("min_heap",), "heap", True),
        (("max_heap",), "heap", True),
        (("prioritized", 2.0), "prioritized", False),
    ],
)
def test_selectors_as_messages(spec: Any, field: str, deterministic: bool) -> None:
    options = reverb_types.options_of(spec)
    assert options.WhichOneof("distribution") == field
    assert options.is_deterministic is deterministic
    back = reverb_types.selector_from_options(options)._spec
    assert back == (("uniform",) if spec == ("without_replacement",) else spec)


def test_reading_numbers_needs_no_protobuf() -> None:
    code = (
        "import sys, relive\n"
        "table = relive.Table.queue('q', 3)\n"
        "assert table.info.current_size == 0 and table.info.sampler == relive.selectors.Fifo()\n"
        "unwanted = [name for name in sys.modules if name.startswith(('google.protobuf', 'tensorflow', 'torch', 'jax'))]\n"
        "assert not unwanted, unwanted\n"
        "assert table.info.sampler_options.fifo\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
