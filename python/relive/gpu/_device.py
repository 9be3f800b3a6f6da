"""The device for batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relive import _native
from relive.errors import InvalidArgumentError, UnavailableError
from relive.gpu._cuda import CudaBatches
from relive.gpu._given import whole

Convert = Callable[[Any], Any]


def unavailable() -> str | None:
    """Returns the reason why no NVIDIA GPU can be used, or ``None`` if a GPU can be used."""
    return _native.gpu_unavailable()


def conversion(framework: str, device: Any) -> Convert | None:
    """Returns the function that converts numpy arrays to a framework's arrays on a device, or ``None`` if no conversion
    is needed.

    Raises:
      InvalidArgumentError: the framework is unknown, or has no such device.
      UnavailableError: the device cannot be used; the error gives the reason.
    """
    if framework not in ("numpy", "torch", "jax"):
        raise InvalidArgumentError(f"framework is {framework!r}; it must be 'numpy', 'torch' or 'jax'")
    if str(device).split(":")[0] in ("cuda", "gpu") and (reason := unavailable()) is not None:
        raise UnavailableError(f"device is {str(device)!r}, but {reason}")
    if framework == "torch":
        return _to_torch(device)
    if framework == "jax":
        return _to_jax(device)
    if device != "cpu":
        raise InvalidArgumentError(f"device is {device!r}, but numpy supports only the CPU; use framework='torch' or 'jax'")
    return None


def resolved(framework: str, device: Any) -> str:
    """Returns the device's name. PyTorch's current CUDA device, ``"cuda"``, gets its number."""
    if framework == "torch" and str(device) == "cuda" and unavailable() is None:
        import torch

        return f"cuda:{torch.cuda.current_device()}"
    return str(device)


def cuda_batches(framework: str, device: Any) -> CudaBatches | None:
    """Returns the memory for batches that a CUDA device collects itself, or ``None`` if the host collects: for other
    devices and for JAX. :func:`conversion` must have accepted the device."""
    if framework != "torch":
        return None
    import torch

    target = torch.device(device)
    return CudaBatches(target) if target.type == "cuda" else None


def _to_torch(device: Any) -> Convert:
    import torch
    from relive.torch import to_torch

    try:
        target = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidArgumentError(f"device is {device!r}, but PyTorch has no such device: {error}") from error
    if target.type == "cuda" and not torch.cuda.is_available():
        raise UnavailableError(f"device is {str(device)!r}, but this PyTorch ({torch.__version__}) has no CUDA")
    if target.type == "cpu":
        return to_torch
    try:
        torch.empty(0, device=target)
    except (RuntimeError, NotImplementedError, AssertionError) as error:
        raise UnavailableError(f"device is {str(device)!r}, which this PyTorch ({torch.__version__}) cannot use: {error}") from error
    return lambda arrays: to_torch(arrays, device=target)


def _to_jax(device: Any) -> Convert:
    import jax
    from relive.jax import to_jax

    if not isinstance(device, str):
        return lambda arrays: to_jax(arrays, device=device)
    platform, _, number = device.partition(":")
    try:
        found = jax.devices(platform)[whole("the number of the device", int(number or 0), 0, 1 << 31)]
    except (RuntimeError, IndexError, ValueError) as error:
        raise UnavailableError(f"device is {device!r}, but JAX has no such device: {error}") from error
    return lambda arrays: to_jax(arrays, device=found)
