"""The level below gRPC: bytes on sockets."""

from __future__ import annotations

import socket
import struct
import threading

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _END_HEADERS = 1, 4


def connect(port: int, timeout_s: float = 20.0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout_s)


def cut(connection: socket.socket) -> None:
    """Ends a connection like a machine that loses power: with a reset, without a closing handshake."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


class Recorder:
    """A proxy for one connection that stores the bytes that the client sent."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._target = port
        self._sent = bytearray()
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        server = connect(self._target)
        back = threading.Thread(target=_forward, args=(server, client, bytearray()), daemon=True)
        back.start()
        _forward(client, server, self._sent)

    def sent(self) -> bytes:
        return bytes(self._sent)

    def close(self) -> None:
        self._listener.close()


def _forward(source: socket.socket, sink: socket.socket, record: bytearray) -> None:
    try:
        while data := source.recv(1 << 16):
            record += data
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        sink.close()


def open_call(port: int, path: str) -> socket.socket:
    """Returns a connection with stream 1 open for a gRPC call, ready for `send_data`."""
    connection = connect(port)
    headers = b"".join(_literal(name, value) for name, value in [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
        ("content-type", "application/grpc"), ("te", "trailers")])
    connection.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _frame(_HEADERS, _END_HEADERS, 1, headers))
    return connection


def send_data(connection: socket.socket, data: bytes, end: bool = False) -> None:
    connection.sendall(_frame(_DATA, _END_STREAM if end else 0, 1, data))


def stream_end(connection: socket.socket) -> str:
    """Reads until the server ends stream 1 or the connection, and returns the kind of end."""
    buffer = b""
    while True:
        while len(buffer) >= 9:
            length = int.from_bytes(buffer[:3], "big")
            kind, flags, stream = buffer[3], buffer[4], int.from_bytes(buffer[5:9], "big")
            if len(buffer) < 9 + length:
                break
            buffer = buffer[9 + length :]
            if kind == _GOAWAY:
                return "goaway"
            if stream == 1 and kind == _RST_STREAM:
                return "reset"
            if stream == 1 and flags & _END_STREAM:
                return "trailers"
        data = connection.recv(1 << 16)
        if not data:
            return "closed"
        buffer += data


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _literal(name: str, value: str) -> bytes:
    """Returns, in HPACK, a literal header field without indexing, with a new name; no text here is longer than 126
    bytes."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
