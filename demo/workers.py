"""What the actors and the learner do, each in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal

from parent import die_with_parent

TABLE = "replay"

# Steps per trajectory: the n of an n-step return.
STEPS = 5
BATCH_SIZE = 256
EXPLORATION = 0.1

# The table opens after a thousand trajectories; slow machines take a while.
SAMPLE_PATIENCE_S = 60.0

# Seconds between two steps of CartPole, from its source.
TAU_S = 0.02


class Counters:
    """Numbers in shared memory; each has one writer, so no lock is needed."""

    NAMES = ("episodes", "steps", "items", "samples", "batches", "bytes_written", "bytes_read", "table_size")

    def __init__(self, context) -> None:
        self._values = context.RawArray("q", len(self.NAMES))

    def add(self, **amounts: int) -> None:
        for name, amount in amounts.items():
            self._values[self.NAMES.index(name)] += amount

    def snapshot(self) -> dict[str, int]:
        return dict(zip(self.NAMES, self._values))


@contextlib.contextmanager
def quietly(log: str):
    """The terminal is the progress bar's: what libraries write goes to a file, and Ctrl-C to the parent."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    yield


def act(address: str, seed: int, counters: Counters, ready, go, stop, log: str) -> None:
    """Plays episodes and writes each window of `STEPS` steps as one item."""
    with quietly(log):
        import gymnasium
        import numpy as np
        import relive

        environment = gymnasium.make("CartPole-v1")
        random = np.random.default_rng(seed)
        client = relive.Client(address)
        ready.release()
        go.wait()
        with client.trajectory_writer(num_keep_alive_refs=STEPS) as writer:
            observation, _ = environment.reset(seed=seed)
            while not stop.is_set():
                play(environment, observation, random, writer, counters)
                counters.add(episodes=1)
                observation, _ = environment.reset()


def play(environment, observation, random, writer, counters: Counters) -> None:
    """One episode."""
    import numpy as np

    steps, done = 0, False
    while not done:
        action = choose(observation, random)
        after, reward, terminated, truncated, _ = environment.step(action)
        step = {
            "observation": observation.astype(np.float32),
            "action": np.int32(action),
            "reward": np.float32(reward),
            "discount": np.float32(not terminated),
        }
        writer.append(step)
        steps += 1
        counters.add(steps=1, bytes_written=sum(value.nbytes for value in step.values()))
        if steps >= STEPS:
            writer.create_item(TABLE, 1.0, {name: column[-STEPS:] for name, column in writer.history.items()})
            counters.add(items=1)
        observation, done = after, terminated or truncated
    writer.end_episode(timeout_ms=20_000)


def choose(observation, random) -> int:
    """Pushes to the side to which the pole falls, most of the time."""
    if random.random() < EXPLORATION:
        return int(random.integers(2))
    _, _, angle, angular_velocity = observation
    return int(angle + 0.5 * angular_velocity > 0)


def learn(address: str, _seed: int, counters: Counters, ready, go, stop, log: str) -> None:
    """Reads batches, as a learner does, and checks each."""
    with quietly(log):
        import relive

        client = relive.Client(address)
        ready.release()
        go.wait()
        with client.batches(TABLE, BATCH_SIZE, timeout=SAMPLE_PATIENCE_S) as batches:
            while not stop.is_set():
                columns = next(batches).data
                check(**columns)
                counters.add(
                    samples=BATCH_SIZE, batches=1, bytes_read=sum(column.nbytes for column in columns.values()))
        counters.add(table_size=client.server_info(timeout=20)[TABLE].current_size)


def check(action, discount, observation, reward) -> None:
    """Every trajectory must be one that CartPole can produce, in the order in which it happened."""
    import numpy as np

    assert observation.shape == (BATCH_SIZE, STEPS, 4) and observation.dtype == np.float32, observation.shape
    assert action.shape == discount.shape == reward.shape == (BATCH_SIZE, STEPS)
    assert np.isin(action, [0, 1]).all() and (reward == 1.0).all()
    assert (discount[:, :-1] == 1.0).all(), "an episode went on after its end"
    # Euler's method, as in the environment: position += tau * velocity; angle += tau * angular velocity.
    for position, velocity in ((0, 1), (2, 3)):
        moved = observation[:, :-1, position] + TAU_S * observation[:, :-1, velocity]
        np.testing.assert_allclose(observation[:, 1:, position], moved, atol=1e-5)
