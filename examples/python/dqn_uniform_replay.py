"""Uniform replay, as in DQN: an actor writes transitions, and a learner samples batches of them uniformly.

The problem is a corridor of eight cells with a reward at its right end, so Q fits into an array and the example ends
within seconds. A DQN program differs only in the fitted function.
"""

import numpy as np

import relive

NUM_CELLS, LEFT, RIGHT = 8, 0, 1
DISCOUNT, LEARNING_RATE, MAX_STEPS = 0.9, 3.0, 200
EPISODES, UPDATES_PER_EPISODE, BATCH_SIZE, TARGET_PERIOD = 60, 20, 64, 40


def move(cell, action):
    """Returns the next cell, the reward, and whether the episode is over."""
    cell = max(cell - 1, 0) if action == LEFT else cell + 1
    reached = cell == NUM_CELLS - 1
    return cell, float(reached), reached


def run_episode(q, exploration, rng, writer):
    """Acts according to q, with exploration, and writes each transition as an item. Returns the number of steps."""
    cell = 0
    for step in range(1, MAX_STEPS + 1):
        action = int(rng.integers(2)) if rng.random() < exploration else int(q[cell].argmax())
        next_cell, reward, done = move(cell, action)
        writer.append({
            "cell": np.int32(cell),
            "action": np.int32(action),
            "reward": np.float32(reward),
            "discount": np.float32(0.0 if done else DISCOUNT),
            "next_cell": np.int32(next_cell),
        })
        newest = {name: column[-1] for name, column in writer.history.items()}
        writer.create_item("replay", priority=1.0, trajectory=newest)
        cell = next_cell
        if done:
            break
    writer.end_episode()  # returns when the table has all of the episode's items
    return step


def update(q, target, data):
    """Takes one step of Q-learning: gradient descent on the batch's mean squared error."""
    goal = data["reward"] + data["discount"] * target[data["next_cell"]].max(axis=1)
    error = goal - q[data["cell"], data["action"]]
    np.add.at(q, (data["cell"], data["action"]), LEARNING_RATE * error / len(error))
    return np.abs(error).mean()


def main():
    table = relive.Table(
        name="replay",
        sampler=relive.selectors.Uniform(),
        remover=relive.selectors.Fifo(),
        max_size=10_000,
        rate_limiter=relive.rate_limiters.MinSize(1),
        signature={
            "cell": relive.ArraySpec((), np.int32),
            "action": relive.ArraySpec((), np.int32),
            "reward": relive.ArraySpec((), np.float32),
            "discount": relive.ArraySpec((), np.float32),
            "next_cell": relive.ArraySpec((), np.int32),
        },
    )
    rng = np.random.default_rng(0)
    q = rng.normal(scale=0.01, size=(NUM_CELLS, 2))
    target = q.copy()
    updates = 0
    with relive.Server([table]) as server:
        client = server.localhost_client()
        with client.trajectory_writer(num_keep_alive_refs=1) as writer, client.batches("replay", BATCH_SIZE) as batches:
            for episode in range(1, EPISODES + 1):
                steps = run_episode(q, max(0.1, 1 - episode / 20), rng, writer)
                for _, batch in zip(range(UPDATES_PER_EPISODE), batches):
                    error = update(q, target, batch.data)
                    updates += 1
                    if updates % TARGET_PERIOD == 0:
                        target = q.copy()
                if episode % 15 == 0:
                    size = table.info.current_size
                    print(f"episode {episode}: {steps} steps, {size} transitions stored, mean error {error:.4f}")
    policy = q[:-1].argmax(axis=1)
    print("policy:", "".join("<>"[action] for action in policy), "value of the first cell:", round(q[0].max(), 3))
    assert (policy == RIGHT).all(), "the learner should have found the way to the right"


if __name__ == "__main__":
    main()
