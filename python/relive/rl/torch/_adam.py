"""Adam on all parameters as one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor
from torch.nn import Parameter


class Adam(torch.optim.Adam):
    """Adam (Kingma and Ba, 2015) on all parameters as one vector. A step is one kernel instead of one for each parameter, and so is the norm of the
    gradient: with small networks on the CPU most of such a step is the calls.

    It computes what ``torch.optim.Adam`` does. A parameter without a gradient has one of zero here. The parameters become parts of the vector, where
    ``load_state_dict``, ``copy_`` and others that write in place find them; ``module.to(…)`` comes before.

    Args:
      parameters: of one device and one type, such as ``module.parameters()``.
      lr: step size.
      betas: how much of the moments stays with each step.
      eps: what is added to the root of the second moment.
      weight_decay: as in ``torch.optim.Adam``.

    Raises:
      ValueError: there are no parameters, or they are of several devices or types.
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
        self.parts = list(parameters)
        kinds = {(part.device, part.dtype) for part in self.parts}
        if len(kinds) != 1:
            found = ", ".join(sorted(f"{dtype} on {device}" for device, dtype in kinds)) or "none"
            raise ValueError(f"Adam needs parameters of one device and one type, and got {found}")
        vector = Parameter(torch.cat([part.detach().flatten() for part in self.parts]))
        vector.grad = torch.zeros_like(vector)
        sizes = [part.numel() for part in self.parts]
        values, gradients = torch.split(vector.detach(), sizes), torch.split(vector.grad, sizes)
        for part, value in zip(self.parts, values, strict=True):
            part.data = value.view_as(part)
        self._gradients = [gradient.view_as(part) for part, gradient in zip(self.parts, gradients, strict=True)]
        self._vector = vector
        super().__init__([vector], lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=True)
        self._attach()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradient to zero; ``set_to_none`` makes no difference."""
        assert self._vector.grad is not None
        self._vector.grad.zero_()
        self._attach()

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Any = None) -> Any:
        """A step down the gradients of the parameters."""
        for part, gradient in zip(self.parts, self._gradients, strict=True):
            if part.grad is not gradient:
                # Somebody else has cleared it, and it was made anew.
                gradient.zero_() if part.grad is None else gradient.copy_(part.grad)
        return super().step(closure)

    def clip(self, max_norm: float) -> Tensor:
        """Scales the gradient down to a norm, as ``torch.nn.utils.clip_grad_norm_`` does; the norm that it had."""
        assert self._vector.grad is not None
        norm: Tensor = torch.linalg.vector_norm(self._vector.grad)
        self._vector.grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    def _attach(self) -> None:
        for part, gradient in zip(self.parts, self._gradients, strict=True):
            part.grad = gradient
