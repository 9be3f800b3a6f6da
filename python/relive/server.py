"""Tables, and the server that holds them."""

from __future__ import annotations

import dataclasses
import ipaddress
import logging
import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from relive import _native
from relive._at_exit import close_at_exit
from relive._numbers import count, flag, seconds, string, whole
from relive.checkpointers import Checkpointer, CheckpointerBase
from relive.client import Client
from relive.errors import FailedPreconditionError
from relive.reverb_types import TableInfo
from relive.security import ServerTls
from relive.tables import Table as Table
from relive.tables import TableExtensionBase as TableExtensionBase
from relive.tables import check_max_bytes, check_seed

_log = logging.getLogger("relive")

# The address at which only this machine can reach a server, and the name for all addresses.
_LOOPBACK = "127.0.0.1"
_EVERYWHERE = "*"

# The roles of clients at the open port.
_ROLES = ("read", "write", "admin")

# The defaults for bounds that are not set.
_MAX_CONNECTIONS = 20_000
_MAX_BYTES_IN_FLIGHT = 4 << 30


class Server:
    """Serves tables on a port of this machine, and to clients in the process through memory.

    Args:
      tables: the tables, which must have different names.
      port: the port; ``None`` and 0 choose a free port, which :attr:`port` returns.
      checkpointer: the location of checkpoints; by default a new temporary folder.
      host: the address to listen on. The default is ``"127.0.0.1"``, which only this machine can reach; ``"*"`` is
        every address of the machine. Without ``tls``, ``token`` or ``token_file``, anyone who can reach the server has
        full access to its tables; the server then logs a warning.
      max_bytes: the largest number of bytes of chunks that the server keeps in memory, in all tables and in transit.
        Beyond this bound, inserts wait, and eventually raise ``ResourceExhaustedError``. ``None``: no bound.
      max_bytes_wait: the number of seconds that inserts wait for memory.
      spill_dir: a folder on a fast disk. Shortly before the chunks reach ``max_bytes``, the server moves chunks that
        were not read recently to this folder, and reads them from there when they are sampled. Inserts then wait only
        if the disk is too slow.
      tls: the server's certificate; all traffic then uses TLS.
      token: a token of 16 to 1024 characters that clients must send; it grants permission to read and write. Clients in
        the same process need no token and have full access.
      token_file: a file of tokens, one of which a client must send; each line is ``NAME ROLE TOKEN``, as created by
        ``relive token``. The server reloads the file when it changes. Use it instead of ``token`` if clients have their
        own tokens or roles.
      open_port: a second port without TLS or tokens, for dm-reverb's clients, which support neither; 0 chooses a free
        one.
      open_role: the role of clients that connect to that port: ``"read"``, ``"write"`` or ``"admin"``.
      max_connections: the largest number of open connections; the server closes additional connections immediately.
        Each reader or writer of a client uses one connection.
      max_bytes_in_flight: the largest number of bytes in transit between clients and tables, over all connections.
        Beyond this bound, inserts and samples wait; clients that make no progress in the meantime are disconnected and
        retry.
      http: an address such as ``"127.0.0.1:9090"`` for metrics (``/metrics``, for Prometheus), health (``/healthz``,
        ``/readyz``) and a dashboard; port 0 chooses a free one, which :attr:`http_address` returns. It exposes the
        names and statistics of the tables to anyone who can reach it, and is read-only.
      listen: ``False`` opens no port: only this process can reach the server, through :meth:`localhost_client`, until
        :meth:`listen` opens one.
      seed: the seed of the random choices of all tables without their own ``seed``.

    Raises:
      ValueError: no tables, two tables with the same name, an unavailable port, a ``max_bytes`` below 1, a
        ``spill_dir`` without ``max_bytes``, or a checkpoint with a table that is not among ``tables``.
      RuntimeError: a damaged checkpoint; the error names the file and the position.

    >>> import relive
    >>> with relive.Server([relive.Table.queue("steps", 100)], port=0) as server:
    ...     client = relive.Client(f"localhost:{server.port}")
    ...     client.server_info()["steps"].max_size
    100
    """

    # The default address. dm-reverb's server listens on all addresses, and its users expect that.
    _usual_host = _LOOPBACK

    def __init__(
        self,
        tables: Iterable[Table] | None = None,
        port: int | None = None,
        checkpointer: CheckpointerBase | None = None,
        *,
        host: str | None = None,
        max_bytes: int | None = None,
        max_bytes_wait: float = 60.0,
        spill_dir: str | os.PathLike[str] | None = None,
        tls: ServerTls | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        open_port: int | None = None,
        open_role: str = "write",
        max_connections: int = _MAX_CONNECTIONS,
        max_bytes_in_flight: int = _MAX_BYTES_IN_FLIGHT,
        http: str | None = None,
        listen: bool = True,
        seed: int | None = None,
    ) -> None:
        tables = _tables(tables)
        if not tables:
            raise ValueError("At least one table must be provided")
        names = [table.name for table in tables]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"Multiple items in tables have the same name: {', '.join(doubled)}")
        _check_port(port)
        check_max_bytes(max_bytes)
        check_seed(seed)
        if not flag("listen", listen):
            _check_no_port(
                port=port, host=host, tls=tls, token=token, token_file=token_file, open_port=open_port, http=http
            )
        self._tables = tables
        checkpoints = _checkpoints(checkpointer)
        memory = {
            "max_bytes": max_bytes,
            "max_bytes_wait": seconds(max_bytes_wait, "max_bytes_wait"),
            "spill_dir": None if spill_dir is None else _file("spill_dir", spill_dir),
        }
        for name, bound in (("max_connections", max_connections), ("max_bytes_in_flight", max_bytes_in_flight)):
            if whole(name, bound) < 1:
                raise ValueError(f"{name} must be at least 1, got {bound}")
            count(name, bound, 1)
        if http is not None:
            string("http", http)
        security = _security(
            tls=tls,
            token=token,
            token_file=token_file,
            open_port=open_port,
            open_role=open_role,
            max_connections=max_connections,
            max_bytes_in_flight=max_bytes_in_flight,
        )
        natives = [table._native for table in tables]
        listened, self._client_class = (port or 0) if listen else None, Client
        native_host = self._host(host, security) if listen else None
        self._native = _native.Server(natives, native_host, listened, checkpoints, memory, security, http, seed)
        if checkpoints is not None and checkpoints["at_shutdown"]:
            close_at_exit(self, Server.stop)

    def _host(self, host: str | None, security: dict[str, Any]) -> str | None:
        """Returns the address in the compiled server's form: empty for all addresses."""
        is_usual, host = host is None, self._usual_host if host is None else string("host", host)
        is_open = all(security[guard] is None for guard in ("tls", "token", "token_file"))
        if is_open and not is_usual and not _is_loopback(host):
            _log.warning(
                "a server listens on %s without TLS and tokens: everyone who can connect can read, write and drop its tables; give it "
                "tls= and token=, or host=%r",
                "all addresses" if host == _EVERYWHERE else host,
                _LOOPBACK,
            )
        return None if host == _EVERYWHERE else host

    def listen(
        self,
        port: int = 0,
        *,
        host: str | None = None,
        tls: ServerTls | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
    ) -> int:
        """Opens a port for a server that was created with ``listen=False``, and returns the port; the arguments are the
        same as for the class.

        Raises:
          ValueError: an unavailable port, or unusable certificates or tokens.
          FailedPreconditionError: the server already listens.
          ClosedError: the server was stopped.
        """
        _check_port(port)
        security = _security(tls=tls, token=token, token_file=token_file)
        self._native.listen(self._host(host, security), port, security)
        return self.port

    @property
    def port(self) -> int:
        """The port on which the server listens.

        Raises:
          FailedPreconditionError: the server was created with ``listen=False`` and has no port.
        """
        port = self._native.port
        if port is None:
            raise FailedPreconditionError("the server has no port because it was created with listen=False; listen() opens one")
        return port

    @property
    def open_port(self) -> int | None:
        """The port without TLS or tokens, or ``None`` if there is none."""
        return self._native.open_port

    @property
    def http_address(self) -> str | None:
        """The address of metrics and the dashboard, as ``host:port``, or ``None`` if they are off."""
        return self._native.http_address

    def stop(self) -> None:
        """Stops serving. Waiting calls fail with an error; a second stop does nothing.

        Raises:
          RuntimeError: the final checkpoint could not be written.
        """
        self._native.stop()

    def wait(self) -> None:
        """Waits until the server is stopped, or Ctrl-C raises ``KeyboardInterrupt``."""
        self._native.wait()

    def localhost_client(self) -> Client:
        """Returns a client for this server."""
        port = self._native.port
        return self._client(self._native.local_address if port is None else f"localhost:{port}")

    @staticmethod
    def _client(address: str) -> Client:
        return Client(address)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self._native.is_running else "stopped"
        return f"Server(tables={[table.name for table in self._tables]}, port={self._native.port}, {state})"


