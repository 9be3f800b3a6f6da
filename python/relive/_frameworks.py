"""Conversions of batches to the arrays of a framework, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from relive._numbers import any_number, has_other_dtype


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
    """Converts PyTorch tensors, which can have a gradient or be on a device, to arrays. Returns other values unchanged.

    Raises:
      TypeError: numbers of a type that numpy lacks.
    """
    return np.asarray(values.detach().cpu()) if is_tensor(values) else values


def as_column(values: Any) -> Any:
    """Like :func:`as_numpy`, for the values of a column, which can also be of PyTorch's type bfloat16: its values become
    those of ``ml_dtypes``.

    Raises:
      TypeError: numbers of a type that numpy lacks.
      ImportError: a bfloat16 tensor, and ``ml_dtypes`` is not installed.
    """
    if not is_tensor(values) or str(values.dtype) != "torch.bfloat16":
        return as_numpy(values)
    import torch

    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError("tensors of the type bfloat16 require ml_dtypes, which is not installed: pip install ml_dtypes") from error
    return as_numpy(values.detach().contiguous().view(torch.int16)).view(ml_dtypes.bfloat16)


def as_floats(name: str, values: Any) -> npt.NDArray[np.float64]:
    """Converts numbers, of any type and framework, to float64.

    Raises:
      TypeError: the values are not numbers; the error names the argument.
    """
    if has_other_dtype(values):
        raise TypeError(f"{name} must be numbers, got values of {values.dtype}")
    if isinstance(values, np.ndarray) and type(values) is not np.ndarray and np.ma.is_masked(values):
        raise TypeError(f"{name} have masked elements; fill them first, for example with filled(0)")
    array = np.asarray(values.detach().cpu().double() if is_tensor(values) else values)
    if array.dtype.kind in "cmMSU":
        raise TypeError(f"{name} must be numbers, got {values!r}")
    if array.dtype.kind == "O":
        return np.array([any_number(name, value) for value in array.ravel()]).reshape(array.shape)
    return array.astype(np.float64, copy=False)
