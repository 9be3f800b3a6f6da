"""Frame stacking without duplicate frames: a frame is stored once, and eight stacks refer to it.

A transition of Atari agents contains the last four frames before the action and the last four after it. Stored
directly, these are eight frames of 84×84 bytes for each step. Here the writer sends each frame once; items are
references to it.
"""

import numpy as np

import relive

NUM_STEPS, STACK, BATCH_SIZE = 400, 4, 32
FRAME_BYTES = 84 * 84


def play(rng):
    """Yields the frames of a game: a ball and a paddle in front of a background."""
    background = np.repeat(rng.integers(40, 90, size=84, dtype=np.uint8), 84).reshape(84, 84)
    for step in range(NUM_STEPS):
        frame = background.copy()
        row, column = 10 + 3 * step % 60, 5 + 2 * step % 70
        frame[row : row + 4, column : column + 4] = 236
        frame[78:81, column - 4 : column + 10] = 180
        yield frame


def record(writer, frames, rng):
    """Writes frame by frame; starting with the fifth frame, every step is a transition."""
    for step, frame in enumerate(frames):
        writer.append({"frame": frame, "action": rng.integers(4), "reward": np.float32(rng.random() < 0.1)})
        if step < STACK:
            continue
        history = writer.history
        writer.create_item("replay", priority=1.0, trajectory={
            "observation": history["frame"][-STACK - 1 : -1],
            "action": history["action"][-2],
            "reward": history["reward"][-2],
            "next_observation": history["frame"][-STACK:],
        })


def main():
    table = relive.Table(
        name="replay",
        sampler=relive.selectors.Uniform(),
        remover=relive.selectors.Fifo(),
        max_size=100_000,
        rate_limiter=relive.rate_limiters.MinSize(1),
        signature={
            "observation": relive.ArraySpec((STACK, 84, 84), np.uint8),
            "action": relive.ArraySpec((), np.int64),
            "reward": relive.ArraySpec((), np.float32),
            "next_observation": relive.ArraySpec((STACK, 84, 84), np.uint8),
        },
    )
    rng = np.random.default_rng(0)
    with relive.Server([table]) as server:
        client = server.localhost_client()
        with client.trajectory_writer(num_keep_alive_refs=STACK + 1) as writer:
            record(writer, play(rng), rng)
        stored = client.status()["encoded_bytes"] / table.info.current_size
        with client.batches("replay", BATCH_SIZE, max_batches=1) as batches:
            data = next(batches).data

    observation, next_observation = data["observation"], data["next_observation"]
    print(f"a batch: observation {observation.shape} {observation.dtype}, action {data['action'].shape}")
    assert observation.shape == (BATCH_SIZE, STACK, 84, 84)
    assert (observation[:, 1:] == next_observation[:, :-1]).all(), "both stacks show the same frames, one step apart"
    print(f"written out:   {2 * STACK * FRAME_BYTES:6d} bytes for each transition")
    print(f"one raw frame: {FRAME_BYTES:6d}")
    print(f"stored:        {stored:6.0f}, compressed")
    assert stored < FRAME_BYTES


if __name__ == "__main__":
    main()
