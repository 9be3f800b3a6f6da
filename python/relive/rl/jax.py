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
    of a Flax, Haiku or Equinox model."""
    return {_name(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def load(like: Any, weights: Mapping[str, Any]) -> Any:
    """Returns the pytree ``like`` with its leaves replaced by the arrays of :func:`weights`.

    Raises:
      ValueError: an array is missing or has a different shape.
    """

    def leaf(path: Any, own: Any) -> Any:
        name = _name(path)
        found = weights.get(name)
        if found is None or np.shape(found) != np.shape(own):
            expected = f"{name} of the shape {list(np.shape(own))}"
            raise ValueError(f"the weights lack {expected}" if found is None else f"the weights have {list(np.shape(found))}, not {expected}")
        return jnp.asarray(found)

    return jax.tree_util.tree_map_with_path(leaf, like)


def saved(tree: Any) -> list[Any]:
    """Returns the leaves of any pytree, such as an optimizer's state, for use in ``Learner.state``."""
    return [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(tree)]


def restored(like: Any, leaves: list[Any]) -> Any:
    """Returns the pytree ``like`` with the leaves of :func:`saved`.

    Raises:
      ValueError: a different number of leaves.
    """
    own, tree = jax.tree_util.tree_flatten(like)
    if len(own) != len(leaves):
        raise ValueError(f"the saved state has {len(leaves)} leaves, but this state has {len(own)}")
    return jax.tree_util.tree_unflatten(tree, [jnp.asarray(leaf) for leaf in leaves])


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path).replace("/", "|")
