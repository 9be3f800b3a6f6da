"""Faults that must not affect other clients: invalid input, false lengths, cut connections and early ends."""

from __future__ import annotations

import pathlib
import random
import re
import socket

import grpc
import numpy as np
import pytest

from support import data, net, raw as raw_client, steps, tables, wait
from support.servers import ServerFailed
from support.tables import table

Code = grpc.StatusCode


def serves(server) -> None:
    """Checks that the server still works, for a real client and for a raw one."""
    client = server.client()
    size = client.server_info(timeout=10)["replay"].current_size
    steps.write(client, "replay", 1234.0)
    assert client.server_info(timeout=10)["replay"].current_size == size + 1
    assert len(server.raw().sample("replay", 3)) == 3


def resident_bytes(server) -> int:
    status = pathlib.Path(f"/proc/{server.handle.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


GARBAGE = {
    "nothing": b"",
    "zeros": bytes(5000),
    "text": b"hello?\r\n" * 100,
    "http/1": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("160301020001fc0303") + bytes(500),
    "half a preface": b"PRI * HTTP/2.0\r\n",
    "a preface and noise": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + random.Random(1).randbytes(4000),
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_on_the_port(start_relive, garbage):
    server = start_relive(table())
    kept_open = []
    for _ in range(5):
        for end in (net.cut, socket.socket.close, kept_open.append):
            connection = net.connect(server.port)
            connection.sendall(garbage)
            end(connection)
    serves(server)
    for connection in kept_open:
        connection.close()


NOISE = [random.Random(seed).randbytes(size) for seed, size in enumerate((1, 5, 40, 1000))]


@pytest.mark.parametrize("method", ["InsertStream", "SampleStream", "MutatePriorities", "Reset", "ServerInfo",
                                    "Checkpoint", "InitializeConnection", "NoSuchMethod"])
def test_garbage_in_messages(start_relive, method):
    """The message is framed correctly, but is not the expected message."""
    server = start_relive(table())
    path = f"/deepmind.reverb.ReverbService/{method}"
    for noise in NOISE:
        connection = net.open_call(server.port, path)
        net.send_data(connection, b"\0" + len(noise).to_bytes(4, "big") + noise, end=True)
        assert net.stream_end(connection) in ("trailers", "reset")
        connection.close()
    serves(server)


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**32 - 1])
def test_a_message_that_claims_gigabytes_takes_no_memory(start_relive, length):
    """The server refuses the message or waits for the rest; in either case, it does not allocate the declared
    memory."""
    server = start_relive(table())
    before = resident_bytes(server)
    connections = []
    for _ in range(8):
        connection = net.open_call(server.port, "/deepmind.reverb.ReverbService/InsertStream")
        net.send_data(connection, b"\0" + length.to_bytes(4, "big") + bytes(1000))
        connections.append(connection)
    serves(server)
    assert resident_bytes(server) - before < 64 << 20
    for connection in connections:
        net.cut(connection)
    serves(server)


def test_a_chunk_that_claims_gigabytes_is_refused(start_relive):
    """The chunk consists of a few bytes that would decompress to more memory than any machine has."""
    server = start_relive(table())
    raw = server.raw()
    for shape in ([2**31 - 1], [2**40, 2**40], [1, -1], [-5]):
        chunk = data.chunk(data.rows(1))
        tensor = chunk.data.tensors[0]
        del tensor.tensor_shape.dim[:]
        for size in shape:
            tensor.tensor_shape.dim.add(size=size)
        status = raw.insert_stream().insert([chunk], [data.item("replay", chunk)]).status()
        assert status[0] is Code.INVALID_ARGUMENT, shape
    assert resident_bytes(server) < 256 << 20
    serves(server)


def record(server, session) -> bytes:
    """Returns the bytes that a well-behaved client sends in a session, including HTTP/2 framing."""
    recorder = net.Recorder(server.port)
    client = raw_client.Client(f"127.0.0.1:{recorder.port}")
    session(client)
    client.close()
    recorder.close()
    return recorder.sent()


def insert_session(client) -> None:
    stream = client.insert_stream()
    for _ in range(4):
        chunk = data.chunk(np.zeros([2, 100], np.uint8))
        stream.insert([chunk]).insert(items=[data.item("replay", chunk)]).confirmed(1)
    stream.half_close().status()


def sample_session(client) -> None:
    for _ in range(3):
        client.sample("replay", 5)


@pytest.mark.parametrize("session", [insert_session, sample_session])
def test_sessions_cut_at_any_point(start_relive, session):
    server = start_relive(table())
    serves(server)
    sent = record(server, session)
    for length in range(1, len(sent), max(1, len(sent) // 120)):
        connection = net.connect(server.port)
        connection.sendall(sent[:length])
        net.cut(connection) if length % 2 else connection.close()
    serves(server)


def test_two_servers_do_not_share_a_port(start_relive):
    server = start_relive(table())
    with pytest.raises(ServerFailed, match=str(server.port)):
        server.start_rival()
    serves(server)


def test_two_tables_do_not_share_a_name(start_relive):
    with pytest.raises(ServerFailed, match="replay"):
        start_relive(table(), table())


def test_a_server_needs_tables(start_relive):
    with pytest.raises(ServerFailed, match="(?i)table"):
        start_relive()


def test_a_stop_does_not_confirm_dropped_inserts(start_relive):
    """A blocked insert ends with UNAVAILABLE, so that a writer resends it; a blocked sampler also ends with
    UNAVAILABLE."""
    server = start_relive(tables.queue(size=1), table("empty"))
    raw = server.raw()
    chunk = data.chunk(data.rows(1))
    raw.insert(data.item("queue", chunk), chunks=[chunk])
    inserting = raw.insert_stream().insert([chunk], [data.item("queue", chunk)])
    sampling = raw.sample_stream().ask("empty", 1)
    assert inserting.is_silent(wait.QUIET_S) and sampling.is_silent(0.0)
    stopping = wait.Background(server.handle.stop)
    assert inserting.status()[0] is Code.UNAVAILABLE
    assert sampling.status()[0] in (Code.UNAVAILABLE, Code.CANCELLED)
    stopping.result()
    assert inserting.response_count() == 0


def test_idle_clients_do_not_keep_a_server_up(start_relive):
    server = start_relive(table())
    streams = [server.raw().insert_stream() for _ in range(3)]
    connection = net.connect(server.port)
    serves(server)
    server.stop()
    connection.close()
    assert len(streams) == 3


def test_writers_survive_a_crash(start_relive):
    """After SIGKILL of the server, the writer resends unconfirmed items."""
    server = start_relive(table())
    client = server.client()
    writer = client.trajectory_writer(num_keep_alive_refs=1)
    writer.append([np.float64(1)])
    writer.create_item("replay", 1.0, [writer.history[0][-1:]])
    writer.flush(timeout_ms=10_000)
    server.handle.kill()
    writer.append([np.float64(2)])
    writer.create_item("replay", 1.0, [writer.history[0][-1:]])
    server.start_again()
    wait.Background(lambda: writer.flush()).result(40.0)
    assert steps.values(server.client(), "replay") == [2]
    writer.close()


def test_many_connections_open_and_close(start_relive):
    server = start_relive(table(max_size=10_000))
    for _ in range(20):
        clients = [raw_client.Client(server.address) for _ in range(20)]
        streams = []
        for client in clients:
            chunk = data.chunk(data.rows(1))
            streams.append(client.insert_stream().insert([chunk], [data.item("replay", chunk)]))
        for stream in streams:
            stream.confirmed(1)
        for client in clients:
            client.close()
    assert server.raw().size("replay") == 400
    serves(server)
