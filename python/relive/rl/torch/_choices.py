"""The distribution of an array of choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.distributions.utils import lazy_property

from relive.rl.specs import DiscreteArraySpec
from relive.rl.torch._given import shape_of
from relive.specs import ArraySpec, BoundedArraySpec

# The maximum number of values of one choice, as of the agents without PyTorch. Numbers with more are rather quantities.
MAX_VALUES = 65_536


class ChoiceSpec:
    """The choices of an action that is one choice, or an array of integers between bounds, such as an action of
    ``gymnasium.spaces.MultiDiscrete`` or ``MultiBinary``.

    Attributes:
      shape: the shape of the array.
      first: the first value of each choice.
      counts: the number of values of each choice.
    """

    def __init__(self, spec: BoundedArraySpec) -> None:
        self.shape = shape_of(spec)
        self.first, last = (np.broadcast_to(bound, self.shape).ravel().tolist() for bound in (spec.minimum, spec.maximum))
        self.counts = [high - low + 1 for low, high in zip(self.first, last, strict=True)]

    @classmethod
    def of(cls, actions: ArraySpec) -> ChoiceSpec | None:
        """Returns the choices of an action, or ``None`` if it does not consist of choices."""
        if actions.dtype.kind not in "iu" or not isinstance(actions, BoundedArraySpec):
            return None
        spec = cls(actions)
        return spec if isinstance(actions, DiscreteArraySpec) or 0 < max(spec.counts, default=0) <= MAX_VALUES else None


class Categorical(torch.distributions.Categorical):
    """PyTorch's categorical distribution of logits ``[…, values]``, which need not be normalized. It computes what it is
    asked for, such as the log-probability of one value, with fewer calls of kernels; these calls take most of the time
    of a small network."""

    def __init__(self, logits: Tensor) -> None:
        self._param, self._num_events = logits, logits.shape[-1]
        Distribution.__init__(self, logits.shape[:-1], validate_args=False)

    @lazy_property
    def logits(self) -> Tensor:
        """The normalized logits: the log-probability of each value, ``[…, values]``."""
        return torch.log_softmax(self._param, -1)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of each value, ``[…, values]``."""
        return torch.softmax(self._param, -1)

    @property
    def mode(self) -> Tensor:
        """The likeliest values, ``[…]``."""
        return self._param.argmax(-1)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Categorical:
        """Returns the distribution with other batch dimensions."""
        return Categorical(self._param.expand(*batch_shape, self._num_events))

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log-probabilities of values ``[…]``."""
        if value.shape != self._batch_shape:
            return super().log_prob(value)  # type: ignore[no-any-return,no-untyped-call]
        return self.logits.gather(-1, value.long().unsqueeze(-1)).squeeze(-1)

    def sample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        """Returns values ``[*sample_shape, …]``, drawn with a generator or else with PyTorch's global one. Each value is the
        place of the largest logit after the addition of Gumbel noise, which takes less time than ``torch.multinomial``.

        Raises:
          ValueError: logits that are not numbers, or that allow no value.
        """
        logits = self._param.detach()
        if sample_shape:
            logits = logits.expand(*sample_shape, *logits.shape)
        noise = torch.empty_like(logits, dtype=torch.promote_types(logits.dtype, torch.float32)).exponential_(generator=generator)
        # The smallest of these is the largest logit with noise.
        scores = noise.log_().sub_(logits)
        if not math.isfinite(scores.sum().item()) and not scores.amin(-1).isfinite().all():
            needed = "each row of logits needs finite numbers, or -inf for values that are not allowed"
            raise ValueError(f"cannot draw a value: {needed}, but got {self._param}")
        return scores.argmin(-1)


class Choices(Distribution):
    """Independent choices: a categorical distribution for each number of an array.

    Args:
      logits: the logits of all values of all choices, ``[B, values]``.
      spec: the choices.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(self, logits: Tensor, spec: ChoiceSpec) -> None:
        self._spec = spec
        # PyTorch's distributions have methods without types.
        self.parts: list[Any] = [Categorical(part) for part in torch.split(logits, spec.counts, -1)]
        super().__init__(logits.shape[:-1], torch.Size(spec.shape), validate_args=False)

    @property
    def mode(self) -> Tensor:
        """The likeliest actions, ``[B, …]``."""
        return self._actions([part.mode for part in self.parts])

    def sample(self, sample_shape: Any = (), generator: torch.Generator | None = None) -> Tensor:
        """Returns actions ``[*sample_shape, B, …]``, drawn with a generator or else with PyTorch's global one."""
        return self._actions([part.sample(sample_shape, generator) for part in self.parts])

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log-probabilities ``[B]`` of actions ``[B, …]``."""
        values = value.reshape(*self.batch_shape, len(self.parts)).long() - self._first(value)
        total: Tensor = sum(part.log_prob(of_part) for part, of_part in zip(self.parts, values.unbind(-1), strict=True))
        return total

    def entropy(self) -> Tensor:
        """Returns the entropies ``[B]``."""
        total: Tensor = sum(part.entropy() for part in self.parts)
        return total

    def _actions(self, values: Sequence[Tensor]) -> Tensor:
        stacked = torch.stack(list(values), -1)
        return (stacked + self._first(stacked)).reshape(*stacked.shape[:-1], *self._spec.shape)

    def _first(self, like: Tensor) -> Tensor:
        return torch.tensor(self._spec.first, device=like.device)
