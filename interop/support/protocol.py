"""The messages of dm-reverb's gRPC service, and stubs for it.

The dm-reverb wheel ships the Python modules of `schema.proto`, but not of `reverb_service.proto`. Its descriptor is
therefore built here, field by field, with everything that a raw client or server needs.
"""

from __future__ import annotations

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from reverb.cc import schema_pb2 as schema

PACKAGE = "deepmind.reverb"
SERVICE = f"{PACKAGE}.ReverbService"
_FILE = "reverb/cc/reverb_service.proto"

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int64": _Field.TYPE_INT64,
    "uint64": _Field.TYPE_UINT64,
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
}

# message -> (field, number, type); a leading `*` marks a repeated field.
_MESSAGES = {
    "InitializeConnectionRequest": [
        ("pid", 1, "int64"),
        ("table_name", 2, "string"),
        ("ownership_transferred", 3, "bool"),
    ],
    "InitializeConnectionResponse": [("address", 1, "int64")],
    "CheckpointRequest": [],
    "CheckpointResponse": [("checkpoint_path", 1, "string")],
    "InsertStreamRequest": [
        ("chunks", 1, "*ChunkData"),
        ("items", 2, "*PrioritizedItem"),
        ("keep_chunk_keys", 3, "*uint64"),
    ],
    "InsertStreamResponse": [("keys", 1, "*uint64")],
    "MutatePrioritiesRequest": [
        ("table", 1, "string"),
        ("updates", 2, "*KeyWithPriority"),
        ("delete_keys", 3, "*uint64"),
    ],
    "MutatePrioritiesResponse": [],
    "ServerInfoRequest": [],
    "ServerInfoResponse": [("tables_state_id", 1, "Uint128"), ("table_info", 2, "*TableInfo")],
    "SampleStreamRequest": [
        ("table", 1, "string"),
        ("num_samples", 2, "int64"),
        ("rate_limiter_timeout", 3, "Timeout"),
    ],
    "SampleEntry": [("info", 1, "SampleInfo"), ("data", 2, "*ChunkData"), ("end_of_sequence", 3, "bool")],
    "SampleStreamResponse": [("entries", 1, "*SampleStreamResponse.SampleEntry")],
    "ResetRequest": [("table", 1, "string")],
    "ResetResponse": [],
}

# method -> whether the client streams, and whether the server streams
_METHODS = {
    "Checkpoint": False,
    "InsertStream": True,
    "MutatePriorities": False,
    "Reset": False,
    "SampleStream": True,
    "ServerInfo": False,
    "InitializeConnection": True,
}


def _message(name: str) -> descriptor_pb2.DescriptorProto:
    message = descriptor_pb2.DescriptorProto(name=name)
    for field, number, kind in _MESSAGES[name]:
        proto = message.field.add(name=field, number=number)
        proto.label = _Field.LABEL_REPEATED if kind.startswith("*") else _Field.LABEL_OPTIONAL
        kind = kind.lstrip("*")
        if kind in _SCALARS:
            proto.type = _SCALARS[kind]
        else:
            proto.type = _Field.TYPE_MESSAGE
            proto.type_name = f".{PACKAGE}.{kind}"
    return message


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package=PACKAGE, syntax="proto3")
    file.dependency.append("reverb/cc/schema.proto")
    for name in _MESSAGES:
        if name != "SampleEntry":
            file.message_type.append(_message(name))
    response = next(m for m in file.message_type if m.name == "SampleStreamResponse")
    response.nested_type.append(_message("SampleEntry"))
    return file


def _classes() -> dict[str, type]:
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(_file().SerializeToString())
    names = [name for name in _MESSAGES if name != "SampleEntry"]
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in names
    }


MESSAGES = _classes()
InitializeConnectionRequest = MESSAGES["InitializeConnectionRequest"]
InsertStreamRequest = MESSAGES["InsertStreamRequest"]
InsertStreamResponse = MESSAGES["InsertStreamResponse"]
MutatePrioritiesRequest = MESSAGES["MutatePrioritiesRequest"]
SampleStreamRequest = MESSAGES["SampleStreamRequest"]
SampleStreamResponse = MESSAGES["SampleStreamResponse"]
ServerInfoResponse = MESSAGES["ServerInfoResponse"]

CHANNEL_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # Every raw client gets its own connection, so that cutting one does not affect others.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]


class Stub:
    """A client for every method of the service, without retries."""

    def __init__(self, channel: grpc.Channel) -> None:
        for method, streams in _METHODS.items():
            make = channel.stream_stream if streams else channel.unary_unary
            stub = make(
                f"/{SERVICE}/{method}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=MESSAGES[f"{method}Response"].FromString,
            )
            setattr(self, method, stub)


def bytes_handlers(behaviors: dict[str, object]) -> grpc.GenericRpcHandler:
    """Returns server handlers that receive requests as the exact bytes that the client sent."""
    handlers = {}
    for method, behavior in behaviors.items():
        make = grpc.stream_stream_rpc_method_handler if _METHODS[method] else grpc.unary_unary_rpc_method_handler
        handlers[method] = make(
            behavior,
            request_deserializer=None,
            response_serializer=lambda message: message.SerializeToString(),
        )
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


__all__ = ["Stub", "schema", "bytes_handlers", "SERVICE", "CHANNEL_OPTIONS", *MESSAGES]
