"""Transitions in which every observation is stored only once: each step appends only the newest observation.

A buffer of (observation, next observation) pairs stores every observation twice. A writer keeps a history of steps, and
an item can refer to any of these steps: here to the last two observations, and to the action and the reward between
them.
"""

import numpy as np

import relive

EPISODES, EPISODE_STEPS, BATCH_SIZE = 20, 50, 32


def run_episode(writer, rng):
    """Writes an episode of a walk. Row t of the history has observation t, the action taken for it, and the reward."""
    position = np.zeros(1_000, np.float32)
    for step in range(EPISODE_STEPS):
        action = rng.integers(-1, 2)
        # The row stays open, because the result of the action is added later.
        writer.append({"observation": position}, partial_step=True)
        if step:
            create_transition(writer)
        writer.append({"action": action, "reward": np.float32(action)})
        position = position + np.float32(action)
    # The last observation has no action: its row is only the end of a transition.
    writer.append({"observation": position})
    create_transition(writer)
    writer.end_episode()


def create_transition(writer):
    history = writer.history
    writer.create_item("replay", priority=1.0, trajectory={
        "observation": history["observation"][-2],
        "action": history["action"][-2],
        "reward": history["reward"][-2],
        "next_observation": history["observation"][-1],
    })


def main():
    table = relive.Table(
        "replay", relive.selectors.Uniform(), relive.selectors.Fifo(), 100_000, relive.rate_limiters.MinSize(1), seed=0
    )
    rng = np.random.default_rng(0)
    with relive.Server([table], listen=False) as server:
        client = server.localhost_client()
        # An item refers to only two rows.
        with client.trajectory_writer(num_keep_alive_refs=2, codec="raw") as writer:
            for _ in range(EPISODES):
                run_episode(writer, rng)
        with client.batches("replay", BATCH_SIZE, max_batches=1) as batches:
            data = next(batches).data
        status = client.status()
        items = table.info.current_size

    assert items == EPISODES * EPISODE_STEPS
    np.testing.assert_array_equal(data["next_observation"], data["observation"] + data["action"][:, None])
    observation_bytes = data["observation"][0].nbytes
    stored = status["encoded_bytes"] / items
    print(f"{items} transitions; an observation has {observation_bytes} bytes, a transition takes {stored:.0f}")
    assert stored < 1.1 * observation_bytes, "two observations a transition would be twice as much"


if __name__ == "__main__":
    main()
