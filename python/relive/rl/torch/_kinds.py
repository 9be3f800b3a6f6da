"""The saved form of attributes' values, which preserves their kinds: numbers, strings, arrays, lists and tuples are
saved unchanged, and all other values as records, which are dicts with a ``kind``."""

from __future__ import annotations

import collections
import dataclasses
import random
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from relive.rl.policy import Policy
from relive.rl.torch._random import existing

UNSAVED = object()
"""What :func:`saved` returns for values that cannot be saved."""

_KEYS = (bool, int, float, str, np.generic)

# How many objects and collections within each other are searched for state.
_MAX_DEPTH = 4

_LISTS = (list, tuple, collections.deque)

_FUNCTIONS = (types.FunctionType, types.MethodType, types.ModuleType)

_GENERATORS = (np.random.Generator, np.random.RandomState, torch.Generator, random.Random)


def has_state_dict(value: Any) -> bool:
    """Returns whether an object, such as a module or an optimizer, saves and loads its own state."""
    return callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))


def has_state(value: Any) -> bool:
    """Returns whether an unsaved value, such as a list of tensors and functions, probably has state that changes."""
    if isinstance(value, (Mapping, *_LISTS)):
        return any(has_state(part) for part in _parts(value))
    return isinstance(value, set) or _is_state(value) or _is_changing(value)


def _is_state(value: Any) -> bool:
    return has_state_dict(value) or isinstance(value, (np.ndarray, torch.Tensor, Policy, *_GENERATORS))


def _is_changing(value: Any, depth: int = _MAX_DEPTH) -> bool:
    """Returns whether an object of another class probably contains something that changes, such as running statistics,
    at most ``depth`` objects and collections deep."""
    return depth > 0 and any(_is_state(part) or _is_changing(part, depth - 1) for part in _parts(value))


def _parts(value: Any) -> Collection[Any]:
    """Returns the parts of a collection, or the attributes of an object that may change. Frozen data classes, such as
    settings, do not change, nor do specs and spaces, which have a data type and a shape."""
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, _LISTS):
        return value
    is_spec = hasattr(value, "dtype") and hasattr(value, "shape")
    if isinstance(value, (type, *_FUNCTIONS)) or not hasattr(value, "__dict__") or is_spec or _is_frozen(value):
        return ()
    attributes: Mapping[str, Any] = vars(value)
    return attributes.values()


def _is_frozen(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and bool(getattr(type(value), "__dataclass_params__").frozen)


def saved(value: Any) -> Any:
    """Returns the saved form of a value, which shares no memory with it, or :data:`UNSAVED`."""
    if has_state_dict(value):
        state = value.state_dict()
        form = saved(state)
        # If a part cannot be saved, the raw state lets the error name that part.
        return _record("state_dict", state=state if form is UNSAVED else form)
    if isinstance(value, np.generic):
        return _record("scalar", array=np.asarray(value))
    if isinstance(value, np.ndarray):
        return value.copy()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, torch.Tensor):
        return _saved_tensor(value)
    if isinstance(value, Mapping):
        items = {key: saved(part) for key, part in value.items()}
        is_saved = all(isinstance(key, _KEYS) and part is not UNSAVED for key, part in items.items())
        return _record("dict", items=items) if is_saved else UNSAVED
    if isinstance(value, (list, tuple, set, collections.deque)):
        return _saved_parts(value)
    return _saved_generator(value)


def restored(own: Any, form: Any, name: str) -> Any:
    """Returns the value of a saved form. If ``own`` is a module, optimizer, generator, tensor, list, deque or dict of
    the same kind as the form, it is changed in place. The value shares no memory with the form.

    Args:
      own: the current value, or ``None``.
      form: the result of :func:`saved`, in which tensors may have become arrays.
      name: the name in errors.

    Raises:
      ValueError: an object, such as a module, that does not exist yet, or a parameter of a different shape.
    """
    if isinstance(form, Mapping):
        if form.get("kind") not in _OF_KIND:
            raise ValueError(f"the saved {name} has an unknown form; it was saved by another version of Relive")
        return _OF_KIND[form["kind"]](own, form, name)
    if isinstance(form, list):
        parts = _restored_parts(own, form, name)
        if isinstance(own, list):
            own[:] = parts
            return own
        return parts
    if isinstance(form, tuple):
        parts = _restored_parts(own, form, name)
        is_named = hasattr(own, "_fields") and len(own) == len(parts)
        return type(own)(*parts) if is_named else tuple(parts)
    return form.copy() if isinstance(form, np.ndarray) else form


def _record(kind: str, **content: Any) -> dict[str, Any]:
    return {"kind": kind, **content}


def _saved_parts(value: Any) -> Any:
    parts = [saved(part) for part in value]
    if any(part is UNSAVED for part in parts):
        return UNSAVED
    if isinstance(value, collections.deque):
        return _record("deque", parts=parts, maxlen=value.maxlen)
    if isinstance(value, set):
        return _record("set", parts=parts) if all(isinstance(part, _KEYS) for part in value) else UNSAVED
    return tuple(parts) if isinstance(value, tuple) else parts


