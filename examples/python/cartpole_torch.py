"""Learns CartPole-v1 with PyTorch: double DQN on three-step transitions.

Exits with 0 once the mean return of the last episodes reaches the goal, and with 1 if it does not do so within the
given number of steps.

    python cartpole_torch.py [--goal 195] [--episodes 100] [--max-steps 60000] [--seed 0]
"""

import argparse
import collections
import time

import gymnasium
import numpy as np
import torch

import relive
from relive.gymnasium import Recorder, Transitions, signature
from relive.torch import ReplayDataset

KIND = Transitions(n_steps=3, discount=0.99)
BATCH_SIZE, LEARNING_RATE, WARM_UP_STEPS = 64, 1e-3, 500
STEPS_PER_UPDATE, STEPS_PER_TARGET = 2, 250
EXPLORATION_END, EXPLORATION_STEPS = 0.05, 5_000


def make_network():
    return torch.nn.Sequential(
        torch.nn.Linear(4, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2)
    )


def loss_of(network, target, data):
    """Returns the Huber loss of the n-step double-Q target."""
    value = network(data["observation"]).gather(1, data["action"].unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = network(data["next_observation"]).argmax(1, keepdim=True)
        next_value = target(data["next_observation"]).gather(1, best).squeeze(1)
        goal = data["reward"] + data["discount"] * next_value
    return torch.nn.functional.smooth_l1_loss(value, goal)


class Learner:
    def __init__(self, batches):
        self.network, self.target = make_network(), make_network()
        self.target.load_state_dict(self.network.state_dict())
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=LEARNING_RATE)
        self._batches = batches

    def update(self):
        _, data, _ = next(self._batches)
        loss = loss_of(self.network, self.target, data)
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 10.0)
        self._optimizer.step()

    def update_target(self):
        self.target.load_state_dict(self.network.state_dict())

    @torch.inference_mode()
    def best_action(self, observation):
        return int(self.network(torch.from_numpy(observation)).argmax())


def train(env, learner, args):
    """Acts and learns until the goal is reached or the steps are used up; returns whether the goal was reached."""
    rng = np.random.default_rng(args.seed)
    returns = collections.deque(maxlen=args.episodes)
    observation, _ = env.reset(seed=args.seed)
    episode_return, started = 0.0, time.monotonic()
    for step in range(1, args.max_steps + 1):
        exploration = max(EXPLORATION_END, 1 - step / EXPLORATION_STEPS)
        explores = step < WARM_UP_STEPS or rng.random() < exploration
        action = int(rng.integers(2)) if explores else learner.best_action(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        episode_return += float(reward)
        if terminated or truncated:
            returns.append(episode_return)
            if len(returns) == args.episodes and np.mean(returns) >= args.goal:
                print(f"step {step}: mean return {np.mean(returns):.1f}, {time.monotonic() - started:.0f} s")
                return True
            observation, _ = env.reset()
            episode_return = 0.0
        if step >= WARM_UP_STEPS and step % STEPS_PER_UPDATE == 0:
            learner.update()
        if step % STEPS_PER_TARGET == 0:
            learner.update_target()
        if step % 2_500 == 0:
            print(f"step {step}: mean return {np.mean(returns):.1f}", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goal", type=float, default=195.0, help="mean return to reach")
    parser.add_argument("--episodes", type=int, default=100, help="the number of last episodes of that mean")
    parser.add_argument("--max-steps", type=int, default=60_000, help="steps after which it gives up")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the network is small: more threads would only wait for each other

    env = gymnasium.make("CartPole-v1")
    table = relive.Table(
        name="replay",
        sampler=relive.selectors.Uniform(),
        remover=relive.selectors.Fifo(),
        max_size=50_000,
        rate_limiter=relive.rate_limiters.MinSize(BATCH_SIZE),
        signature=signature(env, KIND),
        seed=args.seed,
    )
    with relive.Server([table]) as server:
        client = server.localhost_client()
        learner = Learner(iter(ReplayDataset(client, "replay", BATCH_SIZE)))
        with Recorder(env, client, "replay", KIND) as recorder:
            learnt = train(recorder, learner, args)
    print("learnt" if learnt else "not learnt")
    return 0 if learnt else 1


if __name__ == "__main__":
    raise SystemExit(main())
