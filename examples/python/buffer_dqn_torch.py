"""DQN in one file, in the style of CleanRL, with a replay buffer in the process and a PyTorch network.

The problem is a corridor with a reward at its right end and one-hot observations, so the example ends within seconds;
two environments are stepped together. Any vector environment can be used in the same way.
"""

import numpy as np
import torch
from torch import nn

import relive

NUM_CELLS, NUM_ENVIRONMENTS, MAX_STEPS = 8, 2, 40
DISCOUNT, N_STEP, BATCH_SIZE = 0.9, 3, 64
STEPS, LEARN_FROM, TARGET_PERIOD = 1_500, 100, 50


class Corridors:
    """Several corridors; an episode that ends restarts at the left end."""

    def __init__(self):
        self.cells = np.zeros(NUM_ENVIRONMENTS, np.int64)
        self.ages = np.zeros(NUM_ENVIRONMENTS, np.int64)

    def observe(self):
        return np.eye(NUM_CELLS, dtype=np.float32)[self.cells]

    def step(self, actions):
        """Returns the rewards, whether each episode terminated or was truncated, and the observations before new
        episodes start."""
        self.cells = np.maximum(self.cells + np.where(actions == 1, 1, -1), 0)
        self.ages += 1
        terminated = self.cells == NUM_CELLS - 1
        truncated = ~terminated & (self.ages >= MAX_STEPS)
        last = self.observe()
        self.cells[terminated | truncated] = 0
        self.ages[terminated | truncated] = 0
        return terminated.astype(np.float32), terminated, truncated, last


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the network is small
    rng = np.random.default_rng(0)
    network, target = nn.Linear(NUM_CELLS, 2), nn.Linear(NUM_CELLS, 2)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)

    # The buffer computes the three-step window, its reward, and the factor of the bootstrap.
    buffer = relive.ReplayBuffer(10_000, batch_size=BATCH_SIZE, n_step=N_STEP, discount=DISCOUNT, seed=0)

    environments = Corridors()
    for step in range(STEPS):
        observation = environments.observe()
        with torch.no_grad():
            greedy = network(torch.from_numpy(observation)).argmax(dim=1).numpy()
        explores = rng.random(NUM_ENVIRONMENTS) < max(0.1, 1 - step / 500)
        action = np.where(explores, rng.integers(2, size=NUM_ENVIRONMENTS), greedy)
        reward, terminated, truncated, next_observation = environments.step(action)
        buffer.add_batch(
            observation=observation, action=action, reward=reward, next_observation=next_observation,
            terminated=terminated, truncated=truncated,
        )
        if step < LEARN_FROM:
            continue

        batch = buffer.sample(to="torch")
        with torch.no_grad():
            goal = batch["reward"] + batch["discount"] * target(batch["next_observation"]).max(dim=1).values
        value = network(batch["observation"]).gather(1, batch["action"][:, None])[:, 0]
        loss = nn.functional.mse_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % TARGET_PERIOD == 0:
            target.load_state_dict(network.state_dict())

    values = network(torch.eye(NUM_CELLS)).detach().numpy()[:-1]
    print(f"{len(buffer)} transitions; the way to the right is worth {values[:, 1].round(2)}")
    assert (values.argmax(axis=1) == 1).all(), "the policy should go right everywhere"
    np.testing.assert_allclose(values[:, 1], DISCOUNT ** np.arange(NUM_CELLS - 2, -1, -1), atol=0.15)


if __name__ == "__main__":
    main()
