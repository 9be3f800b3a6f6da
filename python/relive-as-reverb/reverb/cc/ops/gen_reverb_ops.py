"""The functions of dm-reverb's TensorFlow operations: the work of `TFClient` and the datasets, without their classes.

Structures are flat here, and a client's handle is a tensor with its address. Needs TensorFlow.
"""

import collections
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from reverb import _borrowed, replay_sample, tf_client, timestep_dataset, trajectory_dataset

_NUM_INFO = len(replay_sample.SampleInfo._fields)

_Sample = collections.namedtuple(
    "ReverbClientSample", ["key", "probability", "table_size", "priority", "times_sampled", "outputs"]
)


def reverb_client(
    server_address: str, container: str = "", shared_name: str | None = "", name: str | None = None
) -> tf.Tensor:
    """Returns the handle of a client, for the functions below."""
    del container, shared_name
    return tf.constant(server_address, name=name or "ReverbClient")


def reverb_client_sample(handle: tf.Tensor, table: Any, Toutput_list: Sequence[Any], name: str | None = None) -> Any:
    """Returns one time step of ``table``: a tuple of the item's metadata, and ``outputs``, its columns."""
    sample = _client(handle).sample(table, list(Toutput_list), name)
    return _Sample(*sample.info, list(sample.data))


def reverb_client_insert(
    handle: tf.Tensor, data: Sequence[Any], tables: Any, priorities: Any, name: str | None = None
) -> Any:
    """Writes ``data`` as an item of one time step to each of ``tables``."""
    tables, priorities = tf.convert_to_tensor(tables), tf.convert_to_tensor(priorities, tf.float64)
    return _client(handle).insert(list(data), tables, priorities, name)


def reverb_client_update_priorities(
    handle: tf.Tensor, table: Any, keys: Any, priorities: Any, name: str | None = None
) -> Any:
    """Sets the priorities of items of ``table``."""
    return _client(handle).update_priorities(table, keys, priorities, name)


def reverb_trajectory_dataset(
    server_address: Any, table: Any, dtypes: Sequence[Any], shapes: Sequence[Any], *options: Any, **named: Any
) -> tf.Tensor:
    """Returns the variant tensor of a ``TrajectoryDataset``, with the same options. ``dtypes`` and ``shapes`` begin
    with those of the fields of ``SampleInfo``."""
    return _variant(trajectory_dataset.TrajectoryDataset, server_address, table, dtypes, shapes, *options, **named)


def reverb_timestep_dataset(
    server_address: Any, table: Any, dtypes: Sequence[Any], shapes: Sequence[Any], *options: Any, **named: Any
) -> tf.Tensor:
    """Returns the variant tensor of a ``TimestepDataset``, with the same options. ``dtypes`` and ``shapes`` begin with
    the information."""
    return _variant(timestep_dataset.TimestepDataset, server_address, table, dtypes, shapes, *options, **named)


def _client(handle: tf.Tensor) -> tf_client.TFClient:
    address = tf.get_static_value(handle)
    if address is None:
        raise ValueError("the handle of a client must come from reverb_client")
    return tf_client.TFClient(address.decode() if isinstance(address, bytes) else address.item().decode())


def _variant(
    kind: Any,
    server_address: Any,
    table: Any,
    dtypes: Sequence[Any],
    shapes: Sequence[Any],
    max_in_flight_samples_per_worker: int = 100,
    num_workers_per_iterator: int = -1,
    max_samples_per_stream: int = -1,
    rate_limiter_timeout_ms: int = -1,
    max_samples: int = -1,
    name: str | None = None,
) -> tf.Tensor:
    del name
    dataset = kind(
        server_address,
        table,
        tuple(dtypes[_NUM_INFO:]),
        tuple(tf.TensorShape(shape) for shape in shapes[_NUM_INFO:]),
        max_in_flight_samples_per_worker,
        num_workers_per_iterator,
        max_samples_per_stream,
        rate_limiter_timeout_ms,
        max_samples,
    )
    variant = dataset._variant_tensor
    # Keeps the dataset's Python functions alive as long as the tensor.
    variant._relive_dataset = dataset
    return variant


def _raw(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def raw(**named: Any) -> Any:
        return function(**named)

    return raw


# The same functions, with named arguments only.
ReverbClient = _raw(reverb_client)
ReverbClientInsert = _raw(reverb_client_insert)
ReverbClientSample = _raw(reverb_client_sample)
ReverbClientUpdatePriorities = _raw(reverb_client_update_priorities)
ReverbTimestepDataset = _raw(reverb_timestep_dataset)
ReverbTrajectoryDataset = _raw(reverb_trajectory_dataset)

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Annotated Any List TypeVar",
    collections="collections",
    deprecated_endpoints="tensorflow.python.util.deprecation:deprecated_endpoints",
    pywrap_tfe="tensorflow.python.pywrap_tfe",
    tf_export="tensorflow.python.util.tf_export:tf_export",
)
