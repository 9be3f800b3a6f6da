"""Tables, and the server that contains them."""

import contextlib
import functools
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from relive import _structured_value
from relive import server as _relive
from relive.server import TableExtensionBase as TableExtensionBase

from reverb import _borrowed, _texts
from reverb.client import Client
from reverb.platform.default import checkpointers

if TYPE_CHECKING:
    from reverb import pybind

_MISSING_TABLE = _texts.rule(
    r"the checkpoint has a table `(.*?)`, which is not configured; the configured tables are: (.*)",
    lambda found: f"Trying to load table '{found[1]}' but table was not found in provided list of tables. Available "
    f"tables: {found[2].split(', ')}",
)


class Table(_relive.Table):
    """A table. As in dm-reverb, tables that can never be sampled are accepted, and so are names that are ``bytes`` and
    numbers that are bools."""

    _must_be_samplable = False

    @functools.wraps(_relive.Table.__init__)
    def __init__(self, name: str | bytes, *arguments: Any, **named: Any) -> None:
        numbers = {key: _texts.number(value) for key, value in named.items()}
        super().__init__(_texts.name(name), *map(_texts.number, arguments), **numbers)

    @classmethod
    @functools.wraps(_relive.Table.queue.__func__)  # type: ignore[attr-defined]
    def queue(cls, name: str | bytes, max_size: int, *arguments: Any, **named: Any) -> _relive.Table:
        return super().queue(_texts.name(name), _texts.number(max_size), *arguments, **named)

    @classmethod
    @functools.wraps(_relive.Table.stack.__func__)  # type: ignore[attr-defined]
    def stack(cls, name: str | bytes, max_size: int, *arguments: Any, **named: Any) -> _relive.Table:
        return super().stack(_texts.name(name), _texts.number(max_size), *arguments, **named)

    @classmethod
    def _plain_class(cls) -> type["Table"]:
        return Table

    @property
    def internal_table(self) -> "pybind.Table":  # type: ignore[override]
        """The table with the methods of dm-reverb's compiled table."""
        from reverb import pybind

        return pybind._below(pybind.Table, _table=self)

    def __repr__(self) -> str:
        info, signature = self._native.info(), "nullptr"
        if self._signature:
            # Imported late, since most programs do not need it.
            from google.protobuf import text_format

            signature = text_format.MessageToString(_structured_value.encode_signature(self._signature))
        return (
            f"Table(sampler={self._sampler!r}, remover={self._remover!r}, max_size={info['max_size']}, "
            f"max_times_sampled={info['max_times_sampled']}, name={self.name}, rate_limiter={self._limiter(info)!r}, "
            f"signature={signature})"
        )


class Server(_relive.Server):
    """Serves tables on a port of all addresses. Its checkpoints are in dm-reverb's format."""

    _usual_host = "*"

    def __init__(
        self,
        tables: Sequence[Table] | None = None,
        port: int | None = None,
        checkpointer: checkpointers.CheckpointerBase | None = None,
    ) -> None:
        if checkpointer is None:
            checkpointer = checkpointers.default_checkpointer()
        with _texts.telling(_MISSING_TABLE):
            super().__init__(tables, port, checkpointer)

    @property
    def _server(self) -> "pybind.Server":
        from reverb import pybind

        return pybind._below(pybind.Server, _server=self)

    @property
    def _port(self) -> int:
        return self.port

    def wait(self) -> None:
        """Waits until the server is stopped. SIGINT raises ``KeyboardInterrupt``, even if the program ignores this
        signal or has its own handler for it."""
        with _interrupts():
            super().wait()

    @staticmethod
    def _client(address: str) -> Client:
        return Client(address)


@contextlib.contextmanager
def _interrupts() -> Iterator[None]:
    """Lets SIGINT raise ``KeyboardInterrupt`` in the main thread, the only one that handles signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        # A handler that was not installed from Python cannot be restored.
        if before is not None:
            signal.signal(signal.SIGINT, before)


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Optional Sequence",
    abc="abc",
    annotations="__future__:annotations",
    client="reverb.client",
    collections="collections",
    item_selectors="reverb.item_selectors",
    logging="absl.logging",
    nested_structure_coder="tensorflow.python.saved_model.nested_structure_coder",
    portpicker="portpicker",
    pybind="reverb.pybind",
    rate_limiters="reverb.rate_limiters",
    reverb_types="reverb.reverb_types",
    tensor_spec="tensorflow.python.framework.tensor_spec",
    termcolor="termcolor",
    tree="tree",
)
