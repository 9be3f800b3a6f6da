"""Nests as ``tensorflow.StructuredValue`` messages, the form in which dm-reverb sends and stores signatures and
patterns."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _protos, nest, specs
from relive.specs import ArraySpec, BoundedArraySpec

# TensorFlow's numbers for data types.
_DTYPE_NUMBERS = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "object": 7,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "bfloat16": 14,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "uint32": 22,
    "uint64": 23,
    "float8_e5m2": 24,
    "float8_e4m3fn": 25,
    "int4": 29,
    "uint4": 30,
}
_DTYPE_NAMES = {number: name for name, number in _DTYPE_NUMBERS.items()}

# The fields in which TensorFlow stores the elements of small tensors.
_VALUE_FIELDS = {
    "float32": "float_val",
    "float64": "double_val",
    "int32": "int_val",
    "uint8": "int_val",
    "int16": "int_val",
    "int8": "int_val",
    "uint16": "int_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "object": "string_val",
}


def encode_signature(signature: Any) -> Any:
    """Converts a nest of specs to a message.

    Raises ``ValueError`` for a leaf that is not a spec, and for a container that the message type does not support.
    """
    return _encode(specs.as_spec(signature), _put_spec)


def decode_signature(message: Any) -> Any:
    """Converts a message to a nest of ``ArraySpec``, or an empty message to ``None``."""
    return None if message.WhichOneof("kind") is None else _decode(message, _take_spec)


def encode_structure(structure: Any) -> Any:
    """Converts the containers of a nest to a message without its leaves."""
    return _encode(structure, lambda value, _: value.none_value.SetInParent())


def fill_structure(message: Any, leaves: list[Any]) -> Any:
    """Rebuilds the nest from the containers in a message and from ``leaves``.

    Raises ``ValueError`` if the numbers of leaves differ.
    """
    return nest.unflatten_as(_decode(message, lambda _: None), leaves)


def _encode(structure: Any, put_leaf: Callable[[Any, Any], None]) -> Any:
    value = _protos.message(_protos.STRUCT, "StructuredValue")()
    if isinstance(structure, Mapping):
        _encode_mapping(value, structure, put_leaf)
    elif nest.is_namedtuple(structure):
        value.named_tuple_value.name = type(structure).__name__
        for name, part in zip(type(structure)._fields, structure, strict=True):
            value.named_tuple_value.values.add(key=name, value=_encode(part, put_leaf))
    elif isinstance(structure, list):
        value.list_value.SetInParent()
        value.list_value.values.extend(_encode(part, put_leaf) for part in structure)
    elif isinstance(structure, tuple):
        value.tuple_value.SetInParent()
        value.tuple_value.values.extend(_encode(part, put_leaf) for part in structure)
    elif nest.is_nested(structure):
        raise ValueError(f"a {type(structure).__name__} cannot be sent; use dict, list, tuple or namedtuple")
    else:
        put_leaf(value, structure)
    return value


def _encode_mapping(value: Any, mapping: Mapping[Any, Any], put_leaf: Callable[[Any, Any], None]) -> None:
    value.dict_value.SetInParent()
    for key, part in mapping.items():
        if not isinstance(key, str):
            raise ValueError(f"the keys of a mapping that is sent must be strings, got {key!r}")
        value.dict_value.fields[key].CopyFrom(_encode(part, put_leaf))


def _decode(value: Any, take_leaf: Callable[[Any], Any]) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "list_value":
        return [_decode(part, take_leaf) for part in value.list_value.values]
    if kind == "tuple_value":
        return tuple(_decode(part, take_leaf) for part in value.tuple_value.values)
    if kind == "dict_value":
        fields = value.dict_value.fields
        return {key: _decode(fields[key], take_leaf) for key in sorted(fields)}
    if kind == "named_tuple_value":
        pairs = value.named_tuple_value.values
        made = _namedtuple(value.named_tuple_value.name, tuple(pair.key for pair in pairs))
        return made(*(_decode(pair.value, take_leaf) for pair in pairs))
    return take_leaf(value)


@functools.cache
def _namedtuple(name: str, fields: tuple[str, ...]) -> Any:
    """Returns the same class each time, so that repeatedly read structures have the same type."""
    return collections.namedtuple(name, fields)


def _put_spec(value: Any, spec: ArraySpec) -> None:
    bounded = isinstance(spec, BoundedArraySpec)
    target = value.bounded_tensor_spec_value if bounded else value.tensor_spec_value
    target.SetInParent()
    target.name = spec.name or ""
    target.dtype = _DTYPE_NUMBERS[spec.dtype.name]
    _put_shape(target.shape, spec.shape)
    if isinstance(spec, BoundedArraySpec):
        _put_array(target.minimum, spec.minimum)
        _put_array(target.maximum, spec.maximum)


def _put_shape(target: Any, shape: specs.Shape | None) -> None:
    target.SetInParent()
    target.unknown_rank = shape is None
    for size in shape or ():
        target.dim.add(size=-1 if size is None else size)


def _put_array(target: Any, array: npt.NDArray[Any]) -> None:
    target.dtype = _DTYPE_NUMBERS[array.dtype.name]
    _put_shape(target.tensor_shape, array.shape)
    if array.dtype.hasobject:
        target.string_val.extend(map(_as_bytes, array.ravel().tolist()))
        return
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    target.tensor_content = array.tobytes()


def _as_bytes(bound: Any) -> bytes:
    if isinstance(bound, str):
        return bound.encode()
    if isinstance(bound, bytes):
        return bound
    raise ValueError(f"the bounds of strings must be strings, got {bound!r}")


def _take_spec(value: Any) -> ArraySpec:
    kind = value.WhichOneof("kind")
    if kind == "tensor_spec_value":
        spec = value.tensor_spec_value
        return ArraySpec(_shape_of(spec.shape), _dtype_of(spec.dtype), spec.name or None)
    if kind == "bounded_tensor_spec_value":
        spec = value.bounded_tensor_spec_value
        return BoundedArraySpec._received(
            _shape_of(spec.shape),
            _dtype_of(spec.dtype),
            _array_of(spec.minimum),
            _array_of(spec.maximum),
            spec.name or None,
        )
    raise ValueError(f"the leaves of a signature must be tensor specs, but one is a {kind}")


def _shape_of(shape: Any) -> specs.Shape | None:
    if shape.unknown_rank:
        return None
    return tuple(None if dim.size < 0 else dim.size for dim in shape.dim)


def _dtype_of(number: int) -> np.dtype[Any]:
    name = _DTYPE_NAMES.get(number)
    if name is None:
        raise ValueError(f"unknown data type number {number}")
    return np.dtype(name)


def _array_of(tensor: Any) -> npt.NDArray[Any]:
    """Converts a tensor message to an array; if the message contains a single value, all elements have this value."""
    dtype = _dtype_of(tensor.dtype)
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    if tensor.tensor_content:
        return np.frombuffer(tensor.tensor_content, dtype).reshape(shape)
    if tensor.half_val:
        bits = np.array(list(tensor.half_val), np.uint16).view(dtype)
        return np.broadcast_to(bits if bits.size != 1 else bits[0], shape)
    if dtype.name not in _VALUE_FIELDS:
        raise ValueError(f"bounds of type {dtype.name} can only be read as bytes")
    values = np.array(list(getattr(tensor, _VALUE_FIELDS[dtype.name])), dtype)
    return np.broadcast_to(values if values.size != 1 else values[0], shape)
