"""Prioritized replay in a buffer in the process, which computes the importance weights.

The data consists of pairs (x, y) with y = w·x; the x of a few rare pairs is on an axis that no other pair uses. With
priorities |error|, the rare pairs are sampled often, and the weights of the batch keep the fit unbiased (Schaul et al.,
2016). With Stable-Baselines3 or torchrl this is `PrioritizedReplayBuffer`; here, it is one argument: `prioritized`.
"""

import numpy as np

import relive

NUM_PAIRS, NUM_RARE, UPDATES = 1_000, 10, 600
SLOPES = np.array([1.0, -2.0], np.float32)


def main():
    rng = np.random.default_rng(0)
    x = np.zeros((NUM_PAIRS, 2), np.float32)
    x[:, 0] = 1.0
    x[:NUM_RARE] = (0.0, 1.0)
    rng.shuffle(x)

    buffer = relive.ReplayBuffer(NUM_PAIRS, batch_size=32, prioritized=0.6, beta=0.4, seed=0)
    buffer.add_batch(x=x, y=x @ SLOPES)

    slopes, rare = np.zeros(2, np.float32), 0.0
    for update in range(UPDATES):
        buffer.beta = 0.4 + 0.6 * update / UPDATES  # toward 1, at which the weights fully correct for the priorities
        batch = buffer.sample()
        error = batch["y"] - batch["x"] @ slopes
        slopes += 0.3 * (batch["weights"] * error) @ batch["x"] / len(error)
        buffer.update(batch["keys"], np.abs(error) + 1e-3)
        rare += batch["x"][:, 1].mean() / UPDATES

    print(f"slopes {slopes.round(2)}, wanted {SLOPES}")
    print(f"rare pairs: {NUM_RARE / NUM_PAIRS:.1%} of the buffer, {rare:.1%} of what was drawn")
    assert rare > 5 * NUM_RARE / NUM_PAIRS and np.abs(slopes - SLOPES).max() < 0.2


if __name__ == "__main__":
    main()
