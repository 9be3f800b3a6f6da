"""Tables, and the server that holds them."""

from __future__ import annotations

import abc
import dataclasses
import ipaddress
import logging
import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from relive import _native, item_selectors, rate_limiters, specs
from relive.checkpointers import Checkpointer, CheckpointerBase
from relive.client import Client
from relive.errors import FailedPreconditionError
from relive.reverb_types import TableInfo
from relive.security import ServerTls

_log = logging.getLogger("relive")

# The largest size of a table: clients of dm-reverb hold it as a signed 32-bit number.
_MAX_TABLE_SIZE = 2**31 - 1

# The most shards of a table.
_MAX_SHARDS = 64

# The address at which only this machine reaches a server, and what stands for all addresses.
_LOOPBACK = "127.0.0.1"
_EVERYWHERE = "*"

# Bounds of a server that are not set.
_MAX_CONNECTIONS = 20_000
_MAX_BYTES_IN_FLIGHT = 4 << 30


class TableExtensionBase(abc.ABC):
    """What can be added to a table; see :mod:`relive.extensions` for what there is."""

    @abc.abstractmethod
    def build_internal_extensions(self, table_name: str) -> Sequence[Any]:
        """The parts that the server runs; called once, when the table is made."""


class Table:
    """Items, and the rules by which they are sampled, removed and held back.

    Args:
      name: the name by which clients ask for the table; not empty.
      sampler: which item is sampled next.
      remover: which item leaves when there are more than ``max_size`` or ``max_bytes``.
      max_size: items that the table keeps, at least 1.
      rate_limiter: how far samples and inserts may run apart.
      max_times_sampled: an item is deleted after that many samples; below 1 never.
      extensions: what else happens with items.
      signature: a nest of array specs (:class:`relive.ArraySpec`, ``tf.TensorSpec``, ``dm_env.specs.Array``,
        ``gymnasium.spaces`` …) that items are checked against, and that gives sampled data its structure.
      max_bytes: bytes that the table keeps: of its items' chunks as they are stored, each counted once. When there are more,
        the remover's choices leave. An item that alone has more is refused. ``None``: no bound.
      shards: into how many parts the server divides the table, 1 to 64, so that writers on several threads do not wait for each
        other. Each part takes its share of ``max_size``, at least 1, and removes on its own. More than one: only with the samplers
        ``Uniform`` and ``Prioritized`` and the rate limiter ``MinSize``, without ``max_bytes`` and extensions.
      seed: where the table's random choices begin, from 0 to 2**64 - 1: fresh tables of the same rules and seed give the same samples
        for the same calls in the same order. With ``shards`` they do not, since items go to shards by their random keys.

    Raises:
      ValueError: an empty name, a ``max_size`` or ``max_bytes`` below 1, a signature with a leaf that is no spec, ``shards`` that
        such a table cannot have; a rate limiter that lets nothing be sampled before the table holds more than ``max_size`` items, or
        with bounds between which nothing could ever be sampled.
      TypeError: an argument of another type.
    """

    # Whether rules are refused by which nothing could ever be sampled. dm-reverb takes them.
    _must_be_samplable = True

    def __init__(
        self,
        name: str,
        sampler: item_selectors.ItemSelector,
        remover: item_selectors.ItemSelector,
        max_size: int,
        rate_limiter: rate_limiters.RateLimiter,
        max_times_sampled: int = 0,
        extensions: Sequence[TableExtensionBase] = (),
        signature: Any = None,
        *,
        max_bytes: int | None = None,
        shards: int = 1,
        seed: int | None = None,
    ) -> None:
        _check_arguments(name, sampler, remover, max_size, rate_limiter)
        _check_max_bytes(max_bytes)
        _check_shards(shards)
        _check_seed(seed)
        self._seed = seed
        self._sampler = sampler
        self._remover = remover
        self._rate_limiter = rate_limiter
        self._extensions = tuple(extensions)
        self._signature = signature
        internal = [part for extension in extensions for part in extension.build_internal_extensions(name)]
        self._native = _native.Table(
            name,
            sampler._spec,
            remover._spec,
            max_size,
            max_bytes,
            max_times_sampled,
            shards,
            seed,
            not self._must_be_samplable,
            (
                rate_limiter.samples_per_insert,
                rate_limiter.min_size_to_sample,
                rate_limiter.min_diff,
                rate_limiter.max_diff,
            ),
            specs.as_signature(signature),
            internal,
        )

    @classmethod
    def queue(
        cls,
        name: str,
        max_size: int,
        extensions: Sequence[TableExtensionBase] = (),
        signature: Any = None,
        *,
        max_bytes: int | None = None,
        seed: int | None = None,
    ) -> Table:
        """A table that hands out every item once, the oldest first; inserts wait while it is full."""
        _check_max_size(max_size)
        return cls(
            name=name,
            sampler=item_selectors.Fifo(),
            remover=item_selectors.Fifo(),
            max_size=max_size,
            max_times_sampled=1,
            rate_limiter=rate_limiters.Queue(max_size),
            extensions=extensions,
            signature=signature,
            max_bytes=max_bytes,
            seed=seed,
        )

    @classmethod
    def stack(
        cls,
        name: str,
        max_size: int,
        extensions: Sequence[TableExtensionBase] = (),
        signature: Any = None,
        *,
        max_bytes: int | None = None,
        seed: int | None = None,
    ) -> Table:
        """A table that hands out every item once, the newest first; inserts wait while it is full."""
        _check_max_size(max_size)
        return cls(
            name=name,
            sampler=item_selectors.Lifo(),
            remover=item_selectors.Lifo(),
            max_size=max_size,
            max_times_sampled=1,
            rate_limiter=rate_limiters.Stack(max_size),
            extensions=extensions,
            signature=signature,
            max_bytes=max_bytes,
            seed=seed,
        )

    @property
    def name(self) -> str:
        """The table's name."""
        return self._native.name

    @property
    def info(self) -> TableInfo:
        """Rules, sizes and counters at this moment, and who waits for what."""
        return TableInfo._from_native(self._native.info())

    @property
    def internal_table(self) -> _native.Table:
        """The compiled table."""
        return self._native

    def can_sample(self, num_samples: int) -> bool:
        """Whether the rate limiter lets ``num_samples`` samples through now.

        Raises:
          ValueError: ``num_samples`` is below 1.
        """
        return self._native.can_sample(num_samples)

    def can_insert(self, num_inserts: int) -> bool:
        """Whether the rate limiter lets ``num_inserts`` inserts through now.

        Raises:
          ValueError: ``num_inserts`` is below 1.
        """
        return self._native.can_insert(num_inserts)

    def replace(
        self,
        name: str | None = None,
        sampler: item_selectors.ItemSelector | None = None,
        remover: item_selectors.ItemSelector | None = None,
        max_size: int | None = None,
        rate_limiter: rate_limiters.RateLimiter | None = None,
        max_times_sampled: int | None = None,
        extensions: Sequence[TableExtensionBase] | None = None,
        signature: Any = None,
        *,
        max_bytes: int | None = None,
        shards: int | None = None,
        seed: int | None = None,
    ) -> Table:
        """An empty table of the same rules, and the same seed, but for those given."""
        info = self._native.info()
        return type(self)(
            name=self.name if name is None else name,
            sampler=self._sampler if sampler is None else sampler,
            remover=self._remover if remover is None else remover,
            max_size=info["max_size"] if max_size is None else max_size,
            rate_limiter=self._limiter(info) if rate_limiter is None else rate_limiter,
            max_times_sampled=info["max_times_sampled"] if max_times_sampled is None else max_times_sampled,
            extensions=self._extensions if extensions is None else extensions,
            signature=self._signature if signature is None else signature,
            max_bytes=info["max_bytes"] if max_bytes is None else max_bytes,
            shards=info["shards"] if shards is None else shards,
            seed=self._seed if seed is None else seed,
        )

    def _limiter(self, info: dict[str, Any]) -> rate_limiters.RateLimiter:
        """The rate limiter as it is now: clients may have changed it."""
        bounds = (info["samples_per_insert"], info["min_size_to_sample"], info["min_diff"], info["max_diff"])
        now = rate_limiters.RateLimiter(*bounds)
        return self._rate_limiter if self._rate_limiter == now else now

    def __repr__(self) -> str:
        info = self._native.info()
        return (
            f"Table(name={self.name!r}, sampler={self._sampler!r}, remover={self._remover!r}, "
            f"max_size={info['max_size']}, max_times_sampled={info['max_times_sampled']}, "
            f"rate_limiter={self._limiter(info)!r}, signature={self._signature!r}, current_size={info['current_size']})"
        )


