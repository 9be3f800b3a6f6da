"""TLS, tokens and roles."""

from __future__ import annotations

import contextlib
import pickle
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE_S

import relive.ray
from relive.errors import CancelledError, DeadlineExceededError, PermissionDeniedError, UnavailableError

CERTIFICATES = Path(__file__).parent / "certificates"
SERVER = relive.ServerTls(cert=CERTIFICATES / "server.pem", key=CERTIFICATES / "server-key.pem")
TRUSTING = relive.ClientTls(ca=CERTIFICATES / "ca.pem")
TOKENS = """# tests
eye read token-of-the-eye-1
hand write token-of-the-hand
boss admin token-of-the-boss
"""


def table() -> relive.Table:
    return relive.Table(
        "table", relive.selectors.Uniform(), relive.selectors.Fifo(), 100, relive.rate_limiters.MinSize(1)
    )


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(TOKENS)
    return path


@pytest.fixture
def guarded(token_file: Path) -> Iterator[relive.Server]:
    with relive.Server([table()], tls=SERVER, token_file=token_file, open_port=0) as server:
        yield server


@pytest.mark.parametrize("way", ["tcp", "unix", "shm"])
def test_steps_are_written_and_read_over_tls_with_a_token(guarded: relive.Server, way: str) -> None:
    writer = relive.Client(f"localhost:{guarded.port}", transport=way, token="token-of-the-hand", tls=TRUSTING)
    assert writer.transport == way
    writer.insert([np.arange(4, dtype=np.float32)], {"table": 1.0})
    reader = relive.Client(f"localhost:{guarded.port}", transport=way, token="token-of-the-eye-1", tls=TRUSTING)
    (column,) = next(reader.batches("table", 8)).data
    np.testing.assert_array_equal(column, np.tile(np.arange(4, dtype=np.float32), (8, 1, 1)))
    assert len(list(reader.sample("table", 3))) == 3
    assert reader.server_info()["table"].current_size == 1
    with pytest.raises(PermissionDeniedError, match='"eye" has the role read'):
        reader.insert([np.zeros(4, np.float32)], {"table": 1.0})
    with pytest.raises(PermissionDeniedError, match="Reset requires the role admin"):
        writer.reset("table")


def test_missing_and_wrong_tokens_are_reported(guarded: relive.Server) -> None:
    address = f"localhost:{guarded.port}"
    with pytest.raises(PermissionDeniedError, match="requires a token, but the client sent none"):
        relive.Client(address, transport="tcp", tls=TRUSTING).server_info()
    with pytest.raises(PermissionDeniedError, match="does not know the client's token"):
        next(relive.Client(address, transport="tcp", tls=TRUSTING, token="guessed").batches("table", 1))
    distrusting = relive.ClientTls(ca=CERTIFICATES / "other-ca.pem")
    with pytest.raises(PermissionDeniedError, match="the TLS connection failed: .*UnknownIssuer"):
        relive.Client(address, transport="tcp", tls=distrusting).server_info()


def test_an_entrance_for_everybody_has_a_role(guarded: relive.Server) -> None:
    client = relive.Client(f"localhost:{guarded.open_port}", transport="tcp")
    client.insert([np.zeros(4, np.float32)], {"table": 1.0})
    assert next(client.batches("table", 2)).data[0].shape == (2, 1, 4)
    with pytest.raises(PermissionDeniedError, match="clients have the role write"):
        client.reset("table")


def test_servers_may_ask_for_certificates() -> None:
    tls = relive.ServerTls(cert=SERVER.cert, key=SERVER.key, client_ca=CERTIFICATES / "ca.pem")
    with relive.Server([table()], tls=tls) as server:
        known = relive.ClientTls(
            ca=CERTIFICATES / "ca.pem", cert=CERTIFICATES / "client.pem", key=CERTIFICATES / "client-key.pem"
        )
        address = f"localhost:{server.port}"
        assert "table" in relive.Client(address, transport="tcp", tls=known).server_info()
        with pytest.raises(PermissionDeniedError, match="CertificateRequired"):
            relive.Client(address, transport="tcp", tls=TRUSTING).server_info()


def test_a_changed_token_file_is_reloaded(guarded: relive.Server, token_file: Path) -> None:
    def client(token: str) -> relive.Client:
        return relive.Client(f"localhost:{guarded.port}", transport="tcp", token=token, tls=TRUSTING)

    client("token-of-the-eye-1").server_info()
    token_file.write_text("fresh read a-token-that-is-fresh\n")

    def is_known(token: str) -> bool:
        try:
            client(token).server_info(timeout=PATIENCE_S)
        except PermissionDeniedError:
            return False
        return True

    while not is_known("a-token-that-is-fresh"):
        pass
    assert not is_known("token-of-the-eye-1")


def test_a_client_is_pickled_with_what_it_shows(guarded: relive.Server) -> None:
    client = relive.Client(f"localhost:{guarded.port}", transport="tcp", token="token-of-the-boss", tls=TRUSTING)
    assert "table" in pickle.loads(pickle.dumps(client)).server_info()
    assert "token" not in repr(client)


