"""A process that runs dm-reverb servers on demand: importing TensorFlow takes seconds, but starting a server does not.

Reads one JSON command per line and answers each with one JSON line:
{"start": [table, …], "port": N} → {"port": N}, {"stop": port} → {}; tables are base64 messages. A failure is
answered with {"error": text}.
"""

from __future__ import annotations

import base64
import json
import os
import sys

import portpicker
import reverb
from reverb.cc.checkpointing import checkpoint_pb2
from reverb.server_executable import server_from_proto
from tensorflow.core.protobuf import struct_pb2
from tensorflow.python.saved_model import nested_structure_coder


def _table(encoded: str) -> reverb.Table:
    proto = checkpoint_pb2.PriorityTableCheckpoint.FromString(base64.b64decode(encoded))
    signature = None
    if proto.HasField("signature"):
        structure = struct_pb2.StructuredValue.FromString(proto.signature.SerializeToString())
        signature = nested_structure_coder.decode_proto(structure)
    [table] = server_from_proto.tables_from_proto([proto])
    return table.replace(signature=signature) if signature is not None else table


def main() -> None:
    # gRPC and TensorFlow may print to stdout; the answers use a separate descriptor.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    servers: dict[int, reverb.Server] = {}
    print(json.dumps({}), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if "start" in command:
                port = command["port"] or portpicker.pick_unused_port()
                servers[port] = reverb.Server([_table(table) for table in command["start"]], port=port)
                answer = {"port": port}
            else:
                servers.pop(command["stop"]).stop()
                answer = {}
        except Exception as error:  # The suite interprets the error.
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
