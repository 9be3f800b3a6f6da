"""Helpers for custom PyTorch agents: weights, targets and steps."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from relive.rl.torch._adam import Adam
from relive.rl.torch._stateful import Stateful
from relive.torch import to_torch as tensors

__all__ = ["Learner", "Policy", "Stateful", "load", "step", "tensors", "update_target"]


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
    """Moves the parameters of ``target`` toward the parameters of ``module`` by the fraction ``tau`` (1 copies them),
    and copies buffers."""
    own, others = list[torch.Tensor](target.parameters()), list[torch.Tensor](module.parameters())
    if own or others:
        torch._foreach_lerp_(own, others, tau)
    for buffer, other in zip(target.buffers(), module.buffers(), strict=True):
        buffer.copy_(other)


# The modules of learners, and the policies that were found to have modules of their own.
_learning: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
_apart: weakref.WeakSet[Policy] = weakref.WeakSet()


class Policy(Stateful):
    """A policy that acts with one module and loads its weights. A subclass implements ``act``, which runs without
    gradients."""

    def __init__(self, module: torch.nn.Module) -> None:
        # The module is in evaluation mode: dropout is off, and batch normalization uses its running statistics.
        self.module = module.eval()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "act" in vars(cls):
            cls.act = torch.no_grad()(cls.act)  # type: ignore[attr-defined]

    def load(self, weights: Mapping[str, Any]) -> None:
        """Loads the weights of its module.

        Raises:
          ValueError: the module is also the learner's, or a part of it.
        """
        if self not in _apart:
            self._expect_own_module()
            _apart.add(self)
        load(self.module, weights)

    def _expect_own_module(self) -> None:
        own = set(map(id, self.module.parameters()))
        # Both may have the same frozen parts, which never change.
        learnt = (id(parameter) for module in list(_learning) for parameter in module.parameters() if parameter.requires_grad)
        if not own.isdisjoint(learnt):
            raise ValueError(
                f"{type(self).__qualname__} acts with the learner's network. Loading weights into it would replace the parameters that the "
                "optimizer has: give the policy a network of its own, for example copy.deepcopy(network)"
            )

    def state(self) -> dict[str, Any]:
        """Like :meth:`Stateful.state`, without the module, since its weights come from the learner."""
        state = super().state()
        state["attributes"].pop("module", None)
        return state


class Learner(Stateful):
    """A learner that publishes the weights of ``module``. A subclass implements ``learn``."""

    module: torch.nn.Module

    torch_threads: int | None = None
    """The largest number of PyTorch threads with which it learns; ``None``: as many as PyTorch uses otherwise."""

    def weights(self) -> Mapping[str, Any]:
        """Returns the module's ``state_dict()``."""
        _learning.add(self.module)
        return self.module.state_dict()

    def warm_start(self, state: Mapping[str, Any]) -> None:
        """Begins with the state of an earlier run's learner, except for its numbers and strings, such as counters, and
        for the settings of its optimizers, such as the learning rate."""
        kept = {name: form for name, form in state["attributes"].items() if not isinstance(getattr(self, name, None), (int, float, str))}
        optimizers = [value for value in vars(self).values() if isinstance(value, torch.optim.Optimizer)]
        settings = [[_settings(group) for group in optimizer.param_groups] for optimizer in optimizers]
        self.restore({**state, "attributes": kept})
        for optimizer, groups in zip(optimizers, settings, strict=True):
            for group, own in zip(optimizer.param_groups, groups, strict=True):
                group.update(own)


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


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
