"""Random numbers of a policy or a learner, apart from PyTorch's global generators."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Made = TypeVar("Made")


class Stream:
    """The random numbers of one policy or learner.

    PyTorch's global generators are shared by the whole process: each evaluation, each other run and the program itself
    would change the numbers, and worker processes would all draw the same ones. A stream has its own generator for each
    device, and depends only on its seed. It is saved and restored with ``state_dict()`` and ``load_state_dict()``.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}
        # Whether given functions draw random numbers; unknown before their first call.
        self._is_drawn: dict[str, bool] = {}

    def on(self, device: torch.device | str = "cpu") -> torch.Generator:
        """Returns the generator of a device."""
        device = _with_index(torch.device(device))
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        return self._generators[device]

    @contextlib.contextmanager
    def redirected(self) -> Iterator[_Redirected]:
        """Within this context, code of this thread that would draw from a global generator draws from this stream
        instead. Each operation takes some microseconds longer. Compiled code is not affected."""
        with _Redirected(self) as mode:
            yield mode

    def made(self, make: Callable[..., Made], *arguments: Any) -> Made:
        """Returns the result of a function that creates a module, with parameters from this stream."""
        with self.redirected():
            return make(*arguments)

    @contextlib.contextmanager
    def given(self, name: str) -> Iterator[None]:
        """The context in which a given network or loss is called. If it draws no random numbers in the first call, later
        calls are not redirected, and take no additional time."""
        if not self._is_drawn.get(name, True):
            yield
            return
        with self.redirected() as mode:
            yield
        self._is_drawn[name] = self._is_drawn.get(name, False) or mode.has_drawn

    def state_dict(self) -> dict[str, Any]:
        """Returns the states of the generators, by device."""
        return {str(device): generator.get_state() for device, generator in self._generators.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a state."""
        for name, saved in state.items():
            device = torch.device(name)
            # A generator of a device that this machine lacks is not needed here.
            if existing(device).type == device.type:
                self.on(device).set_state(saved)


def existing(device: torch.device) -> torch.device:
    """Returns the device, or the CPU if this machine lacks it."""
    module = getattr(torch, device.type, None)
    is_there = device.type != "cpu" and module is not None and (device.index or 0) < module.device_count()
    return device if is_there else torch.device("cpu")


class _Redirected(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Passes a stream's generator to each operation that would use a global generator, in this thread."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._stream, self.has_drawn = stream, False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        # Otherwise, PyTorch would not compile in any thread during the context.
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        if func is torch.ops.aten.native_dropout.default:
            return self._dropout(*args, **kwargs)
        variant, place, device = _with_generator(func), _place_of_generator(func), _device_of(args, kwargs)
        given = args[place] if place is not None and place < len(args) else kwargs.get("generator")
        if variant is None or given is not None or device.type == "meta":
            return func(*args, **kwargs)
        self.has_drawn = True
        generator = self._stream.on(device)
        if place is not None and place < len(args):
            return variant(*args[:place], generator, *args[place + 1 :], **kwargs)
        return variant(*args, **{**kwargs, "generator": generator})

    def _dropout(self, values: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
        """Dropout on GPUs is one operation, which takes no generator."""
        if train is False:
            return values, torch.ones_like(values, dtype=torch.bool)
        self.has_drawn = True
        kept = torch.empty_like(values, dtype=torch.bool).bernoulli_(1 - p, generator=self._stream.on(values.device))
        return values * kept * (1 / (1 - p) if p < 1 else 0.0), kept


@functools.cache
def _with_generator(func: Any) -> Any:
    """Returns the variant of an operation that takes a generator, or ``None`` if there is none."""
    wanted = _arguments(func)
    if any(name == "generator" for name, _ in wanted):
        return func
    variants = [getattr(func.overloadpacket, name) for name in func.overloadpacket.overloads()]
    return next((variant for variant in variants if _without_generator(variant) == wanted and variant is not func), None)


@functools.cache
def _place_of_generator(func: Any) -> int | None:
    names = [argument.name for argument in func._schema.arguments]
    return names.index("generator") if "generator" in names else None


def _arguments(func: Any) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in func._schema.arguments]


def _without_generator(func: Any) -> list[tuple[str, str]]:
    return [argument for argument in _arguments(func) if argument[0] != "generator"]


def _device_of(args: Any, kwargs: Any) -> torch.device:
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"])
    return next((value.device for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), torch.device("cpu"))


def _with_index(device: torch.device) -> torch.device:
    """Returns the device with its number, so that each device has one generator."""
    if device.type == "cpu" or device.index is not None:
        return torch.device("cpu") if device.type == "cpu" else device
    current = getattr(getattr(torch, device.type), "current_device", lambda: 0)
    return torch.device(device.type, current())
