"""Helpers for custom JAX agents: trees of arrays as weights and states. The module contains no networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relive.jax import to_jax
from relive.rl.rollout import Rollout

__all__ = ["arrays", "load", "restored", "saved", "weights"]

# The kinds of numpy's data types that are converted to Python's numbers without loss.
_KINDS = {bool: "b", int: "biu", float: "biuf"}
_FIELDS = [field.name for field in dataclasses.fields(Rollout)]
# Like a batch, which is a tuple, a rollout is a pytree.
jax.tree_util.register_pytree_with_keys(
    Rollout,
    lambda rollout: ([(jax.tree_util.GetAttrKey(name), getattr(rollout, name)) for name in _FIELDS], None),
    lambda _, parts: Rollout(*parts),
)


def arrays(batch: Any, *, device: jax.Device | jax.sharding.Sharding | None = None) -> Any:
    """Converts a batch, a :class:`relive.rl.Rollout`, or any nest of numpy arrays, to JAX arrays; see
    :func:`relive.jax.to_jax`. A rollout is a pytree, which ``jax.jit`` takes as an argument; call its methods outside
    of such functions, because they compute with numpy."""
    if isinstance(batch, Rollout):
        return Rollout(**{name: to_jax(getattr(batch, name), device=device) for name in _FIELDS})
    return to_jax(batch, device=device)


def weights(tree: Any) -> dict[str, Any]:
    """Returns the leaves of a pytree by path, for ``Learner.weights``. The pytree can be, for example, the parameters
    of a Flax, Haiku or Equinox model. Random keys (``jax.random.key``) become their data.

    Raises:
      ValueError: two leaves have the same name, because ``|`` replaces ``/`` in names.
    """
    return {name: _array(leaf) for name, leaf in _named(tree).items()}


def load(like: Any, weights: Mapping[str, Any]) -> Any:
    """Returns the pytree ``like`` with its leaves replaced by the arrays of :func:`weights`. Random keys and Python
    numbers in ``like`` keep their types.

    Raises:
      ValueError: an array is missing or superfluous, or has a different shape or data type; the error names it.
    """
    own = _named(like)
    if missing := [name for name in own if name not in weights]:
        shapes = ", ".join(f"{name} of the shape {list(_form(own[name])[0])}" for name in missing)
        raise ValueError(f"the weights lack {shapes}; they have {', '.join(weights) or 'nothing'}")
    if surplus := [name for name in weights if name not in own]:
        raise ValueError(f"the weights also have {', '.join(surplus)}, which the tree to load them into lacks; it has {', '.join(own) or 'nothing'}")
    leaves = [_like(leaf, weights[name], "the weights", name) for name, leaf in own.items()]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), leaves)


def saved(tree: Any) -> list[Any]:
    """Returns the leaves of any pytree, such as an optimizer's state, for use in ``Learner.state``. Random keys
    (``jax.random.key``) become their data."""
    return [_array(leaf) for leaf in jax.tree_util.tree_leaves(tree)]


def restored(like: Any, leaves: list[Any]) -> Any:
    """Returns the pytree ``like`` with the leaves of :func:`saved`. Random keys and Python numbers in ``like`` keep
    their types.

    Raises:
      ValueError: there are more or fewer leaves, or a leaf has a different shape or data type; the error names its
        path.
    """
    own, tree = jax.tree_util.tree_flatten_with_path(like)
    if len(own) != len(leaves):
        raise ValueError(f"the saved state has {len(leaves)} leaves, but this state has {len(own)}; restore it into a state of the same network "
                         "and optimizer")
    found = [_like(leaf, array, "the saved state", _name(path)) for (path, leaf), array in zip(own, leaves, strict=True)]
    return jax.tree_util.tree_unflatten(tree, found)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _form(leaf: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Returns the shape and the data type that a leaf has as a JAX array. Unless ``jax_enable_x64`` is set, numbers of
    64 bits have 32."""
    array = jax.random.key_data(leaf) if _is_key(leaf) else leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    return np.shape(array), jax.dtypes.canonicalize_dtype(array.dtype)


def _like(own: Any, found: Any, source: str, name: str) -> Any:
    """Returns an array as a leaf of the same kind as ``own``.

    Raises:
      ValueError: the array has a different shape or data type; the error names the leaf and the ``source``.
    """
    (shape, dtype), (found_shape, found_dtype) = _form(own), _form(found)
    if found_shape != shape:
        raise ValueError(f"{name} has the shape {list(shape)}, but the shape {list(found_shape)} in {source}; create the network and the optimizer "
                         "with the same sizes as the saved ones")
    number = next((kind for kind in _KINDS if isinstance(own, kind) and not hasattr(own, "dtype")), None)
    if found_dtype.kind not in _KINDS[number] if number else found_dtype != dtype:
        raise ValueError(f"{name} has the type {number.__name__ if number else dtype}, but the type {found_dtype} in {source}; convert one of them "
                         "first, for example with astype")
    if number is not None:
        return number(found)
    array = jnp.asarray(found)
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(own)) if _is_key(own) else array


def _named(tree: Any) -> dict[str, Any]:
    """Returns the leaves of a pytree by name.

    Raises:
      ValueError: two leaves have the same name.
    """
    named: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if (name := _name(path)) in named:
            raise ValueError(f"two leaves of the tree have the name {name}, because `|` replaces `/` in names; rename one of them")
        named[name] = leaf
    return named


def _name(path: Any) -> str:
    # A tree that is a single array has an empty path.
    return jax.tree_util.keystr(path).replace("/", "|") or "value"
