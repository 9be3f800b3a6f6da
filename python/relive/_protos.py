"""dm-reverb's message types, created at run time from the descriptors in ``relive._native``.

The types have their own descriptor pool, so they cannot conflict with other packages' protobuf files. They are created
at first use: ``import relive`` does not import protobuf.

``share_with_tensorflow`` puts the types into the default pool instead, on top of TensorFlow's own message types, so
that a TensorFlow message can be part of a dm-reverb message.
"""

from __future__ import annotations

import copyreg
import functools
import sys
import threading
from typing import TYPE_CHECKING, Any

from relive import _native, _reference_steps

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool

SCHEMA = "reverb/cc/schema.proto"
PATTERNS = "reverb/cc/patterns.proto"
CHECKPOINT = "reverb/cc/checkpointing/checkpoint.proto"
CONFIG = "reverb/server_executable/reverb_config.proto"
STRUCT = "tensorflow/core/protobuf/struct.proto"
TENSOR = "tensorflow/core/framework/tensor.proto"

_lock = threading.RLock()
_shared = False
_shares_if_imported = False


def share_with_tensorflow() -> bool:
    """Puts the message types into protobuf's default pool, together with TensorFlow's, and imports TensorFlow.

    This works only before the first message type is created, and only if TensorFlow is installed. Returns whether it
    succeeded.
    """
    global _shared
    with _lock:
        if _pool.cache_info().currsize or not _import_tensorflows_files():
            return _shared
        _shared = True
        return True


def share_with_tensorflow_if_imported() -> None:
    """Calls ``share_with_tensorflow`` if TensorFlow is already imported when the first message type is created."""
    global _shares_if_imported
    _shares_if_imported = True


def message(file: str, name: str) -> Any:
    """Returns the message class ``name`` of a file, for example ``message(SCHEMA, "TableInfo")``.

    Raises ``AttributeError`` if the file has no such message.
    """
    found = names(file).get(name)
    if found is None:
        raise AttributeError(f"{file} has no message {name!r}")
    return found


@functools.cache
def names(file: str) -> dict[str, Any]:
    """Returns the content of a .proto file's Python module: its message classes, enum values and ``DESCRIPTOR``."""
    with _lock:
        descriptor = _pool().FindFileByName(file)
        found: dict[str, Any] = {"DESCRIPTOR": descriptor}
        for name, message_type in descriptor.message_types_by_name.items():
            found[name] = _class_of(message_type)
        for enum in descriptor.enum_types_by_name.values():
            found.update({value.name: value.number for value in enum.values})
        return found


def attribute(file: str, name: str) -> Any:
    """Returns ``module.name`` for a .proto file's Python module, whose ``__getattr__`` calls this function."""
    if name.startswith("__"):
        raise AttributeError(name)
    return message(file, name)


def _class_of(descriptor: Any) -> Any:
    from google.protobuf import message_factory

    made = message_factory.GetMessageClass(descriptor)
    _make_picklable(made)
    return made


def _make_picklable(made: Any) -> None:
    """To unpickle a message, protobuf searches the default pool, which does not contain these classes."""
    copyreg.pickle(made, _reduce)
    for nested in made.DESCRIPTOR.nested_types:
        _make_picklable(getattr(made, nested.name))


def _reduce(value: Any) -> tuple[Any, ...]:
    descriptor = value.DESCRIPTOR
    path = descriptor.full_name.removeprefix(f"{descriptor.file.package}.")
    return _restore, (descriptor.file.name, path, value.SerializeToString(), _reference_steps.outlines_of([value]))


def _restore(file: str, path: str, content: bytes, reference_steps: tuple[Any, ...] = ()) -> Any:
    outer, *nested = path.split(".")
    made = message(file, outer)
    for name in nested:
        made = getattr(made, name)
    restored = made.FromString(content)
    if reference_steps:
        _reference_steps.remember(restored, reference_steps)
    return restored


@functools.cache
def _pool() -> DescriptorPool:
    from google.protobuf import descriptor_pb2, descriptor_pool

    global _shared
    if _shares_if_imported and "tensorflow" in sys.modules:
        _shared = _shared or _import_tensorflows_files()
    pool = descriptor_pool.Default() if _shared else descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(_native.file_descriptor_set())
    for file in files.file:
        if not (_shared and _is_known(pool, file.name)):
            pool.AddSerializedFile(file.SerializeToString())
    return pool


def _is_known(pool: DescriptorPool, file: str) -> bool:
    try:
        pool.FindFileByName(file)
    except KeyError:
        return False
    return True


def _import_tensorflows_files() -> bool:
    try:
        from google.protobuf import timestamp_pb2  # noqa: F401
        from tensorflow.core.protobuf import struct_pb2  # noqa: F401
    except ImportError:
        return False
    return True
