"""The structures of the reference steps from which nodes and configurations were created.

Their messages have no field for them, since they are dm-reverb's. A message that is copied loses its structures; a
pickled one keeps them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

# The number of messages whose structures are known; the oldest ones are forgotten first.
_MAX_KNOWN = 4096

# The messages by their ids, which stay valid because the messages are kept, with the outlines of their steps.
_known: dict[int, tuple[Any, tuple[Any, ...]]] = {}
_lock = threading.Lock()


def remember(message: Any, outlines: tuple[Any, ...]) -> None:
    """Sets the outlines (``nest.outline``) of the reference steps of a message; usually, there is one."""
    with _lock:
        _known[id(message)] = (message, outlines)
        if len(_known) > _MAX_KNOWN:
            del _known[next(iter(_known))]


def outlines_of(messages: Iterable[Any]) -> tuple[Any, ...]:
    """Returns the different outlines of the reference steps of messages, as far as they are known."""
    with _lock:
        found = [_known.get(id(message), (None, ()))[1] for message in messages]
    return tuple(dict.fromkeys(outline for outlines in found for outline in outlines))
