"""Several tables on the same data: each step is stored once, regardless of the number of tables and items that refer to
it.

One writer fills three tables: single steps for uniform replay, overlapping sequences for a recurrent learner, and a
queue of whole episodes for statistics. All of them refer to the same chunks of the server.
"""

import numpy as np

import relive

EPISODES, EPISODE_STEPS, SEQUENCE, PERIOD = 20, 100, 20, 10
STEP_BYTES = 64 * 4 + 4


def tables():
    # None, because an item may have any number of steps.
    signature = {
        "observation": relive.ArraySpec((None, 64), np.float32),
        "reward": relive.ArraySpec((None,), np.float32),
    }
    return [
        relive.Table(
            name="steps",
            sampler=relive.selectors.Uniform(),
            remover=relive.selectors.Fifo(),
            max_size=100_000,
            rate_limiter=relive.rate_limiters.MinSize(1),
            signature=signature,
        ),
        relive.Table(
            name="sequences",
            sampler=relive.selectors.Prioritized(0.9),
            remover=relive.selectors.Fifo(),
            max_size=10_000,
            rate_limiter=relive.rate_limiters.MinSize(1),
            signature=signature,
        ),
        relive.Table.queue("episodes", max_size=100, signature=signature),
    ]


def write_episode(writer, rng):
    """Writes a random walk of 64 numbers; items are created in each table as soon as their steps exist."""
    position = np.zeros(64, np.float32)
    for step in range(1, EPISODE_STEPS + 1):
        position = position + rng.normal(size=64).astype(np.float32)
        writer.append({"observation": position, "reward": np.float32(-np.abs(position).mean())})
        make_item(writer, "steps", slice(-1, None))
        if step >= SEQUENCE and step % PERIOD == 0:
            make_item(writer, "sequences", slice(-SEQUENCE, None), priority=float(step))
    make_item(writer, "episodes", slice(-EPISODE_STEPS, None))
    writer.end_episode()


def make_item(writer, table, steps, priority=1.0):
    writer.create_item(table, priority, {name: column[steps] for name, column in writer.history.items()})


def main():
    rng = np.random.default_rng(0)
    with relive.Server(tables()) as server:
        client = server.localhost_client()
        with client.trajectory_writer(num_keep_alive_refs=EPISODE_STEPS) as writer:
            for _ in range(EPISODES):
                write_episode(writer, rng)
        status = client.status()
        for name in ("steps", "sequences", "episodes"):
            with client.batches(name, batch_size=4, max_batches=1) as batches:
                shape = next(batches).data["observation"].shape
            print(f"{name:10s} {status['tables'][name].current_size:5d} items, a batch {shape}")
    written = sum(
        steps * STEP_BYTES * status["tables"][name].current_size
        for name, steps in (("steps", 1), ("sequences", SEQUENCE), ("episodes", EPISODE_STEPS))
    )
    print(f"the items show {written} bytes of steps; the server holds {status['encoded_bytes']}")
    assert status["encoded_bytes"] < written / 3


if __name__ == "__main__":
    main()
