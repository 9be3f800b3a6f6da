"""Helpers for custom PyTorch agents: weights, states and batches."""

from __future__ import annotations

import collections
import logging
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from relive.rl.torch._adam import Adam
from relive.torch import to_torch as tensors

__all__ = ["Learner", "Policy", "Stateful", "load", "step", "tensors", "update_target"]


_log = logging.getLogger("relive")


def load(module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Loads the arrays of a ``state_dict()`` into a module. On the CPU, the arrays become the module's parameters
    without a copy, and are shared with other policies, so they must not be written to. A module on another device
    receives copies."""
    tensors = {name: torch.from_numpy(_Shared.of(array)) for name, array in weights.items()}
    on_cpu = all(parameter.device.type == "cpu" for parameter in module.parameters())
    module.load_state_dict(tensors, assign=on_cpu)


class _Shared:
    """Exposes the memory of a read-only array to PyTorch, which has no read-only tensors."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}

    @classmethod
    def of(cls, value: Any) -> npt.NDArray[Any]:
        """Returns the array itself, if it is writable."""
        array = np.asarray(value)
        return array if array.flags.writeable else np.asarray(cls(array))


@torch.no_grad()
def update_target(target: torch.nn.Module, module: torch.nn.Module, tau: float = 1.0) -> None:
    """Moves the parameters of ``target`` towards the parameters of ``module`` by the fraction ``tau`` (1 copies them),
    and copies buffers."""
    own, others = list[torch.Tensor](target.parameters()), list[torch.Tensor](module.parameters())
    if own or others:
        torch._foreach_lerp_(own, others, tau)
    for buffer, other in zip(target.buffers(), module.buffers(), strict=True):
        buffer.copy_(other)


class Stateful:
    """Implements ``state()`` and ``restore()`` for all attributes that can be saved: objects with ``state_dict()`` and
    ``load_state_dict()``, such as modules and optimizers; tensors, arrays, numbers and strings; random generators of
    numpy, PyTorch and Python; and lists, tuples, deques and dictionaries of these. The state includes PyTorch's own CPU
    generator.

    Other attributes, such as settings and functions, are not saved. If a list, tuple, deque or dictionary contains both
    kinds, the logger ``relive`` warns that it begins anew after a checkpoint."""

    def state(self) -> dict[str, Any]:
        """Returns the state, by attribute name."""
        found = {}
        for name, value in vars(self).items():
            saved = _saved(value)
            if saved is not _UNSAVED:
                found[name] = saved
            elif _has_state(value):
                _warn_once(type(self), name)
        return {"attributes": found, "torch_rng": torch.get_rng_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores a state."""
        for name, saved in state["attributes"].items():
            if not hasattr(self, name):
                raise ValueError(f"the saved {type(self).__qualname__} has {name}, which this one lacks")
            setattr(self, name, _restored(getattr(self, name), saved))
        torch.set_rng_state(torch.from_numpy(state["torch_rng"].copy()))


# What _saved returns for values that cannot be saved.
_UNSAVED = object()

_warned: set[tuple[type, str]] = set()


def _warn_once(kind: type, name: str) -> None:
    if (kind, name) not in _warned:
        _warned.add((kind, name))
        _log.warning(
            "%s.%s has parts that cannot be saved, so it begins anew after each checkpoint; keep modules, optimizers, tensors and numbers "
            "apart from other objects, or implement state() and restore()", kind.__qualname__, name,
        )


def _has_state_dict(value: Any) -> bool:
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def _has_state(value: Any) -> bool:
    """Returns whether a collection contains something that changes and can be saved."""
    if isinstance(value, Mapping):
        return any(_has_state(part) for part in value.values())
    if isinstance(value, (list, tuple, collections.deque)):
        return any(_has_state(part) for part in value)
    return _has_state_dict(value) or isinstance(value, (np.ndarray, torch.Tensor, np.random.Generator, torch.Generator, random.Random))


def _saved(value: Any) -> Any:
    if _has_state_dict(value):
        return value.state_dict()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (bool, int, float, str, np.ndarray, torch.Tensor)):
        return value
    if isinstance(value, dict):
        parts: Any = {key: _saved_part(part) for key, part in value.items() if isinstance(key, (bool, int, float, str, np.generic))}
        return parts if len(parts) == len(value) and not any(part is _UNSAVED for part in parts.values()) else _UNSAVED
    if isinstance(value, (list, tuple, collections.deque)):
        parts = [_saved_part(part) for part in value]
        return _UNSAVED if any(part is _UNSAVED for part in parts) else parts
    return _UNSAVED


def _saved_part(value: Any) -> Any:
    return None if value is None else _saved(value)


def _restored(own: Any, saved: Any) -> Any:
    if saved is None:
        return None
    if _has_state_dict(own):
        own.load_state_dict(_as_tensors(saved))
    elif isinstance(own, np.random.Generator):
        own.bit_generator.state = saved
    elif isinstance(own, torch.Generator):
        own.set_state(torch.from_numpy(saved.copy()))
    elif isinstance(own, random.Random):
        own.setstate(_as_tuples(saved))
    elif isinstance(own, torch.Tensor):
        with torch.no_grad():
            own.copy_(torch.from_numpy(saved))
    elif isinstance(own, dict):
        own.update({key: _restored(own[key], part) if key in own else part for key, part in saved.items()})
        for key in own.keys() - saved.keys():
            del own[key]
    elif isinstance(own, (list, tuple, collections.deque)):
        return _parts_restored(own, saved)
    else:
        return saved
    return own


def _parts_restored(own: Any, saved: Any) -> Any:
    before = list(own)
    parts = [_restored(before[at], part) if at < len(before) else part for at, part in enumerate(saved)]
    if isinstance(own, tuple):
        return type(own)(*parts) if hasattr(own, "_fields") else tuple(parts)
    own.clear()
    own.extend(parts)
    return own


def _as_tuples(saved: Any) -> Any:
    return tuple(_as_tuples(part) for part in saved) if isinstance(saved, (list, tuple)) else saved


def _as_tensors(saved: Any) -> Any:
    if isinstance(saved, np.ndarray):
        return torch.from_numpy(saved)
    if isinstance(saved, dict):
        return {key: _as_tensors(value) for key, value in saved.items()}
    if isinstance(saved, (list, tuple)):
        return type(saved)(_as_tensors(value) for value in saved)
    return saved


class Policy(Stateful):
    """A policy that acts with one module and loads its weights. A subclass implements ``act``, which runs without
    gradients."""

    def __init__(self, module: torch.nn.Module) -> None:
        # The module is in evaluation mode: dropout is off, and batch statistics are the learned ones.
        self.module = module.eval()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "act" in vars(cls):
            cls.act = torch.no_grad()(cls.act)  # type: ignore[attr-defined]

    def load(self, weights: Mapping[str, Any]) -> None:
        """Loads the weights of its module."""
        load(self.module, weights)

    def state(self) -> dict[str, Any]:
        """Like :meth:`Stateful.state`, without the module, since its weights come from the learner."""
        state = super().state()
        state["attributes"].pop("module", None)
        return state


class Learner(Stateful):
    """A learner that publishes the weights of ``module``. A subclass implements ``learn``."""

    module: torch.nn.Module

    def weights(self) -> Mapping[str, Any]:
        """Returns the module's ``state_dict()``."""
        return self.module.state_dict()


def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor, *, max_norm: float | None = None) -> float:
    """Takes an optimizer step on a loss, and returns the loss. Only the optimizer's parameters get gradients, even if
    the loss depends on other modules; frozen parameters (``requires_grad=False``) get none. With ``max_norm``, the
    gradient is clipped to that norm."""
    flat = optimizer if isinstance(optimizer, Adam) else None
    own = flat.parts if flat is not None else [parameter for group in optimizer.param_groups for parameter in group["params"]]
    parameters = [parameter for parameter in own if parameter.requires_grad]
    optimizer.zero_grad(set_to_none=True)
    loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
    if max_norm is not None and flat is not None:
        flat.clip(max_norm)
    elif max_norm is not None:
        # One call for all parameters; the default only does this on GPUs.
        torch.nn.utils.clip_grad_norm_(parameters, max_norm, foreach=True)
    optimizer.step()
    return float(loss.detach())
