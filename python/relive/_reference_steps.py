"""The structures of the reference steps from which nodes and configurations were created.

Their messages have no field for them, since they are dm-reverb's. A message that is copied loses its structures; a
pickled one keeps them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

# The number of messages of a kind whose structures are known; the oldest ones are forgotten first.
_MAX_KNOWN = 4096

# For each kind of message, nodes and configurations, the messages by their ids, which stay valid because the messages are
# kept, with the outlines of their steps.
_known: dict[str, dict[int, tuple[Any, tuple[Any, ...]]]] = {}
_lock = threading.Lock()


def remember(message: Any, outlines: tuple[Any, ...]) -> None:
    """Sets the outlines (``nest.outline``) of the reference steps of a message; usually, there is one."""
    with _lock:
        known = _known.setdefault(message.DESCRIPTOR.name, {})
        known[id(message)] = (message, outlines)
        if len(known) > _MAX_KNOWN:
            del known[next(iter(known))]


def outlines_of(messages: Iterable[Any]) -> tuple[Any, ...]:
    """Returns the different outlines of the reference steps of messages, as far as they are known."""
    with _lock:
        found = [known[id(message)][1] for message in messages for known in _known.values() if id(message) in known]
    return tuple(dict.fromkeys(outline for outlines in found for outline in outlines))
