"""What agents of one's own in PyTorch share: weights, states and batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from relive.rl.torch._adam import Adam
from relive.torch import to_torch as tensors

__all__ = ["Learner", "Policy", "Stateful", "load", "step", "tensors", "update_target"]


def load(module: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Has a module act by the arrays of a ``state_dict()``. On the CPU they become its parameters as they are, without a copy, and are shared with
    other policies: nobody may write to them. A module on another device gets copies there."""
    tensors = {name: torch.from_numpy(_Shared.of(array)) for name, array in weights.items()}
    on_cpu = all(parameter.device.type == "cpu" for parameter in module.parameters())
    module.load_state_dict(tensors, assign=on_cpu)


class _Shared:
    """The memory of an array that must not be written to, as PyTorch takes it: it has no tensors that are read only."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        self._array = array
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}

    @classmethod
    def of(cls, value: Any) -> npt.NDArray[Any]:
        """The array itself, if it may be written to."""
        array = np.asarray(value)
        return array if array.flags.writeable else np.asarray(cls(array))


@torch.no_grad()
def update_target(target: torch.nn.Module, module: torch.nn.Module, tau: float = 1.0) -> None:
    """Moves the parameters of ``target`` towards those of ``module`` by the share ``tau``, all the way with 1, and copies buffers."""
    own: list[torch.Tensor] = list(target.parameters())
    torch._foreach_lerp_(own, list[torch.Tensor](module.parameters()), tau)
    for buffer, other in zip(target.buffers(), module.buffers(), strict=True):
        buffer.copy_(other)


class Stateful:
    """Has ``state()`` and ``restore()`` of all attributes that can be saved: whatever has ``state_dict()`` and ``load_state_dict()``, as modules and
    optimisers do, tensors, arrays, numpy's generators of random numbers, numbers, and strings. PyTorch's own generator of the CPU belongs to it."""

    def state(self) -> dict[str, Any]:
        """All of it, by the names of the attributes."""
        found = {name: value for name, value in ((name, _saved(value)) for name, value in vars(self).items()) if value is not None}
        return {"attributes": found, "torch_rng": torch.get_rng_state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        for name, saved in state["attributes"].items():
            if not hasattr(self, name):
                raise ValueError(f"the saved {type(self).__qualname__} has {name}, which this one lacks")
            setattr(self, name, _restored(getattr(self, name), saved))
        torch.set_rng_state(torch.from_numpy(state["torch_rng"].copy()))


def _saved(value: Any) -> Any:
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
        return value.state_dict()
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, (bool, int, float, str, np.ndarray, torch.Tensor)):
        return value
    return None


def _restored(own: Any, saved: Any) -> Any:
    if callable(getattr(own, "load_state_dict", None)):
        own.load_state_dict(_as_tensors(saved))
        return own
    if isinstance(own, np.random.Generator):
        own.bit_generator.state = saved
        return own
    if isinstance(own, torch.Tensor):
        with torch.no_grad():
            own.copy_(torch.from_numpy(saved))
        return own
    return saved


def _as_tensors(saved: Any) -> Any:
    if isinstance(saved, np.ndarray):
        return torch.from_numpy(saved)
    if isinstance(saved, dict):
        return {key: _as_tensors(value) for key, value in saved.items()}
    if isinstance(saved, (list, tuple)):
        return type(saved)(_as_tensors(value) for value in saved)
    return saved


class Policy(Stateful):
    """A policy that acts by one module, which it takes its weights for. A subclass has ``act``; it runs without gradients."""

    def __init__(self, module: torch.nn.Module) -> None:
        # As it acts, without dropout and with the statistics of batches as they were learned.
        self.module = module.eval()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "act" in vars(cls):
            cls.act = torch.no_grad()(cls.act)  # type: ignore[attr-defined]

    def load(self, weights: Mapping[str, Any]) -> None:
        """Takes over the weights of its module."""
        load(self.module, weights)

    def state(self) -> dict[str, Any]:
        """As :meth:`Stateful.state`, without the module: its weights are the learner's."""
        state = super().state()
        state["attributes"].pop("module", None)
        return state


class Learner(Stateful):
    """A learner whose weights are those of the module ``module``. A subclass has ``learn``."""

    module: torch.nn.Module

    def weights(self) -> Mapping[str, Any]:
        """The module's ``state_dict()``."""
        return self.module.state_dict()


def step(optimizer: torch.optim.Optimizer, loss: torch.Tensor, *, max_norm: float | None = None) -> float:
    """A step of an optimiser down the gradient of a loss; the loss. No other parameters get gradients, whatever modules the loss goes through. With ``max_norm`` the
    gradient is scaled down to that norm."""
    flat = optimizer if isinstance(optimizer, Adam) else None
    parameters = flat.parts if flat is not None else [parameter for group in optimizer.param_groups for parameter in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
    if max_norm is not None and flat is not None:
        flat.clip(max_norm)
    elif max_norm is not None:
        # All parameters with one call; by default that is done on GPUs alone.
        torch.nn.utils.clip_grad_norm_(parameters, max_norm, foreach=True)
    optimizer.step()
    return float(loss.detach())
