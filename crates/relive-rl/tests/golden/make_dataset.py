"""Creates the tests' files in D4RL's layout: `python make_dataset.py`."""

import numpy as np

# Two episodes of CartPole's shape, with three and two steps: one ends with a terminal, the other with a timeout. The
# last row belongs to an unfinished episode.
observations = np.arange(24, dtype=np.float64).reshape(6, 4) / 8
arrays = {
    "observations": observations,
    "actions": np.array([0, 1, 1, 0, 1, 0], np.int64),
    "rewards": np.array([1, 2, 3, 4, 5, 6], np.float32),
    "terminals": np.array([0, 0, 1, 0, 0, 0], np.bool_),
    "timeouts": np.array([0, 0, 0, 0, 1, 0], np.bool_),
}
np.savez_compressed("cartpole.npz", **arrays)
np.savez("cartpole_next.npz", next_observations=observations + 100, **arrays)
