"""Records the bytes that the dm-reverb client puts on the wire, as fixtures for the Rust tests.

    .venv/bin/python interop/record_fixtures.py

A raw gRPC server acts as the replay server: it confirms every item, answers ServerInfo, and stores each request exactly
as received. One file per scenario, in crates/relive-wire/tests/fixtures.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import queue
import struct
import sys

import grpc
import numpy as np
import reverb
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from support import protocol  # noqa: E402

FIXTURES = pathlib.Path(__file__).parents[1] / "crates/relive-wire/tests/fixtures"
TABLES = ("replay", "other")


class Recorder:
    """A server that stores the requests to one method at a time."""

    def __init__(self) -> None:
        self.requests: dict[str, list[bytes]] = {}
        self._sample_request = queue.Queue()
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), options=protocol.CHANNEL_OPTIONS)
        self._server.add_generic_rpc_handlers((protocol.bytes_handlers({
            "InsertStream": self._insert,
            "SampleStream": self._sample,
            "ServerInfo": self._info,
            "InitializeConnection": self._initialize,
            "MutatePriorities": self._unary("MutatePriorities"),
            "Reset": self._unary("Reset"),
        }),))
        self.address = f"localhost:{self._server.add_insecure_port('localhost:0')}"
        self._server.start()

    def _keep(self, method: str, request: bytes) -> None:
        self.requests.setdefault(method, []).append(request)

    def _insert(self, requests, _context):
        for request in requests:
            self._keep("InsertStream", request)
            items = protocol.InsertStreamRequest.FromString(request).items
            if items:
                yield protocol.InsertStreamResponse(keys=[item.key for item in items])

    def _sample(self, requests, context):
        for request in requests:
            self._keep("SampleStream", request)
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "recorded")
        yield from ()

    def _info(self, request, _context):
        self._keep("ServerInfo", request)
        response = protocol.ServerInfoResponse()
        response.tables_state_id.low = 1
        for name in TABLES:
            response.table_info.add(name=name, max_size=10)
        return response

    def _initialize(self, requests, _context):
        for request in requests:
            self._keep("InitializeConnection", request)
            break
        yield protocol.MESSAGES["InitializeConnectionResponse"]()

    def _unary(self, method):
        def answer(request, _context):
            self._keep(method, request)
            return protocol.MESSAGES[f"{method}Response"]()
        return answer

    def stop(self) -> None:
        self._server.stop(None).wait()


def write_dtypes(client: reverb.Client) -> None:
    """Writes one scalar column and one matrix column of each dtype, ten steps, one chunk each."""
    kinds = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
             "uint32", "uint64", "bool", "complex64", "complex128"]
    with client.trajectory_writer(num_keep_alive_refs=10) as writer:
        for name in ["empty", *(f"{kind}_{rank}" for kind in kinds for rank in ("scalar", "matrix"))]:
            writer.configure((name,), num_keep_alive_refs=10, max_chunk_length=10)
        for step in range(10):
            columns = {"empty": np.zeros([0, 3], np.float32)}
            for kind in kinds:
                columns[f"{kind}_scalar"] = np.asarray(step % 2).astype(kind)
                columns[f"{kind}_matrix"] = (np.arange(6).reshape(2, 3) * step % 7).astype(kind)
            writer.append(columns)
        writer.create_item("replay", 1.5, {name: column[-10:] for name, column in writer.history.items()})


def write_strings(client: reverb.Client) -> None:
    """Writes strings: bytes, non-ASCII text, an empty string, and a string longer than 127 bytes."""
    values = [b"x", "yä€", "", "z" * 200, b"\x00\xff"]
    with client.trajectory_writer(num_keep_alive_refs=5) as writer:
        for value in values:
            writer.append({"scalar": np.asarray(value, object), "vector": np.asarray([value, "tail"], object)})
        writer.create_item("replay", 1.0, {name: column[-5:] for name, column in writer.history.items()})


def write_chunks_of_four(client: reverb.Client) -> None:
    """Writes chunks of four steps, items that span several chunks, two tables, a squeezed column."""
    with client.trajectory_writer(num_keep_alive_refs=8) as writer:
        for column in ("observation", "reward"):
            writer.configure((column,), num_keep_alive_refs=8, max_chunk_length=4)
        for step in range(10):
            writer.append({"observation": np.full([3], step, np.float32), "reward": np.float64(step / 4)})
            if step >= 5:
                history = writer.history
                trajectory = {"observation": history["observation"][-5:], "reward": history["reward"][-1]}
                writer.create_item("replay", float(step), trajectory)
                writer.create_item("other", 0.5, {"observation": history["observation"][-2:]})
        writer.end_episode()


def write_partial_steps(client: reverb.Client) -> None:
    """Writes partial steps, a column that is missing in some steps (a sparse chunk), two episodes."""
    with client.trajectory_writer(num_keep_alive_refs=6) as writer:
        for column in ("always", "rare"):
            writer.configure((column,), num_keep_alive_refs=6, max_chunk_length=3)
        for _episode in range(2):
            for step in range(6):
                if step % 2 == 0:
                    writer.append({"rare": np.asarray([step, -step], np.int32)}, partial_step=True)
                writer.append({"always": np.int64(step)})
            always = writer.history["always"][-6:]
            rare = writer.history["rare"][-6::2]
            writer.create_item("replay", 1.0, {"always": always, "rare": rare})
            writer.end_episode()


def write_legacy(client: reverb.Client, delta_encoded: bool) -> None:
    """Uses the older writer: all columns in one chunk; delta encoding applies to integers of rank two and more."""
    with client.writer(max_sequence_length=6, delta_encoded=delta_encoded, chunk_length=3) as writer:
        for step in range(7):
            image = (np.arange(8, dtype=np.uint8).reshape(2, 4) * 31 + step * 40).astype(np.uint8)
            writer.append([image, np.asarray([step * 1000, -step], np.int16), np.float32(step), np.int64(step),
                           np.asarray([True, step % 2 == 0]), f"step {step}"])
            if step >= 2:
                writer.create_item("replay", 3, 1.0 + step)


def write_insert(client: reverb.Client) -> None:
    """Calls `Client.insert` with two tables."""
    client.insert([np.arange(4, dtype=np.float32), np.int32(7)], {"replay": 1.0, "other": 2.5})


def ask_for_samples(client: reverb.Client) -> None:
    """Calls `Client.sample` with several sizes, and uses samplers with a timeout."""
    for count in (1, 3, 500):
        try:
            next(client.sample("replay", num_samples=count))
        except ValueError:
            pass
    for timeout_ms in (0, 250):
        dataset = reverb.TrajectoryDataset(
            client.server_address, "replay", dtypes=[tf.float32], shapes=[tf.TensorShape([None])],
            max_in_flight_samples_per_worker=20, rate_limiter_timeout_ms=timeout_ms)
        try:
            next(iter(dataset))
        except Exception as error:  # The recorder refuses the call, but the request is already recorded.
            assert "recorded" in str(error), error


def mutate(client: reverb.Client) -> None:
    """Calls `Client.mutate_priorities` with updates and deletes."""
    client.mutate_priorities("replay", updates={1: 0.25, 2**63 + 5: 7.0}, deletes=[3, 2**64 - 1])
    client.mutate_priorities("other", updates={9: 0.0})


SCENARIOS = {
    "insert_dtypes": ("InsertStream", write_dtypes),
    "insert_strings": ("InsertStream", write_strings),
    "insert_chunks_of_four": ("InsertStream", write_chunks_of_four),
    "insert_partial_steps": ("InsertStream", write_partial_steps),
    "insert_legacy": ("InsertStream", lambda client: write_legacy(client, False)),
    "insert_legacy_delta": ("InsertStream", lambda client: write_legacy(client, True)),
    "insert_client_insert": ("InsertStream", write_insert),
    "sample_requests": ("SampleStream", ask_for_samples),
    "initialize_connection": ("InitializeConnection", lambda client: ask_for_samples(client)),
    "mutate_priorities": ("MutatePriorities", mutate),
    "reset": ("Reset", lambda client: client.reset("replay")),
}


def main() -> None:
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for name, (method, scenario) in SCENARIOS.items():
        recorder = Recorder()
        scenario(reverb.Client(recorder.address))
        recorder.stop()
        requests = recorder.requests[method]
        framed = b"".join(struct.pack("<I", len(request)) + request for request in requests)
        (FIXTURES / f"{name}.bin").write_bytes(framed)
        print(f"{name}.bin: {len(requests)} messages of {method}, {len(framed)} bytes")


if __name__ == "__main__":
    main()
