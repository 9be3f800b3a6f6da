"""A decision transformer (Chen et al., 2021) from a store of trajectories in shared memory.

    python decision_transformer.py                          # from episodes of a policy that acts at random
    python decision_transformer.py CartPole-v1 --data FOLDER --length 500 --target-return 500

The network and the policy come from examples/python/agents/decision_transformer.py, for discrete actions and for
episodes of at most --length steps. Here, a batch has the last steps of each episode, followed by padding if the episode
is shorter.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from relive import gpu, rl
from relive.rl import recorded

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent / "agents"), str(FOLDER)]
from decision_transformer import DecisionTransformer, Policy, Transformer  # noqa: E402
from environments import made, parser_of  # noqa: E402


def random_episodes(environment: str, count: int, seed: int) -> list[recorded.Episode]:
    played, rng = made(environment, seed), np.random.default_rng(seed)
    choices = played.action_spec().num_values
    return [recorded.play(played, lambda _: int(rng.integers(choices))) for _ in range(count)]


def train(data: Any, environment: Any, settings: DecisionTransformer, *, steps: int, seed: int, device: str = "cpu") -> Transformer:
    """Trains a transformer to imitate the episodes with a given return."""
    torch.manual_seed(seed)
    module = Transformer(rl.make_environment_spec(environment), settings).to(device)
    optimizer = torch.optim.AdamW(module.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)
    length = settings.experience.length
    windows = {name: gpu.Window(-length, length, pad="tail") for name in ("observations", "actions", "rewards")}
    with gpu.Store.of_dataset(data) as store:
        if store.max_steps > length:
            raise SystemExit(f"an episode of the data has {store.max_steps} steps, and the transformer sees {length}: give --length {store.max_steps}")
        loader = store.loader(
            settings.experience.batch_size, windows, steps="last", seed=seed, framework="torch", device=device
        )
        for _, batch in zip(range(steps), loader, strict=False):
            there = torch.arange(length, device=device) < batch.valid["actions"][:, None]
            actions = batch.data["actions"].long()
            logits = module(batch.data["rewards"].sum(1), batch.data["observations"], actions)
            loss = F.cross_entropy(logits[there], actions[there])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
        loader.close()
    return module.cpu()


def mean_return(module: Transformer, environment: Any, settings: DecisionTransformer, *, episodes: int) -> float:
    spec, returns = rl.make_environment_spec(environment), []
    for _ in range(episodes):
        context = rl.PolicyContext(explores=False, seeds=(0,), first=0, of=1)
        policy, starts = Policy(module, spec, context, settings), [True]

        @torch.no_grad()
        def act(observation: Any, policy: Policy = policy, starts: list[bool] = starts) -> int:
            action = int(policy.act(np.asarray(observation)[None], starts)[0])
            starts[0] = False
            return action

        returns.append(recorded.play(environment, act).rewards.sum())
    return float(np.mean(returns))


def main() -> None:
    parser = parser_of(__doc__, steps=500)
    parser.add_argument("--length", type=int, default=10, help="largest number of steps in an episode")
    parser.add_argument("--target-return", type=float, default=1.0, help="the return that the policy aims for")
    options = parser.parse_args()
    torch.set_num_threads(1)
    environment = made(options.environment, options.seed)
    if not hasattr(environment.action_spec(), "num_values"):
        parser.error(f"the actions of {options.environment} are {environment.action_spec()}; this network is for discrete ones")
    settings = DecisionTransformer(target_return=options.target_return)
    settings = dataclasses.replace(settings, experience=dataclasses.replace(settings.experience, length=options.length))
    data = options.data or random_episodes(options.environment, 2000, options.seed)
    module = train(data, environment, settings, steps=options.steps, seed=options.seed, device=options.device)
    print(f"mean return of 50 episodes: {mean_return(module, environment, settings, episodes=50):.2f}")


if __name__ == "__main__":
    main()
