"""Tables, and the server that holds them."""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from relive import _native, item_selectors, rate_limiters, specs
from relive.checkpointers import Checkpointer, CheckpointerBase
from relive.client import Client
from relive.reverb_types import TableInfo
from relive.security import ServerTls

# The largest size of a table: clients of dm-reverb hold it as a signed 32-bit number.
_MAX_TABLE_SIZE = 2**31 - 1

# The most shards of a table.
_MAX_SHARDS = 64


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

    Raises:
      ValueError: an empty name, a ``max_size`` or ``max_bytes`` below 1, a signature with a leaf that is no spec, ``shards`` that
        such a table cannot have.
      TypeError: an argument of another type.
    """

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
    ) -> None:
        _check_arguments(name, sampler, remover, max_size, rate_limiter)
        _check_max_bytes(max_bytes)
        _check_shards(shards)
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
    ) -> Table:
        """An empty table of the same rules, but for those given."""
        info = self._native.info()
        return Table(
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


def _check_max_bytes(max_bytes: int | None) -> None:
    if max_bytes is None:
        return
    if isinstance(max_bytes, bool) or not hasattr(max_bytes, "__index__"):
        raise TypeError(f"max_bytes must be an int or None, not {max_bytes!r}")
    if max_bytes <= 0:
        raise ValueError(f"max_bytes ({max_bytes}) must be a positive integer, or None for no bound")


class Server:
    """Serves tables on a port, and within the process through memory.

    Args:
      tables: the tables, each of another name.
      port: the port, on all addresses of the machine; ``None`` and 0 take a free one, which :attr:`port` tells.
      checkpointer: where checkpoints are written and read from; a fresh temporary folder by default.
      host: the address to serve on, instead of all.
      max_bytes: bytes of chunks that the server keeps in memory, in all tables and on their way to and from them. While there
        are more, inserts wait, and in the end raise ``ResourceExhaustedError``. ``None``: no bound.
      max_bytes_wait: seconds that inserts wait for memory.
      spill_dir: a folder on a fast disk. Shortly before the chunks take ``max_bytes``, those that were not read lately move
        there, and are read from there when they are sampled; inserts wait only while the disk does not keep up.
      tls: the server's certificate: everything goes over TLS then.
      token_file: a file of tokens, of which clients must show one: lines ``NAME ROLE TOKEN``, as ``relive token`` makes them. It is
        read again when it changes. Clients within the process need none.
      open_port: a second port, without TLS and tokens, for dm-reverb's clients, which know neither; 0 takes a free one.
      open_role: what clients may do there: ``"read"``, ``"write"`` or ``"admin"``.
      max_connections: connections open at once; more are closed as they come. Readers and writers of a client have one each.
      max_bytes_in_flight: bytes on their way between clients and tables, over all connections. Further inserts and samples wait,
        and clients that do not move theirs meanwhile are cut, and try again.
      http: an address such as ``"127.0.0.1:9090"`` for metrics (``/metrics``, for Prometheus), health (``/healthz``,
        ``/readyz``) and a dashboard; port 0 takes a free one, which :attr:`http_address` tells. Whoever reaches it can
        read names and numbers of the tables, and change nothing.

    Raises:
      ValueError: no tables, two of one name, a port that cannot be had, a ``max_bytes`` below 1, a ``spill_dir`` without
        ``max_bytes``, a checkpoint with a table that is not given.
      RuntimeError: a checkpoint that is damaged; the error names file and place.
    """

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
        token_file: str | os.PathLike[str] | None = None,
        open_port: int | None = None,
        open_role: str = "write",
        max_connections: int = 20_000,
        max_bytes_in_flight: int = 4 << 30,
        http: str | None = None,
    ) -> None:
        tables = tuple(tables or ())
        if not tables:
            raise ValueError("At least one table must be provided")
        names = [table.name for table in tables]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"Multiple items in tables have the same name: {', '.join(doubled)}")
        if port is not None and not 0 <= port <= 65535:
            raise ValueError(f"port must be from 0 to 65535, but it is {port}")
        _check_max_bytes(max_bytes)
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
        security = {
            "tls": tls,
            "token_file": token_file,
            "open_port": open_port,
            "open_role": open_role,
            "max_connections": max_connections,
            "max_bytes_in_flight": max_bytes_in_flight,
        }
        natives = [table._native for table in tables]
        self._native = _native.Server(natives, host, port or 0, checkpoints, memory, security, http)

    @property
    def port(self) -> int:
        """The port that is served."""
        return self._native.port

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
        return Client(f"localhost:{self.port}")

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self._native.is_running else "stopped"
        return f"Server(tables={[table.name for table in self._tables]}, port={self.port}, {state})"


def _checkpoints(checkpointer: CheckpointerBase | None) -> dict[str, Any] | None:
    """What the compiled server is told; without a checkpointer it makes a temporary folder when it first writes."""
    if checkpointer is None:
        return None
    told = checkpointer.internal_checkpointer()
    if not isinstance(told, Checkpointer):
        raise TypeError(f"internal_checkpointer() must give a relive.checkpointers.Checkpointer, not {told!r}")
    return dataclasses.asdict(told)