def _check_arguments(
    name: str,
    sampler: item_selectors.ItemSelector,
    remover: item_selectors.ItemSelector,
    max_size: int,
    rate_limiter: rate_limiters.RateLimiter,
) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")
    if not name:
        raise ValueError("name must be nonempty")
    for role, selector in (("sampler", sampler), ("remover", remover)):
        if not isinstance(selector, item_selectors.ItemSelector):
            raise TypeError(f"{role} must be one of relive.selectors, not {selector!r}")
    if not isinstance(rate_limiter, rate_limiters.RateLimiter):
        raise TypeError(f"rate_limiter must be one of relive.rate_limiters, not {rate_limiter!r}")
    _check_max_size(max_size)


def _check_max_size(max_size: int) -> None:
    if isinstance(max_size, bool) or not hasattr(max_size, "__index__"):
        raise TypeError(f"max_size must be an int, not {max_size!r}")
    if max_size <= 0:
        raise ValueError(f"max_size ({max_size}) must be a positive integer")
    if max_size > _MAX_TABLE_SIZE:
        raise TypeError(f"max_size ({max_size}) must be at most {_MAX_TABLE_SIZE}")


def _check_shards(shards: int) -> None:
    if isinstance(shards, bool) or not hasattr(shards, "__index__"):
        raise TypeError(f"shards must be an int, not {shards!r}")
    if not 1 <= shards <= _MAX_SHARDS:
        raise ValueError(f"shards ({shards}) must be from 1 to {_MAX_SHARDS}")