def _saved_generator(value: Any) -> Any:
    if isinstance(value, np.random.Generator):
        return _record("numpy_generator", state=value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return _record("numpy_random_state", state=value.get_state(legacy=False))
    if isinstance(value, torch.Generator):
        return _record("torch_generator", state=value.get_state().numpy(), device=str(value.device))
    if isinstance(value, random.Random):
        return _record("python_generator", state=value.getstate())
    return UNSAVED


def _saved_tensor(value: torch.Tensor) -> Any:
    if value.layout != torch.strided:
        # The error says that it is not an array.
        return value
    plain = value.detach().cpu().resolve_conj().resolve_neg()
    try:
        array = plain.numpy()
    except TypeError:
        # numpy lacks some types, such as bfloat16.
        array = plain.contiguous().reshape(-1).view(torch.uint8).numpy()
    return _record(
        "tensor", array=array.copy(), dtype=str(value.dtype).removeprefix("torch."), shape=list(value.shape), device=str(value.device),
        is_parameter=isinstance(value, torch.nn.Parameter), requires_grad=value.requires_grad and value.is_leaf,
    )  # fmt: skip


def _restored_tensor(own: Any, form: Mapping[str, Any], name: str) -> Any:
    # A copy, because a decoded array may be read-only.
    value = torch.from_numpy(np.array(form["array"]))
    dtype, shape = getattr(torch, form["dtype"]), tuple(form["shape"])
    value = value if value.dtype == dtype else value.view(dtype).reshape(shape)
    if isinstance(own, torch.Tensor) and own.shape == value.shape and own.dtype == dtype:
        with torch.no_grad():
            return own.copy_(value)
    if isinstance(own, torch.nn.Parameter):
        raise ValueError(f"the saved {name} is a tensor of the type {dtype} and the shape {shape}, but this one has {own.dtype} and "
                         f"{tuple(own.shape)}")
    value = value.to(existing(torch.device(form["device"])))
    return torch.nn.Parameter(value, form["requires_grad"]) if form["is_parameter"] else value.requires_grad_(form["requires_grad"])


def _restored_parts(own: Any, parts: Sequence[Any], name: str) -> list[Any]:
    before = list(own) if isinstance(own, (list, tuple, collections.deque)) else []
    before += [None] * (len(parts) - len(before))
    return [restored(mine, part, f"{name}[{place}]") for place, (mine, part) in enumerate(zip(before, parts, strict=False))]


def _restored_deque(own: Any, form: Mapping[str, Any], name: str) -> Any:
    parts = _restored_parts(own, form["parts"], name)
    if not isinstance(own, collections.deque):
        return collections.deque(parts, form["maxlen"])
    own.clear()
    own.extend(parts)
    return own


def _restored_set(own: Any, form: Mapping[str, Any], name: str) -> Any:
    parts = set(_restored_parts(None, form["parts"], name))
    if not isinstance(own, set):
        return parts
    own.clear()
    own.update(parts)
    return own


def _restored_dict(own: Any, form: Mapping[str, Any], name: str) -> Any:
    before = own if isinstance(own, dict) else {}
    parts = {key: restored(before.get(key), part, f"{name}[{key!r}]") for key, part in form["items"].items()}
    # The saved order.
    before.clear()
    before.update(parts)
    return before


def _restored_state_dict(own: Any, form: Mapping[str, Any], name: str) -> Any:
    if not has_state_dict(own):
        raise ValueError(f"{name} was saved as an object with state_dict(), but it is {own!r} here, and cannot be created from a state")
    own.load_state_dict(restored(None, form["state"], name))
    return own


def _restored_scalar(own: Any, form: Mapping[str, Any], name: str) -> Any:
    return np.asarray(form["array"])[()]


def _restored_numpy_generator(own: Any, form: Mapping[str, Any], name: str) -> Any:
    kind = form["state"]["bit_generator"]
    if not isinstance(own, np.random.Generator) or type(own.bit_generator).__name__ != kind:
        own = np.random.Generator(getattr(np.random, kind)())
    own.bit_generator.state = form["state"]
    return own


def _restored_numpy_random_state(own: Any, form: Mapping[str, Any], name: str) -> Any:
    kind = form["state"]["bit_generator"]
    if not isinstance(own, np.random.RandomState) or own.get_state(legacy=False)["bit_generator"] != kind:
        own = np.random.RandomState(getattr(np.random, kind)())
    own.set_state(form["state"])
    return own


def _restored_torch_generator(own: Any, form: Mapping[str, Any], name: str) -> Any:
    device = torch.device(form["device"])
    generator = own if isinstance(own, torch.Generator) else torch.Generator(existing(device))
    # The state belongs to a kind of device that this machine lacks, so it does not fit.
    if generator.device.type == device.type:
        generator.set_state(torch.from_numpy(np.array(form["state"])))
    return generator


def _restored_python_generator(own: Any, form: Mapping[str, Any], name: str) -> Any:
    generator = own if isinstance(own, random.Random) else random.Random()
    generator.setstate(form["state"])
    return generator


_OF_KIND: dict[str, Callable[[Any, Mapping[str, Any], str], Any]] = {
    "deque": _restored_deque,
    "dict": _restored_dict,
    "numpy_generator": _restored_numpy_generator,
    "numpy_random_state": _restored_numpy_random_state,
    "python_generator": _restored_python_generator,
    "scalar": _restored_scalar,
    "set": _restored_set,
    "state_dict": _restored_state_dict,
    "tensor": _restored_tensor,
    "torch_generator": _restored_torch_generator,
}
