"""The work of a shard in its own process: it produces items on request, and sends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any, Literal, Protocol

from relive import _native
from relive._remote import RemoteError, describe_error
from relive.flow._local import LocalIterator
from relive.flow._metrics import Binding, Origins, SharedMetrics
from relive.flow._operators import Operator, bound
from relive.flow._parcels import Parcel, pack, unpack

# The largest number of items that are sent together.
TOGETHER = 256
# How long an item waits to be sent together with later items.
_TOGETHER_SECONDS = 0.001

Message = tuple[Literal["items", "error", "end"], str, list[Parcel]]
"""A message from a shard: items; an error, as its traceback and the exception; or the end of the shard."""


class Output(Protocol):
    """The shard's end of the connection to its consumer."""

    def room(self) -> int:
        """Waits until items are requested, and returns their number. Called only when everything has been sent. An
        error counts as an item. Raises EOFError or OSError if the consumer is gone."""
        ...

    def calls(self) -> Iterable[Parcel]:
        """Returns the calls of methods that have arrived: the method's name and its arguments."""
        ...

    def send(self, message: Message) -> None:
        """Sends a message. Raises EOFError or OSError if the consumer is gone."""
        ...


def serve(shard: Any, operators: list[Operator], output: Output) -> None:
    """Produces as many items as are requested, until the shard ends. This is the main function of the process."""
    stream = _stream(shard, operators)
    outbox = _Outbox(output)
    room = 0
    while True:
        if outbox.is_empty():
            room = output.room()
        room -= 1
        try:
            for call in output.calls():
                _perform(shard, call)
            item = _packed(next(stream))
        except StopIteration:
            outbox.end()
            return
        except BaseException as error:
            outbox.fail(describe_error(error))
        else:
            outbox.add(item, at_once=room == 0)


def _stream(shard: Any, operators: list[Operator]) -> LocalIterator[Any]:
    """Returns the items of the shard after its operators, whose functions see the shard and share its metrics."""
    kept: list[Any] = []
    binding = Binding(Origins([], SharedMetrics(), shard), kept)
    native = _native.FlowStream.of("items", shard)
    for operator in operators:
        native = native.then(bound(operator, binding))
    return LocalIterator._over(native, "items", kept=kept)


def _perform(shard: Any, call: Parcel) -> None:
    name, arguments, named = unpack(call)
    try:
        getattr(shard, name)(*arguments, **named)
    except StopIteration as error:
        raise RuntimeError(f"the method {name} raised StopIteration") from error


def _packed(item: Any) -> Parcel:
    # Each item is pickled separately, so that an item that cannot be pickled affects no other item.
    try:
        return pack(item)
    except Exception as error:
        text = f"an item cannot be pickled in the process of its shard: {type(error).__name__}: {error}"
        raise TypeError(text) from error


class _Outbox:
    """Sends items as soon as they are finished; items that are finished within a millisecond are sent together."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._items: list[Parcel] = []
        # Held while items are added or sent.
        self._lock = threading.Lock()
        self._sent_at = 0.0
        self._has_items, self._is_over = threading.Event(), False
        self._failure: Exception | None = None
        threading.Thread(target=self._send_late, name="relive shard output", daemon=True).start()

    def is_empty(self) -> bool:
        """Returns whether everything has been sent."""
        # Items are removed only after they have been sent.
        return not self._items

    def add(self, item: Parcel, at_once: bool) -> None:
        """Sends an item, immediately or together with later items."""
        # The shard may change an array after this call.
        at_once = at_once or not isinstance(item, bytes)
        with self._lock:
            self._items.append(item)
            if at_once or len(self._items) == TOGETHER or time.perf_counter() - self._sent_at > _TOGETHER_SECONDS:
                self._send()
            elif len(self._items) == 1:
                self._has_items.set()

    def fail(self, error: RemoteError) -> None:
        """Sends an error, after the items before it."""
        raised, text = error
        with self._lock:
            self._send()
            self._output.send(("error", text, [pack(raised)]))

    def end(self) -> None:
        """Sends the end, after all items."""
        with self._lock:
            self._send()
            self._output.send(("end", "", []))
        self._is_over = True
        self._has_items.set()

    def _send(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._items:
            self._output.send(("items", "", self._items))
            self._items = []
            self._sent_at = time.perf_counter()

    def _send_late(self) -> None:
        """Sends waiting items after a short time, unless a later item has caused them to be sent."""
        while self._has_items.wait() and not self._is_over:
            self._has_items.clear()
            time.sleep(_TOGETHER_SECONDS)
            with self._lock:
                try:
                    self._send()
                except Exception as error:
                    # Raised by the next call of the shard's own thread.
                    self._failure = error
                    return
