"""PPO (Schulman et al., 2017) in JAX, without other libraries: the network is a nest of arrays, and Adam is a function.

    python ppo_jax.py CartPole-v1 --steps 100000
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from relive import rl
from relive.rl import jax as rlj

Params = Any


def tower(key: jax.Array, *sizes: int, gain: float) -> list[dict[str, jax.Array]]:
    """Returns the parameters of a stack of layers with tanh between them."""
    gains = [2**0.5] * (len(sizes) - 2) + [gain]
    weights = [
        jax.nn.initializers.orthogonal(of)(part, (inputs, outputs))
        for part, of, inputs, outputs in zip(jax.random.split(key, len(gains)), gains, sizes[:-1], sizes[1:], strict=True)
    ]
    return [{"weight": weight, "bias": jnp.zeros(weight.shape[1])} for weight in weights]


def through(layers: Any, inputs: jax.Array) -> jax.Array:
    for layer in layers[:-1]:
        inputs = jnp.tanh(inputs @ layer["weight"] + layer["bias"])
    return inputs @ layers[-1]["weight"] + layers[-1]["bias"]


def network(spec: rl.EnvironmentSpec, width: int, key: jax.Array) -> Params:
    inputs, choices = int(np.prod(spec.observations.shape)), spec.actions.num_values
    of_policy, of_value = jax.random.split(key)
    return {
        "policy": tower(of_policy, inputs, width, width, choices, gain=0.01),
        "value": tower(of_value, inputs, width, width, 1, gain=1.0),
    }


@jax.jit
def logits(params: Params, observations: jax.Array) -> jax.Array:
    """Returns the logarithms of the probabilities of all actions."""
    flat = observations.reshape(*observations.shape[:1], -1).astype(jnp.float32)
    return jax.nn.log_softmax(through(params["policy"], flat))


@jax.jit
def values(params: Params, observations: jax.Array) -> jax.Array:
    """Returns the values of observations ``[time, rows, …]``."""
    flat = observations.reshape(*observations.shape[:2], -1).astype(jnp.float32)
    return through(params["value"], flat)[..., 0]


@jax.jit
def drawn(params: Params, key: jax.Array, observations: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns actions, and the logarithms of their probabilities."""
    likely = logits(params, observations)
    actions = jax.random.categorical(key, likely)
    return actions, jnp.take_along_axis(likely, actions[:, None], 1)[:, 0]


def adam(params: Params, gradient: Params, moments: Any, rate: float, max_norm: float) -> tuple[Params, Any]:
    """Takes a step of Adam (Kingma and Ba, 2015) with a gradient that is clipped by its norm."""
    norm = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(gradient)))
    gradient = jax.tree.map(lambda leaf: leaf * jnp.minimum(1.0, max_norm / (norm + 1e-6)), gradient)
    count = moments["count"] + 1
    mean = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, moments["mean"], gradient)
    square = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new**2, moments["square"], gradient)
    by = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    params = jax.tree.map(lambda leaf, m, v: leaf - by * m / (jnp.sqrt(v) + 1e-5), params, mean, square)
    return params, {"mean": mean, "square": square, "count": count}


def loss(params: Params, batch: Any, settings: PPO) -> jax.Array:
    """Returns the clipped objective (equation 9), over the steps that are not masked."""

    def mean(leaf: jax.Array) -> jax.Array:
        return (leaf * batch["counts"]).sum() / batch["counts"].sum()

    likely = logits(params, batch["observations"])
    log_prob = jnp.take_along_axis(likely, batch["actions"][:, None], 1)[:, 0]
    centered = batch["advantages"] - mean(batch["advantages"])
    advantages = centered / (jnp.sqrt(mean(centered**2)) + 1e-8)
    ratio = jnp.exp(log_prob - batch["log_prob"])
    least = jnp.minimum(ratio * advantages, jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip) * advantages)
    errors = values(params, batch["observations"][None])[0] - batch["returns"]
    entropy = -(jnp.exp(likely) * likely).sum(-1)
    return -mean(least) + settings.value_cost * mean(errors**2) - settings.entropy_cost * mean(entropy)


