"""Conversions of batches to the arrays of a framework, and back."""

from __future__ import annotations

from typing import Any


def converted(data: dict[str, Any], to: str) -> dict[str, Any]:
    """Converts numpy arrays to arrays of the framework ``to``: ``"numpy"``, ``"torch"`` or ``"jax"``.

    Raises:
      ValueError: ``to`` is not one of these names.
    """
    if to == "numpy":
        return data
    converted: dict[str, Any]
    if to == "torch":
        from relive.torch import to_torch

        converted = to_torch(data)
    elif to == "jax":
        from relive.jax import to_jax

        converted = to_jax(data)
    else:
        raise ValueError(f"to must be 'numpy', 'torch' or 'jax', got {to!r}")
    return converted


def as_numpy(values: Any) -> Any:
    """Converts a framework's values to a form that numpy accepts: PyTorch tensors can have a gradient, or be on a
    device."""
    return values.detach().cpu() if hasattr(values, "detach") else values
