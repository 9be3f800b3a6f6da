"""Checks and calls the functions that are passed to the PyTorch agents."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from relive import nest
from relive.rl.specs import DiscreteArraySpec, EnvironmentSpec
from relive.rl.torch._random import Stream
from relive.specs import ArraySpec, BoundedArraySpec

# The largest number of values of a discrete observation that becomes one input per value.
_MAX_ONE_HOT = 4_096

# The smallest height and width of an array of bytes that is an image.
_MIN_IMAGE_SIDE = 36

# The largest product of a batch's rows and the parameters for which one thread suffices: less than a millisecond.
_SMALL_WORK = 2**22

Network = Callable[[EnvironmentSpec], Module]


def check(agent: Any, config: Callable[..., Any], functions: Sequence[str], own: Sequence[str] = ()) -> None:
    """Checks an agent, a frozen dataclass: the fields named in ``functions`` must be functions or ``None``; ``config``
    checks and converts all others, except those named in ``own``."""
    for name in functions:
        given = getattr(agent, name)
        if isinstance(given, Module):
            raise TypeError(f"{name} is a module, but it must be a function that creates one: {name}=lambda spec: module")
        if given is not None and not callable(given):
            raise TypeError(f"{name} is {given!r}, but it must be a function")
    settings = [field.name for field in dataclasses.fields(agent) if field.name not in (*functions, *own)]
    checked = config(**{name: getattr(agent, name) for name in settings})
    for name in settings:
        object.__setattr__(agent, name, getattr(checked, name))


def module_of(name: str, given: Network, spec: EnvironmentSpec, random: Stream) -> Module:
    """Returns the module that a function creates, with parameters from the stream."""
    module = random.made(given, spec)
    if not isinstance(module, Module):
        raise TypeError(f"{name} returned {type(module).__name__}, but it must return a torch.nn.Module")
    return module


def made_in_float32(random: Stream, make: Callable[..., Module], *arguments: Any) -> Module:
    """Returns a default network, with parameters from the stream. Its numbers are float32, like the observations, even
    if PyTorch's default data type is another."""
    return random.made(make, *arguments).float()


class Observations:
    """Converts observations that are a single array to a vector of floats for default networks, in the same way as the
    agents without PyTorch. A discrete number becomes one float per value, of which one is 1 and the others are 0
    (one-hot). The bytes of an image are divided by 255."""

    def __init__(self, spec: EnvironmentSpec, agent: str) -> None:
        if not isinstance(spec.observations, ArraySpec):
            raise TypeError(f"the observations are several arrays, {spec.observations!r}: {agent} requires a network= that takes them")
        values = spec.observations.num_values if isinstance(spec.observations, DiscreteArraySpec) else 0
        self._values = values if values <= _MAX_ONE_HOT else 0
        self._scale = 1 / 255 if _is_image(spec.observations) else 1.0
        self.width = self._values or math.prod(shape_of(spec.observations))

    def __call__(self, observations: Tensor) -> Tensor:
        """Returns a vector for each row ``[B, …]``."""
        if not self._values:
            return flat(observations) if self._scale == 1.0 else flat(observations) * self._scale
        return torch.nn.functional.one_hot(observations.reshape(-1).long(), self._values).float()


def _is_image(spec: ArraySpec) -> bool:
    """Returns whether an array of bytes is an image, rather than a grid of category numbers; the agents without PyTorch
    use the same rule (``Features`` in Rust)."""
    if isinstance(spec, DiscreteArraySpec) or spec.dtype != np.uint8:
        return False
    is_full = not isinstance(spec, BoundedArraySpec) or bool((spec.minimum == 0).all() and (spec.maximum == 255).all())
    return is_full and sum(size >= _MIN_IMAGE_SIDE for size in shape_of(spec)) >= 2


def shape_of(spec: ArraySpec) -> tuple[int, ...]:
    """Returns the shape of an array of fixed size."""
    return tuple(size or 0 for size in spec.shape or ())


def layers(sizes: Sequence[int], outputs: int) -> torch.nn.Sequential:
    """Returns layers with these sizes, with ReLUs between them."""
    made: list[Module] = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        made += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*made, torch.nn.Linear(sizes[-1], outputs))


def flat(values: Tensor) -> Tensor:
    """Returns one vector of floats for each row ``[B, …]``; a row may also be a single number."""
    return values.reshape(len(values), -1).float()


def threads_for(rows: int, *modules: Module) -> int | None:
    """Returns the largest number of PyTorch threads with which modules learn from batches of this many rows: one if each
    thread's share of the work would be small. With a second thread, small work takes the same time, and many times as
    long on a machine that is busy, where the threads wait for each other."""
    parameters = [parameter for module in modules for parameter in module.parameters()]
    # A layer with more dimensions, such as a convolution, uses each parameter several times for each row.
    is_plain = all(parameter.ndim <= 2 for parameter in parameters)
    return 1 if is_plain and rows * sum(parameter.numel() for parameter in parameters) <= _SMALL_WORK else None


def inputs(observations: Any) -> Any:
    """Returns the observations as tensors, with floats as float32."""
    return nest.map_structure(lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, observations)


def expect_shape(what: str, value: Any, shape: tuple[int, ...], meaning: str) -> Tensor:
    """Checks the shape of a tensor that a passed function has created."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{what} returned {type(value).__name__}, but it must return a tensor of the shape {shape}: {meaning}")
    if value.shape != torch.Size(shape):
        raise ValueError(f"{what} returned a tensor of the shape {tuple(value.shape)}, but it must return {shape}: {meaning}")
    return value
