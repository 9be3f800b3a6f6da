"""relive.rl.jax: trees of arrays as weights and as states."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relive.rl import _state
from relive.rl import jax as rlj
from relive.rl._weights import flattened, nested


class Layer(NamedTuple):
    weight: Any
    bias: Any


def tree(scale: float) -> Any:
    """Returns a tree with every kind of node and leaf."""
    layers = [Layer(jnp.full((2, 3), scale), jnp.arange(3) * scale), Layer(jnp.ones((3, 1)) * scale, None)]
    return {"a/b": layers, "count": (jnp.int32(scale), jnp.bfloat16(scale))}


def test_weights_have_names_without_slashes_and_round_trip() -> None:
    weights = rlj.weights(tree(2.0))
    assert len(weights) == 5 and all("/" not in name and isinstance(leaf, np.ndarray) for name, leaf in weights.items())
    back = rlj.load(tree(0.0), weights)
    assert jax.tree.structure(back) == jax.tree.structure(tree(2.0))
    for own, other in zip(jax.tree.leaves(back), jax.tree.leaves(tree(2.0)), strict=True):
        assert own.dtype == other.dtype and (own == other).all()


def test_a_single_array_has_a_name() -> None:
    weights = rlj.weights(jnp.arange(3.0))
    assert list(weights) == ["value"]
    found = nested(dict(flattened(weights, "Learner")))
    assert (rlj.load(jnp.zeros(3), found) == jnp.arange(3.0)).all()


def test_weights_of_another_network_are_refused() -> None:
    weights = rlj.weights({"w": jnp.ones((2, 3))})
    with pytest.raises(ValueError, match=r"the weights have \[2, 3\], not \['w'\] of the shape \[3, 2\]"):
        rlj.load({"w": jnp.ones((3, 2))}, weights)
    with pytest.raises(ValueError, match=r"the weights lack \['v'\] of the shape \[2\]"):
        rlj.load({"v": jnp.ones(2)}, weights)


def test_states_round_trip_through_bytes() -> None:
    state = {"params": [jnp.ones((2, 2)), jnp.zeros(3)], "count": jnp.int32(7)}
    leaves = _state.decode(_state.encode(rlj.saved(state)))
    back = rlj.restored(jax.tree.map(jnp.zeros_like, state), leaves)
    assert jax.tree.all(jax.tree.map(lambda own, other: own.dtype == other.dtype and bool((own == other).all()), back, state))
    with pytest.raises(ValueError, match="the saved state has 3 leaves, but this state has 1"):
        rlj.restored(jnp.zeros(2), leaves)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_random_keys_and_numbers_keep_their_kinds(impl: str) -> None:
    def state(seed: int) -> Any:
        return {"keys": jax.random.split(jax.random.key(seed, impl=impl), 3), "epoch": seed, "rate": seed / 2, "is_first": seed == 3}

    wanted = state(3)
    leaves = _state.decode(_state.encode(rlj.saved(wanted)))
    for back in (rlj.restored(state(0), leaves), rlj.load(state(0), rlj.weights(wanted))):
        assert (jax.random.normal(back["keys"][1], 4) == jax.random.normal(wanted["keys"][1], 4)).all()
        assert [type(back[name]) for name in ("epoch", "rate", "is_first")] == [int, float, bool]
        assert {name: back[name] for name in back if name != "keys"} == {"epoch": 3, "rate": 1.5, "is_first": True}
