"""States of policies and learners, by attribute."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import torch

from relive.rl._state import is_within_a_call
from relive.rl.torch._kinds import UNSAVED, has_state, restored, saved

_log = logging.getLogger("relive")


class Stateful:
    """Implements ``state()`` and ``restore()`` for all attributes that can be saved: objects with ``state_dict()`` and
    ``load_state_dict()``, such as modules and optimizers; tensors, arrays, numbers, strings and ``None``; random
    generators of numpy, PyTorch and Python; lists, tuples, deques and dictionaries of these; and sets of numbers and
    strings. Each value is restored as the kind that was saved; a tensor keeps its type, and its device if the machine
    has that device. The state includes PyTorch's own CPU generator.

    Other attributes, such as functions and objects of other classes, are not saved. If a list, tuple, deque or
    dictionary contains both kinds, none of it is saved. The logger ``relive`` logs a warning for such a value, for
    other sets, and for an object that has tensors, arrays or generators as attributes: it starts from scratch after a
    checkpoint. Give such an object ``state_dict()`` and ``load_state_dict()``.

    The attributes that a class names in ``unsaved`` are not saved and not restored. Name the settings that may differ
    when a run is resumed, such as the length of the run:

    >>> class Learner(Stateful):
    ...     unsaved = ("length",)
    ...
    ...     def __init__(self, length):
    ...         self.steps, self.length = 0, length
    >>> longer = Learner(length=2_000)
    >>> longer.restore(Learner(length=1_000).state())
    >>> longer.length
    2000
    """

    unsaved: ClassVar[Collection[str]] = ()
    """The names of attributes that are not saved."""

    # Whether the methods may draw from PyTorch's global generator.
    _draws_globally: ClassVar[bool] = True

    def state(self) -> dict[str, Any]:
        """Returns the state, by attribute name."""
        found = {}
        for name, value in vars(self).items():
            if name in self.unsaved:
                continue
            form = saved(value)
            if form is not UNSAVED:
                found[name] = form
            elif has_state(value) and not is_within_a_call():
                _warn_once(type(self), name)
        return {"attributes": found, **({"torch_rng": torch.get_rng_state()} if self._draws_globally else {})}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a state. If it fails, the attributes restored before the error keep their new values: create a new
        object.

        Raises:
          ValueError: the state has attributes, or objects in them, that this object lacks.
        """
        kind = type(self).__qualname__
        for name, form in state["attributes"].items():
            if name in self.unsaved:
                continue
            if not hasattr(self, name):
                raise ValueError(f"the saved {kind} has {name}, which this one lacks")
            own = getattr(self, name)
            # An attribute that cannot be saved now, such as a function, is left unchanged.
            if form is not None or saved(own) is not UNSAVED:
                setattr(self, name, restored(own, form, f"{kind}.{name}"))
        if self._draws_globally:
            torch.set_rng_state(torch.as_tensor(state["torch_rng"]).clone())


_warned: set[tuple[type, str]] = set()


def _warn_once(kind: type, name: str) -> None:
    if (kind, name) not in _warned:
        _warned.add((kind, name))
        _log.warning(
            "%s.%s cannot be saved, so it starts over after each checkpoint. To save it, separate modules, optimizers, tensors and numbers "
            "from other objects, give its objects state_dict() and load_state_dict(), or implement state() and restore(). If it need not be "
            "saved, name it in unsaved",
            kind.__qualname__, name,
        )
