"""Adam on all parameters as one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, overload

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim.adam import adam

# Adam's state for each number.
_MOMENTS = ("exp_avg", "exp_avg_sq")

# The settings of a group that PyTorch's function takes under the same names; not every version has the last one.
_OPTIONS = ("lr", "weight_decay", "eps", "amsgrad", "maximize", "decoupled_weight_decay")


class Adam(torch.optim.Adam):
    """Adam (Kingma and Ba, 2015) on all parameters as one vector. A step and the norm of the gradient each take one
    kernel call instead of one per parameter: with small networks on the CPU, kernel calls take most of a step's time.

    It computes the same updates as ``torch.optim.Adam``, and the two can load each other's ``state_dict()``. A
    parameter without a gradient is treated as if its gradient were zero. There is one group of parameters, which become
    parts of the vector. Frozen parameters (``requires_grad=False``) are left out, as if they had not been given.
    Parameters that other code has moved, such as ``module.double().float()`` or another such optimizer, are moved back
    at the next step.

    Args:
      parameters: parameters on one device and of one type, such as ``module.parameters()``.
      lr: the step size.
      betas: the decay rates of the moments.
      eps: the constant that is added to the root of the second moment.
      weight_decay: as in ``torch.optim.Adam``.

    Raises:
      TypeError: groups of parameters, or values that are not tensors.
      ValueError: no parameters that need a gradient, or parameters on several devices or of several types.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        self.parts = _checked(list(parameters))
        vector = Parameter(torch.cat([part.detach().flatten() for part in self.parts]))
        vector.grad = torch.zeros_like(vector)
        self._vector = vector
        values, self._gradients = self._split(vector.detach()), self._split(vector.grad)
        self._places = [(value.data_ptr(), gradient.data_ptr()) for value, gradient in zip(values, self._gradients, strict=True)]
        super().__init__([vector], lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True)
        for part, value in zip(self.parts, values, strict=True):
            part.data = value
        self._attach()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradient to zero; ``set_to_none`` has no effect."""
        assert self._vector.grad is not None
        self._vector.grad.zero_()
        self._attach()

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Any = None) -> Any:
        """Takes a step along the parameters' gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._gather()
        self._update()
        return loss

    def clip(self, max_norm: float) -> Tensor:
        """Clips the gradient to a norm, like ``torch.nn.utils.clip_grad_norm_``, and returns the previous norm."""
        assert self._vector.grad is not None
        self._gather()
        norm: Tensor = torch.linalg.vector_norm(self._vector.grad)
        self._vector.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, in the form of ``torch.optim.Adam`` with these parameters."""
        state = super().state_dict()
        (group,) = state["param_groups"]
        group["params"] = list(range(len(self.parts)))
        own = state["state"].get(0)
        if own is not None:
            moments = {name: self._split(own[name]) for name in _MOMENTS}
            state["state"] = {
                number: {"step": own["step"].clone(), **{name: of[number] for name, of in moments.items()}} for number in range(len(self.parts))
            }
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Loads the state of this optimizer, or of PyTorch's Adam.

        Raises:
          ValueError: the state belongs to other parameters, or to Adam with ``amsgrad``.
        """
        groups, states = state_dict["param_groups"], state_dict["state"]
        if groups[0].get("amsgrad"):
            raise ValueError("the state is of Adam with amsgrad, which this Adam does not have; use torch.optim.Adam")
        sizes = [tuple(part.shape) for part in self.parts]
        found = [tuple(states[number]["exp_avg"].shape) for number in sorted(states)]
        if len(groups) != 1 or len(groups[0]["params"]) != len(sizes) or (states and found != sizes):
            has = f"parameters of the shapes {found}" if found else "a different number of parameters"
            raise ValueError(f"the state belongs to {has}, but this optimizer's parameters have the shapes {sizes}")
        state: dict[int, Any] = {}
        if states:
            each = [states[number] for number in sorted(states)]
            state[0] = {name: torch.cat([of[name].flatten() for of in each]) for name in _MOMENTS}
            state[0]["step"] = torch.as_tensor(each[0]["step"]).clone()
        own = super().state_dict()["param_groups"][0]
        super().load_state_dict({"state": state, "param_groups": [{**own, **groups[0], "fused": True, "foreach": None, "params": [0]}]})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Not supported after construction: the vector has a fixed length."""
        if self.param_groups:
            raise ValueError("this Adam has one group of parameters; create another Adam, or use torch.optim.Adam")
        super().add_param_group(param_group)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("an optimizer of one vector cannot be copied or pickled; save its state_dict() and the module's")

    def _split(self, vector: Tensor) -> list[Tensor]:
        """Splits a vector into parts of the parameters' shapes."""
        parts = torch.split(vector, [part.numel() for part in self.parts])
        return [part.view(like.shape) for part, like in zip(parts, self.parts, strict=True)]

    def _attach(self) -> None:
        if any(gradient.data_ptr() != place for gradient, (_, place) in zip(self._gradients, self._places, strict=True)):
            # Converting a module converts gradients in place.
            assert self._vector.grad is not None
            self._gradients = self._split(self._vector.grad)
        for part, gradient in zip(self.parts, self._gradients, strict=True):
            part.grad = gradient

    @torch.no_grad()
    def _update(self) -> None:
        """Calls PyTorch's function. Collecting its arguments takes ``torch.optim.Adam.step`` longer than the update of a
        small network."""
        vector, (group,) = self._vector, self.param_groups
        state: dict[str, Any] = self.state[vector]
        if not state:
            state["step"] = torch.zeros((), device=vector.device)
            state.update({name: torch.zeros_like(vector) for name in _MOMENTS})
        assert vector.grad is not None
        first, second = ([state[name]] for name in _MOMENTS)
        options: dict[str, Any] = {name: group[name] for name in _OPTIONS if name in group}
        # The last two are of torch.amp.GradScaler.
        options |= {"fused": True, "grad_scale": getattr(self, "grad_scale", None), "found_inf": getattr(self, "found_inf", None)}
        beta1, beta2 = group["betas"]
        adam([vector], [vector.grad], first, second, [], [state["step"]], beta1=beta1, beta2=beta2, **options)

    @torch.no_grad()
    def _gather(self) -> None:
        """Moves back values and gradients that other code has moved."""
        assert self._vector.grad is not None
        found = [(part.data_ptr(), 0 if part.grad is None else part.grad.data_ptr()) for part in self.parts]
        if found == self._places:
            return
        values, gradients = self._split(self._vector.detach()), self._split(self._vector.grad)
        for part, value, gradient in zip(self.parts, values, gradients, strict=True):
            if part.data_ptr() != value.data_ptr():
                value.copy_(part)
                part.data = value
            if part.grad is None:
                gradient.zero_()
            elif part.grad.data_ptr() != gradient.data_ptr():
                gradient.copy_(part.grad)


def _checked(parts: list[Tensor]) -> list[Tensor]:
    for part in parts:
        if not isinstance(part, Tensor):
            raise TypeError(f"Adam needs parameters, such as module.parameters(), but got {type(part).__name__}; for groups, use "
                            "torch.optim.Adam")
    parts = [part for part in parts if part.requires_grad]
    kinds = {(part.device, part.dtype) for part in parts}
    if len(kinds) != 1:
        found = ", ".join(sorted(f"{dtype} on {device}" for device, dtype in kinds)) or "none that needs a gradient"
        raise ValueError(f"Adam needs parameters of one device and one type, but got {found}")
    return parts