def _check_seed(seed: int | None) -> None:
    if seed is None:
        return
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise TypeError(f"seed must be an int or None, not {seed!r}")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed ({seed}) must be from 0 to 2**64 - 1")


def _check_max_bytes(max_bytes: int | None) -> None:
    if max_bytes is None:
        return
    if isinstance(max_bytes, bool) or not hasattr(max_bytes, "__index__"):
        raise TypeError(f"max_bytes must be an int or None, not {max_bytes!r}")
    if max_bytes <= 0:
        raise ValueError(f"max_bytes ({max_bytes}) must be a positive integer, or None for no bound")


class Server:
    """Serves tables on a port of this machine, and within the process through memory.

    Args:
      tables: the tables, each of another name.
      port: the port; ``None`` and 0 take a free one, which :attr:`port` tells.
      checkpointer: where checkpoints are written and read from; a fresh temporary folder by default.
      host: the address to serve on: ``"127.0.0.1"`` unless given, so that only this machine reaches the server; ``"*"`` for all of
        the machine. Without ``tls``, ``token`` and ``token_file`` whoever reaches a server can do anything with its tables; the log
        has a warning then.
      max_bytes: bytes of chunks that the server keeps in memory, in all tables and on their way to and from them. While there
        are more, inserts wait, and in the end raise ``ResourceExhaustedError``. ``None``: no bound.
      max_bytes_wait: seconds that inserts wait for memory.
      spill_dir: a folder on a fast disk. Shortly before the chunks take ``max_bytes``, those that were not read lately move
        there, and are read from there when they are sampled; inserts wait only while the disk does not keep up.
      tls: the server's certificate: everything goes over TLS then.
      token: a token that clients must show, 16 to 1024 characters: who has it may read and write. Clients within the process need
        none, and may do all.
      token_file: a file of tokens, of which clients must show one: lines ``NAME ROLE TOKEN``, as ``relive token`` makes them. It is
        read again when it changes. Instead of ``token``, where clients have tokens or roles of their own.
      open_port: a second port, without TLS and tokens, for dm-reverb's clients, which know neither; 0 takes a free one.
      open_role: what clients may do there: ``"read"``, ``"write"`` or ``"admin"``.
      max_connections: connections open at once; more are closed as they come. Readers and writers of a client have one each.
      max_bytes_in_flight: bytes on their way between clients and tables, over all connections. Further inserts and samples wait,
        and clients that do not move theirs meanwhile are cut, and try again.
      http: an address such as ``"127.0.0.1:9090"`` for metrics (``/metrics``, for Prometheus), health (``/healthz``,
        ``/readyz``) and a dashboard; port 0 takes a free one, which :attr:`http_address` tells. Whoever reaches it can
        read names and numbers of the tables, and change nothing.
      listen: ``False`` opens no port: only this process reaches the server, through :meth:`localhost_client`, until
        :meth:`listen` opens one.
      seed: where all random choices of the tables begin, as far as a table has no ``seed`` of its own.

    Raises:
      ValueError: no tables, two of one name, a port that cannot be had, a ``max_bytes`` below 1, a ``spill_dir`` without
        ``max_bytes``, a checkpoint with a table that is not given.
      RuntimeError: a checkpoint that is damaged; the error names file and place.
    """

    # Where a server listens that is not told where. dm-reverb's listens everywhere, and its users know.
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
        tables = tuple(tables or ())
        if not tables:
            raise ValueError("At least one table must be provided")
        names = [table.name for table in tables]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"Multiple items in tables have the same name: {', '.join(doubled)}")
        _check_port(port)
        _check_max_bytes(max_bytes)
        _check_seed(seed)
        if not listen:
            _check_no_port(
                port=port, host=host, tls=tls, token=token, token_file=token_file, open_port=open_port, http=http
            )
        self._tables = tables
        checkpoints = _checkpoints(checkpointer)
        memory = {
            "max_bytes": max_bytes,
            "max_bytes_wait": max_bytes_wait,
            "spill_dir": None if spill_dir is None else os.fspath(spill_dir),
        }
        if max_connections < 1:
            raise ValueError(f"max_connections must be at least 1, but it is {max_connections}")
        if max_bytes_in_flight < 1:
            raise ValueError(f"max_bytes_in_flight must be at least 1, but it is {max_bytes_in_flight}")
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

    def _host(self, host: str | None, security: dict[str, Any]) -> str | None:
        """What the compiled server is told, to which nothing means everywhere."""
        is_usual, host = host is None, self._usual_host if host is None else host
        is_open = all(security[guard] is None for guard in ("tls", "token", "token_file"))
        if is_open and not is_usual and not _is_loopback(host):
            _log.warning(
                "a server listens on %s without TLS and tokens: whoever reaches it can read, write and drop its tables; give it "
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
        """Opens a port for a server that was made with ``listen=False``, and gives it; the arguments are those of the server.

        Raises:
          ValueError: a port that cannot be had, certificates or tokens that cannot be used.
          FailedPreconditionError: the server listens already.
          ClosedError: the server was stopped.
        """
        _check_port(port)
        security = _security(tls=tls, token=token, token_file=token_file)
        self._native.listen(self._host(host, security), port, security)
        return self.port

    @property
    def port(self) -> int:
        """The port that is served.

        Raises:
          FailedPreconditionError: the server has none, as it was made with ``listen=False``.
        """
        port = self._native.port
        if port is None:
            raise FailedPreconditionError("the server has no port: it was made with listen=False; listen() opens one")
        return port

    @property
    def open_port(self) -> int | None:
        """The port without TLS and tokens; ``None`` if there is none."""
        return self._native.open_port

    @property
    def http_address(self) -> str | None:
        """Where metrics and the dashboard are, as ``host:port``; ``None`` if they were not asked for."""
        return self._native.http_address

    def stop(self) -> None:
        """Stops serving. Calls that wait get an error; a second stop does nothing.

        Raises:
          RuntimeError: the last checkpoint was to be written, and could not be.
        """
        self._native.stop()

    def wait(self) -> None:
        """Waits until the server is stopped, or Ctrl-C raises ``KeyboardInterrupt``."""
        self._native.wait()

    def localhost_client(self) -> Client:
        """A client of this server."""
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


def _security(**given: Any) -> dict[str, Any]:
    """What the compiled server is told of who may come in."""
    usual = {"tls": None, "token": None, "token_file": None, "open_port": None, "open_role": "write"}
    bounds = {"max_connections": _MAX_CONNECTIONS, "max_bytes_in_flight": _MAX_BYTES_IN_FLIGHT}
    if given.get("token") is not None and given.get("token_file") is not None:
        raise ValueError("token and token_file exclude each other; write the token into the file, with a name and a role")
    return {**usual, **bounds, **given}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _check_port(port: int | None) -> None:
    if port is not None and not 0 <= port <= 65535:
        raise ValueError(f"port must be from 0 to 65535, but it is {port}")


def _check_no_port(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is for a server that listens, but listen is False")


def _checkpoints(checkpointer: CheckpointerBase | None) -> dict[str, Any] | None:
    """What the compiled server is told; without a checkpointer it makes a temporary folder when it first writes."""
    if checkpointer is None:
        return None
    told = checkpointer.internal_checkpointer()
    if not isinstance(told, Checkpointer):
        raise TypeError(f"internal_checkpointer() must give a relive.checkpointers.Checkpointer, not {told!r}")
    return dataclasses.asdict(told)
