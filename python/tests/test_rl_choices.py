"""Actions that are arrays of choices."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from relive import rl
from relive.rl import torch as rlt
from relive.rl.torch._choices import Choices, ChoiceSpec
from relive.specs import BoundedArraySpec

SPACES = {
    "MultiDiscrete": spaces.MultiDiscrete([3, 2], start=[1, -1]),
    "MultiDiscrete of two dimensions": spaces.MultiDiscrete([[3, 2]]),
    "MultiBinary": spaces.MultiBinary(2),
    "bytes": spaces.Box(0, 2, (2,), np.uint8),
}


class Match(gymnasium.Env[Any, Any]):
    """The reward is the share of the action's numbers that the observation asks for."""

    observation_space = spaces.Box(0, 1, (6,), np.float32)

    def __init__(self, space: Any) -> None:
        self.action_space = space
        self.first = np.asarray(getattr(space, "start", np.zeros(space.shape, int))).ravel()
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self._observed(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), f"{action!r}"
        self.steps += 1
        reward = float(np.mean(action.ravel() - self.first == self.wanted))
        return self._observed(), reward, False, self.steps >= 8, {}

    def _observed(self) -> Any:
        self.wanted = self.np_random.integers(0, (2, 2))
        observed = np.zeros(6, np.float32)
        observed[self.wanted + [0, 3]] = 1
        return observed


@pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))
def test_agents_learn_each_choice(space: Any) -> None:
    agent = rl.PPO(num_envs=4, num_steps=64, minibatch_size=64, learning_rate=0.002)
    result = agent.train(lambda: Match(space), steps=8_000, seed=1, progress=False)
    assert result.mean_return_last_100 > 6.5
    observation = np.eye(6, dtype=np.float32)[1] + np.eye(6, dtype=np.float32)[3]
    action = result.policy(observation)
    assert space.contains(action)
    assert (action.ravel() - Match(space).first).tolist() == [1, 0]


@pytest.mark.parametrize("agent", [rl.A2C(), rl.A3C(), rl.IMPALA(), rl.APPO()], ids=lambda agent: type(agent).__name__)
def test_every_actor_critic_agent_takes_choices(agent: Any) -> None:
    result = agent.train(lambda: Match(SPACES["MultiDiscrete"]), steps=8_000, seed=1, progress=False)
    # An agent that does not learn reaches 0.5 * (1/3 + 1/2) * 8 = 3.3.
    assert result.mean_return_last_100 > 4.5


@pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))
def test_ppo_in_pytorch_learns_each_choice(space: Any) -> None:
    agent = rlt.PPO(num_envs=4, num_steps=64, minibatch_size=64, epochs=8, learning_rate=0.003)
    result = agent.train(lambda: Match(space), steps=4_000, seed=1, progress=False)
    assert result.mean_return_last_100 > 6.5


def test_distributions_of_choices_agree_with_their_parts() -> None:
    spec = ChoiceSpec.of(BoundedArraySpec((2,), np.int64, [5, 0], [7, 1]))
    assert spec is not None and (spec.first, spec.counts) == ([5, 0], [3, 2])
    logits = torch.tensor([[0.0, 1.0, -1.0, 0.5, 0.2], [2.0, 0.0, 0.0, 0.0, 3.0]])
    choices = Choices(logits, spec)
    first, second = logits[:, :3].log_softmax(1), logits[:, 3:].log_softmax(1)
    actions = torch.tensor([[6, 0], [5, 1]])
    assert choices.mode.tolist() == actions.tolist()
    torch.testing.assert_close(choices.log_prob(actions), torch.stack([first[0, 1] + second[0, 0], first[1, 0] + second[1, 1]]))
    torch.testing.assert_close(choices.entropy(), -(first.exp() * first).sum(1) - (second.exp() * second).sum(1))
    drawn = [choices.sample(generator=torch.Generator().manual_seed(7)) for _ in range(2)]
    assert drawn[0].shape == (2, 2) and torch.equal(*drawn)
    assert choices.sample(torch.Size([50])).amin((0, 1)).tolist() >= [5, 0]


def test_an_agent_names_what_it_takes_instead() -> None:
    space = spaces.MultiDiscrete([3, 70_000])
    text = "one discrete action, one array of integers in ranges of at most 65,536 values, or one array of float32, but the"
    with pytest.raises(ValueError, match=text):
        rl.PPO().train(lambda: Match(space), steps=10, progress=False)