@functools.partial(jax.jit, static_argnums=4)
def update(params: Params, moments: Any, steps: Any, order: jax.Array, settings: PPO) -> tuple[Params, Any, jax.Array]:
    """Takes a step of Adam for each row of ``order``, which contains the step numbers of a minibatch."""

    def minibatch(carry: Any, chosen: jax.Array) -> Any:
        batch = jax.tree.map(lambda leaf: leaf[chosen], steps)
        told, gradient = jax.value_and_grad(loss)(carry[0], batch, settings)
        return adam(carry[0], gradient, carry[1], settings.learning_rate, 0.5), told

    (params, moments), losses = jax.lax.scan(minibatch, (params, moments), order)
    return params, moments, losses.mean()


class Policy:
    """Draws actions; in evaluations, takes the most likely action."""

    extras = {"log_prob": np.float32}

    def __init__(self, params: Params, context: rl.PolicyContext) -> None:
        self.params, self.explores = params, context.explores
        self.key = jax.random.key(int(context.rng().integers(2**32)))

    def act(self, observations: Any, starts: Any) -> Any:
        if not self.explores:
            likely = logits(self.params, observations)
            return likely.argmax(-1), {"log_prob": likely.max(-1)}
        self.key, key = jax.random.split(self.key)
        actions, log_prob = drawn(self.params, key, observations)
        return actions, {"log_prob": log_prob}

    def load(self, weights: Any) -> None:
        self.params = rlj.load(self.params, weights)

    def state(self) -> Any:
        return jax.random.key_data(self.key)

    def restore(self, state: Any) -> None:
        self.key = jax.random.wrap_key_data(state)


class Learner:
    """Learns with several epochs of minibatches over each rollout."""

    def __init__(self, settings: PPO, spec: rl.EnvironmentSpec, seed: int) -> None:
        self.settings, self.rng = settings, np.random.default_rng(seed)
        self.params = network(spec, settings.width, jax.random.key(seed))
        zeros = jax.tree.map(jnp.zeros_like, self.params)
        self.moments = {"mean": zeros, "square": zeros, "count": jnp.zeros((), jnp.int32)}

    def learn(self, rollout: rl.Rollout) -> rl.Learnt:
        settings = self.settings
        advantages, returns = rollout.advantages(
            values(self.params, rollout.observations), discount=settings.discount, gae_lambda=settings.gae_lambda
        )
        # The arrays contain all steps, including masked steps that only reset, so that their shapes stay constant and
        # JAX compiles once.
        steps = {
            "observations": rollout.observations[:-1], "actions": rollout.actions, "log_prob": rollout.extras["log_prob"],
            "advantages": advantages, "returns": returns, "counts": ~rollout.starts,
        }
        steps = {name: leaf.reshape(-1, *leaf.shape[2:]) for name, leaf in steps.items()}
        count = returns.size // settings.minibatch_size * settings.minibatch_size
        order = np.stack([self.rng.permutation(returns.size)[:count] for _ in range(settings.epochs)])
        order = order.reshape(-1, settings.minibatch_size)
        self.params, self.moments, told = update(self.params, self.moments, steps, order, settings)
        return rl.Learnt({"loss": float(told)}, steps=len(order), samples=settings.epochs * int(steps["counts"].sum()))

    def weights(self) -> Any:
        return rlj.weights(self.params)

    def state(self) -> Any:
        return {"leaves": rlj.saved((self.params, self.moments)), "rng": self.rng.bit_generator.state}

    def restore(self, state: Any) -> None:
        self.params, self.moments = rlj.restored((self.params, self.moments), state["leaves"])
        self.rng.bit_generator.state = state["rng"]


@dataclasses.dataclass(frozen=True)
class PPO:
    """The agent: its settings, and the methods that create its parts."""

    experience: rl.Rollouts = rl.Rollouts(steps=128, environments=8)
    discount: float = 0.98
    gae_lambda: float = 0.9
    epochs: int = 10
    minibatch_size: int = 256
    clip: float = 0.2
    value_cost: float = 0.5
    entropy_cost: float = 0.0
    learning_rate: float = 1e-3
    width: int = 64

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(network(spec, self.width, jax.random.key(0)), context)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        return Learner(self, spec, seed)


if __name__ == "__main__":
    from command import main

    main(PPO(), "CartPole-v1", steps=100_000)