def test_replay_for_ray_uses_tls_on_both_sides() -> None:
    with relive.ray.replay([table()], host="127.0.0.1", tls=SERVER, client_tls=TRUSTING) as replay:
        assert "table" in pickle.loads(pickle.dumps(replay.client)).server_info()
    refused: Any
    for refused, text in (({"tls": SERVER}, "give tls= and client_tls= together"), ({"token": "mine"}, r"creates its own token.*; omit token=")):
        with pytest.raises(ValueError, match=text):
            relive.ray.replay([table()], host="127.0.0.1", **refused)


def test_clients_within_the_process_need_no_token(guarded: relive.Server) -> None:
    client = guarded.localhost_client()
    assert client.transport == "in-process"
    client.reset("table")


def test_one_token_needs_no_file() -> None:
    token = "the-token-of-all-of-them"
    with relive.Server([table()], token=token) as server:
        client = relive.Client(f"localhost:{server.port}", transport="tcp", token=token)
        client.insert([np.zeros(4, np.float32)], {"table": 1.0})
        assert len(list(client.sample("table", 1))) == 1
        with pytest.raises(PermissionDeniedError, match='"clients" has the role write'):
            client.reset("table")
        with pytest.raises(PermissionDeniedError, match="requires a token, but the client sent none"):
            relive.Client(f"localhost:{server.port}", transport="tcp").server_info(PATIENCE_S)
    with relive.Server([table()], listen=False) as server:
        port = server.listen(token=token)
        assert relive.Client(f"localhost:{port}", transport="tcp", token=token).server_info(PATIENCE_S)


def test_invalid_security_arguments_are_reported(tmp_path: Path, token_file: Path) -> None:
    with pytest.raises(ValueError, match="both cert and key"):
        relive.ClientTls(cert="client.pem")
    with pytest.raises(ValueError, match=r"nowhere\.pem cannot be read"):
        relive.Client("localhost:1", tls=relive.ClientTls(ca="nowhere.pem"))
    with pytest.raises(ValueError, match="no authority's certificate"):
        relive.Client("localhost:1", tls=relive.ClientTls(ca=token_file))
    with pytest.raises(ValueError, match="no private key"):
        relive.Server([table()], tls=relive.ServerTls(cert=SERVER.cert, key=SERVER.cert))
    token_file.write_text("eye read short\n")
    with pytest.raises(ValueError, match="line 1 of the token file .* the token must have 16 to 1024 characters, got 5"):
        relive.Server([table()], token_file=token_file)
    with pytest.raises(ValueError, match="the token must have 16 to 1024 characters, got 5"):
        relive.Server([table()], token="short")
    with pytest.raises(ValueError, match="either token or token_file"):
        relive.Server([table()], token="0123456789abcdef", token_file=token_file)
    with pytest.raises(ValueError, match="'root' is not a role|\"root\" is not a role"):
        relive.Server([table()], open_port=0, open_role="root")
    with pytest.raises(ValueError, match="'root' is not a role"):
        relive.Server([table()], open_role="root", listen=False)
    for options, told in (
        ({"listen": "no"}, "listen must be True or False, got 'no'"),
        ({"host": 5}, "host must be a string, got 5"),
        ({"token": 5}, "token must be a string, got 5"),
        ({"token_file": 5}, "token_file must be a path, got 5"),
        ({"tls": "x"}, "tls must be a relive.ServerTls, got 'x'"),
        ({"spill_dir": 5}, "spill_dir must be a path, got 5"),
        ({"http": 5}, "http must be a string, got 5"),
        ({"max_bytes_wait": "x"}, "max_bytes_wait must be a number, not 'x'"),
    ):
        with pytest.raises(TypeError, match=told):
            relive.Server([table()], **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_bytes_wait must be a number of seconds, at least 0"):
        relive.Server([table()], max_bytes_wait=-1)


def test_connections_beyond_the_limit_are_closed() -> None:
    with pytest.raises(ValueError, match="max_connections must be at least 1, got 0"):
        relive.Server([table()], max_connections=0)
    with pytest.raises(ValueError, match="max_bytes_in_flight must be at least 1, got 0"):
        relive.Server([table()], max_bytes_in_flight=0)
    turned_away = (CancelledError, DeadlineExceededError, UnavailableError)
    server = relive.Server([table()], host="127.0.0.1", max_connections=1)
    client = relive.Client(f"127.0.0.1:{server.port}", transport="tcp")
    with socket.create_connection(("127.0.0.1", server.port)), pytest.raises(turned_away):
        client.server_info(timeout=1)
    # The server takes a moment to detect the end of the first connection.
    until, info = time.monotonic() + PATIENCE_S, None
    while info is None and time.monotonic() < until:
        with contextlib.suppress(*turned_away):
            info = client.server_info(timeout=PATIENCE_S)
    assert info is not None and list(info) == ["table"]
    server.stop()
