"""Helpers for custom JAX agents: trees of arrays as weights and states. The module contains no networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relive.jax import to_jax as arrays

__all__ = ["arrays", "load", "restored", "saved", "weights"]


def weights(tree: Any) -> dict[str, Any]:
    """Returns the leaves of a pytree by path, for ``Learner.weights``. The pytree can be, for example, the parameters
    of a Flax, Haiku or Equinox model. Random keys (``jax.random.key``) become their data."""
    return {_name(path): _array(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def load(like: Any, weights: Mapping[str, Any]) -> Any:
    """Returns the pytree ``like`` with its leaves replaced by the arrays of :func:`weights`.

    Raises:
      ValueError: an array is missing or has a different shape.
    """

    def leaf(path: Any, own: Any) -> Any:
        name = _name(path)
        found, shape = weights.get(name), np.shape(_array(own))
        if found is None or np.shape(found) != shape:
            expected = f"{name} of the shape {list(shape)}"
            raise ValueError(f"the weights lack {expected}" if found is None else f"the weights have {list(np.shape(found))}, not {expected}")
        return _like(own, found)

    return jax.tree_util.tree_map_with_path(leaf, like)


def saved(tree: Any) -> list[Any]:
    """Returns the leaves of any pytree, such as an optimizer's state, for use in ``Learner.state``. Random keys
    (``jax.random.key``) become their data."""
    return [_array(leaf) for leaf in jax.tree_util.tree_leaves(tree)]


def restored(like: Any, leaves: list[Any]) -> Any:
    """Returns the pytree ``like`` with the leaves of :func:`saved`. Random keys and Python numbers in ``like`` keep
    their types.

    Raises:
      ValueError: a different number of leaves.
    """
    own, tree = jax.tree_util.tree_flatten(like)
    if len(own) != len(leaves):
        raise ValueError(f"the saved state has {len(leaves)} leaves, but this state has {len(own)}")
    return jax.tree_util.tree_unflatten(tree, [_like(leaf, found) for leaf, found in zip(own, leaves, strict=True)])


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _array(leaf: Any) -> np.ndarray[Any, Any]:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _like(own: Any, found: Any) -> Any:
    """Returns an array as a leaf of the same kind as ``own``."""
    if _is_key(own):
        return jax.random.wrap_key_data(jnp.asarray(found), impl=jax.random.key_impl(own))
    return type(own)(found) if isinstance(own, (bool, int, float)) else jnp.asarray(found)


def _name(path: Any) -> str:
    # A tree that is a single array has an empty path.
    return jax.tree_util.keystr(path).replace("/", "|") or "value"
