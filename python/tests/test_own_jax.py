"""relive.rl.jax: trees of arrays as weights and as states."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relive import rl
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
    with pytest.raises(ValueError, match=r"^\['w'\] has the shape \[3, 2\], but the shape \[2, 3\] in the weights; create the network"):
        rlj.load({"w": jnp.ones((3, 2))}, weights)
    with pytest.raises(ValueError, match=r"the weights lack \['v'\] of the shape \[2\]; they have \['w'\]"):
        rlj.load({"v": jnp.ones(2)}, weights)
    with pytest.raises(ValueError, match=r"the weights also have \['b'\], which the tree to load them into lacks; it has \['w'\]"):
        rlj.load({"w": jnp.ones(2)}, {"['w']": np.ones(2, np.float32), "['b']": np.ones(2)})
    with pytest.raises(ValueError, match=r"^\['w'\] has the type float32, but the type float16 in the weights; convert one of them"):
        rlj.load({"w": jnp.ones(2)}, {"['w']": np.ones(2, np.float16)})


def test_two_leaves_never_have_the_same_name() -> None:
    for call in (rlj.weights, lambda tree: rlj.load(tree, {})):
        with pytest.raises(ValueError, match=r"two leaves of the tree have the name \['a\|b'\], because `\|` replaces `/`"):
            call({"a/b": jnp.ones(2), "a|b": jnp.zeros(2)})


def test_states_of_another_network_are_refused() -> None:
    def state(width: int, **others: Any) -> Any:
        return {"params": {"w": jnp.ones((4, width))}, "count": jnp.int32(7), "epoch": 3, "mean": np.zeros(2), **others}

    leaves = _state.decode(_state.encode(rlj.saved(state(8))))
    # Without `jax_enable_x64`, JAX turns float64 into float32, also in a state that is saved again.
    again = _state.decode(_state.encode(rlj.saved(rlj.restored(state(8), leaves))))
    assert rlj.restored(state(8), again)["epoch"] == 3
    for own, text in (
        (state(16), r"\['params'\]\['w'\] has the shape \[4, 16\], but the shape \[4, 8\] in the saved state; create the network"),
        (state(8, count=jnp.float32(0)), r"\['count'\] has the type float32, but the type int32 in the saved state"),
        (state(8, epoch=False), r"\['epoch'\] has the type bool, but the type int32 in the saved state"),
        (state(8, more=1), "the saved state has 4 leaves, but this state has 5"),
    ):
        with pytest.raises(ValueError, match=f"^{text}"):
            rlj.restored(own, leaves)


def test_rollouts_become_arrays_and_are_trees() -> None:
    flags, zeros = np.zeros((5, 2), np.bool_), np.zeros((5, 2), np.float32)
    rollout = rl.Rollout({"eye": np.ones((6, 2, 3))}, zeros, {"log_prob": zeros}, rewards=zeros + 1, discounts=zeros, starts=flags, ends=flags)
    found = rlj.arrays(rollout)
    assert isinstance(found, rl.Rollout) and found.env_steps == 10
    leaves = jax.tree.leaves(found)
    assert len(leaves) == 7 and all(isinstance(leaf, jax.Array) for leaf in leaves)
    assert float(jax.jit(lambda given: given.rewards.sum())(found)) == 10
    assert found.steps()["log_prob"].shape == (10,)
    np.testing.assert_array_equal(found.advantages(np.zeros((6, 2)))[1], rollout.advantages(np.zeros((6, 2)))[1])
    assert "rewards" in jax.tree_util.keystr(jax.tree_util.tree_leaves_with_path(found)[3][0])


def test_weights_that_are_no_arrays_are_refused() -> None:
    layers = [Layer(np.ones(2), np.zeros(2)), Layer(np.ones(2), np.zeros(2))]
    for weights, path in (({"net": layers}, "net"), ({"net": {"a": layers[0]}}, "net/a"), (layers, "/"), ([np.ones(2), np.ones(3)], "/")):
        with pytest.raises(TypeError, match=rf"(?s)Own.weights\(\) has .* at '{path}', but weights must be arrays .*relive.rl.jax.weights\(tree\)"):
            flattened(weights, "Own")
    with pytest.raises(TypeError, match=r"Own.weights\(\) has bfloat16 at 'w', .*astype\(numpy.float32\)"):
        flattened({"w": jnp.ones(2, jnp.bfloat16)}, "Own")
    assert [array.tolist() for _, array in flattened({"w": [[1, 2.5]], "v": np.float32(3)}, "Own")] == [[[1, 2.5]], 3]


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