def _tables(given: Any) -> tuple[Table, ...]:
    if given is None:
        return ()
    if isinstance(given, Table) or not isinstance(given, Iterable):
        raise TypeError(f"tables must be a list of relive.Table, not {given!r}")
    tables = tuple(given)
    for position, table in enumerate(tables):
        if not hasattr(table, "internal_table"):
            raise TypeError(f"tables must be a list of relive.Table, but the element at position {position} is {table!r}")
    return tables


def _security(**given: Any) -> dict[str, Any]:
    """Returns the access options, in the compiled server's form."""
    usual = {"tls": None, "token": None, "token_file": None, "open_port": None, "open_role": "write"}
    bounds = {"max_connections": _MAX_CONNECTIONS, "max_bytes_in_flight": _MAX_BYTES_IN_FLIGHT}
    if given.get("token") is not None and given.get("token_file") is not None:
        raise ValueError("give either token or token_file; to use both, write the token into the file, with a name and a role")
    tls, token, token_file = given.get("tls"), given.get("token"), given.get("token_file")
    if tls is not None and not isinstance(tls, ServerTls):
        raise TypeError(f"tls must be a relive.ServerTls, got {tls!r}")
    if token is not None:
        string("token", token)
    if token_file is not None:
        _file("token_file", token_file)
    _check_port(given.get("open_port"), "open_port")
    if given.get("open_role", "write") not in _ROLES:
        raise ValueError(f"open_role: {given['open_role']!r} is not a role; the roles are read, write and admin")
    return {**usual, **bounds, **given}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _check_port(port: int | None, name: str = "port") -> None:
    if port is not None and not 0 <= whole(name, port) <= 65535:
        raise ValueError(f"{name} must be from 0 to 65535, got {port}")


def _file(name: str, given: Any) -> str | bytes:
    if not isinstance(given, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} must be a path, got {given!r}")
    return os.fspath(given)


def _check_no_port(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is for a server that listens, but listen is False")


def _checkpoints(checkpointer: CheckpointerBase | None) -> dict[str, Any] | None:
    """Returns the checkpoint options in the compiled server's form. Without a checkpointer, the server creates a
    temporary folder at the first checkpoint."""
    if checkpointer is None:
        return None
    if not hasattr(checkpointer, "internal_checkpointer"):
        raise TypeError(f"checkpointer must be a checkpointer from relive.checkpointers, not {checkpointer!r}")
    internal = checkpointer.internal_checkpointer()
    if not isinstance(internal, Checkpointer):
        raise TypeError(f"internal_checkpointer() must return a relive.checkpointers.Checkpointer, got {internal!r}")
    return dataclasses.asdict(internal)
