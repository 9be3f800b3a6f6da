"""Conversions of batches to the arrays of a framework, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def converted(data: dict[str, Any], to: str, device: Any = None) -> dict[str, Any]:
    """Converts numpy arrays to arrays of the framework ``to``, ``"numpy"``, ``"torch"`` or ``"jax"``, on a device.

    Raises:
      ValueError: ``to`` is not one of these names, or a ``device`` is given for numpy.
    """
    if to == "numpy":
        if device is not None:
            raise ValueError(f"device is {device!r}, but numpy has no devices; use to='torch' or to='jax'")
        return data
    converted: dict[str, Any]
    if to == "torch":
        from relive.torch import to_torch

        converted = to_torch(data, device=device)
    elif to == "jax":
        from relive.jax import to_jax

        converted = to_jax(data, device=device)
    else:
        raise ValueError(f"to must be 'numpy', 'torch' or 'jax', got {to!r}")
    return converted


def is_tensor(value: Any) -> bool:
    """Returns whether a value is a PyTorch tensor."""
    return hasattr(value, "detach")


def as_numpy(values: Any) -> Any:
    """Converts PyTorch tensors to arrays; they can have a gradient, be on a device, or be of the type bfloat16, which
    becomes that of ``ml_dtypes``. Returns other values unchanged.

    Raises:
      ImportError: a bfloat16 tensor, and ``ml_dtypes`` is not installed.
    """
    if not is_tensor(values):
        return values
    tensor = values.detach().cpu()
    return _of_bfloat16(tensor) if str(tensor.dtype) == "torch.bfloat16" else np.asarray(tensor)


def as_floats(values: Any) -> npt.NDArray[np.float64]:
    """Converts numbers, of any type and framework, to float64."""
    return np.asarray(values.detach().cpu().double() if is_tensor(values) else values, np.float64)


def _of_bfloat16(tensor: Any) -> npt.NDArray[Any]:
    import torch

    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError("tensors of the type bfloat16 require ml_dtypes, which is not installed: pip install ml_dtypes") from error
    array: npt.NDArray[Any] = tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return array
