"""The data types, shapes and names of columns, in TensorFlow's terms."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from relive import nest, replay_sample

# TensorFlow's own short names, which users know from dm-reverb's messages; the other types have the same names as in
# numpy.
_DTYPE_TEXTS = {tf.float32: "float", tf.float64: "double", tf.float16: "half"}


class Column(NamedTuple):
    """The data type and the shape that a column has or must have."""

    dtype: tf.DType
    shape: tf.TensorShape
    name: str = "?"

    def __str__(self) -> str:
        return f"({self._dtype_text}, {shape_text(self.shape)})"

    def listed(self) -> str:
        """Returns the text for the column in a list of columns."""
        return f"Tensor<name: '{self.name}', dtype: {self._dtype_text}, shape: {shape_text(self.shape)}>"

    @property
    def _dtype_text(self) -> str:
        return str(_DTYPE_TEXTS.get(self.dtype, self.dtype.name))


def shape_text(shape: tf.TensorShape) -> str:
    """Returns ``[?,3]`` for a shape with an unknown first dimension, ``<unknown>`` for an unknown rank."""
    if shape.rank is None:
        return "<unknown>"
    return "[" + ",".join("?" if size is None else str(size) for size in shape.as_list()) + "]"


def columns_of(signature: Any) -> list[Column]:
    """Returns the flat columns of a table's signature, named by their paths."""
    return [_column(path, spec) for path, spec in nest.flatten_with_path(signature)]


def _column(path: tuple[Any, ...], spec: Any) -> Column:
    spec = tensor_spec(spec)
    # A path and a name, in the form that dm-reverb's servers use.
    parts = [str(part) for part in path] + ([spec.name] if spec.name else [])
    name = "/".join(parts) or "?"
    return Column(spec.dtype, spec.shape, name)


def tensor_spec(spec: Any) -> tf.TensorSpec:
    """Converts a :class:`relive.specs.ArraySpec` to a ``tf.TensorSpec``; a ``tf.TensorSpec`` is returned unchanged."""
    if isinstance(spec, tf.TensorSpec):
        return spec
    dtype = tf.string if spec.dtype.kind in "OSU" else tf.as_dtype(spec.dtype)
    if getattr(spec, "minimum", None) is None:
        return tf.TensorSpec(spec.shape, dtype, spec.name)
    return _bounded_tensor_spec(spec, dtype)


def _bounded_tensor_spec(spec: Any, dtype: tf.DType) -> tf.TensorSpec:
    # TensorFlow does not export this class, but dm-reverb's signatures contain it.
    from tensorflow.python.framework.tensor_spec import BoundedTensorSpec

    return BoundedTensorSpec(spec.shape, dtype, spec.minimum, spec.maximum, spec.name)


def dtypes_and_shapes(signature: Any) -> tuple[Any, Any]:
    """Converts a signature to the two structures that the datasets' constructors take: data types and shapes."""
    tensors = nest.map_structure(tensor_spec, signature)
    return nest.map_structure(lambda spec: spec.dtype, tensors), nest.map_structure(lambda spec: spec.shape, tensors)


def element_spec(dtypes: Any, shapes: Any) -> replay_sample.ReplaySample:
    """Returns the spec of the elements that a dataset of these data types and shapes yields."""
    data = tf.nest.map_structure(lambda dtype, shape: tf.TensorSpec(shape, dtype), dtypes, shapes)
    return replay_sample.ReplaySample(info=info_spec(), data=data)


def info_spec() -> replay_sample.SampleInfo:
    dtypes = (tf.uint64, tf.double, tf.int64, tf.double, tf.int32)
    return replay_sample.SampleInfo(*(tf.TensorSpec([], dtype) for dtype in dtypes))


def with_row_dimension(spec: tf.TensorSpec) -> tf.TensorSpec:
    """Returns the spec of a batch of any number of values of ``spec``."""
    return tf.TensorSpec(tf.TensorShape([None]).concatenate(spec.shape), spec.dtype)


def lists_to_tuples(structure: Any) -> Any:
    """Replaces the lists in a structure with tuples, since ``tf.data`` interprets lists as tensors to be stacked."""
    if isinstance(structure, Mapping):
        kind = OrderedDict if isinstance(structure, OrderedDict) else dict
        return kind((key, lists_to_tuples(value)) for key, value in structure.items())
    if not isinstance(structure, list | tuple):
        return structure
    parts = [lists_to_tuples(part) for part in structure]
    return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)
