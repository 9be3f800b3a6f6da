"""An actor and a learner in two processes. Transitions are sent through one table, and parameters in the other
direction through another table.

The server is in the learner's process. A rate limiter maintains a ratio of about eight samples for each transition.
"""

import multiprocessing

import numpy as np

import relive

NUM_CELLS, MAX_STEPS, DISCOUNT, LEARNING_RATE = 8, 200, 0.9, 3.0
BATCH_SIZE, UPDATES, SAMPLES_PER_INSERT = 64, 600, 8.0


def act(address):
    """Runs the actor's process: acts by the newest values, and writes transitions, until the server is gone."""
    client = relive.Client(address, timeout=30.0)
    rng = np.random.default_rng(1)
    try:
        with client.trajectory_writer(num_keep_alive_refs=1) as writer, client.batches("values", 1, prefetch=0) as newest:
            while True:
                run_episode(next(newest).data["values"][0], writer, rng)
    except (relive.ReverbError, KeyboardInterrupt):
        pass  # the learner has finished


def run_episode(values, writer, rng):
    cell = 0
    for _ in range(MAX_STEPS):
        action = int(rng.integers(2)) if rng.random() < 0.3 else int(values[cell].argmax())
        next_cell = max(cell - 1, 0) if action == 0 else cell + 1
        is_over = next_cell == NUM_CELLS - 1
        writer.append({
            "cell": np.int32(cell), "action": np.int32(action), "reward": np.float32(is_over),
            "discount": np.float32(0.0 if is_over else DISCOUNT), "next_cell": np.int32(next_cell),
        })
        writer.create_item("replay", 1.0, {name: column[-1] for name, column in writer.history.items()})
        cell = next_cell
        if is_over:
            break
    writer.end_episode()


def main():
    limiter = relive.rate_limiters.SampleToInsertRatio(SAMPLES_PER_INSERT, min_size_to_sample=100, error_buffer=1_000.0)
    replay = relive.Table("replay", relive.selectors.Uniform(), relive.selectors.Fifo(), 10_000, limiter)
    # The table has one item, the newest.
    newest = relive.Table("values", relive.selectors.Lifo(), relive.selectors.Fifo(), 1, relive.rate_limiters.MinSize(1))
    rng = np.random.default_rng(0)
    values = rng.normal(scale=0.01, size=(NUM_CELLS, 2))

    with relive.Server([replay, newest]) as server:
        client = server.localhost_client()
        with client.trajectory_writer(num_keep_alive_refs=1) as publisher:

            def publish():
                publisher.append({"values": values})
                publisher.create_item("values", 1.0, {"values": publisher.history["values"][-1]})
                publisher.flush()

            publish()
            actor = multiprocessing.get_context("spawn").Process(target=act, args=(f"localhost:{server.port}",))
            actor.start()
            for update, batch in enumerate(client.batches("replay", BATCH_SIZE, timeout=60.0, max_batches=UPDATES)):
                data = batch.data
                goal = data["reward"] + data["discount"] * values[data["next_cell"]].max(axis=1)
                error = goal - values[data["cell"], data["action"]]
                np.add.at(values, (data["cell"], data["action"]), LEARNING_RATE * error / len(error))
                if update % 20 == 0:
                    publish()
        info = client.server_info()["replay"]
    actor.terminate()
    actor.join()

    completed = info.rate_limiter_info
    print(f"{completed.insert_stats.completed} transitions, {completed.sample_stats.completed} samples")
    print(f"the way to the right is worth {values[:-1, 1].round(2)}")
    assert (values[:-1].argmax(axis=1) == 1).all(), "the policy should go right everywhere"


if __name__ == "__main__":
    main()
