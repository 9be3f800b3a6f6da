"""An on-policy queue: every unroll is used for learning once, in order, and actors cannot run ahead of the learner.

Two actors act with the newest policy and write unrolls of 20 steps. The table is a queue of eight unrolls: when it is
full, actors wait. The learner takes batches of four, improves the policy by REINFORCE, and publishes it.
"""

import threading

import numpy as np

import relive

NUM_ACTORS, NUM_STATES, NUM_ACTIONS = 2, 4, 4
UNROLL, BATCH_SIZE, QUEUE_SIZE, UPDATES, LEARNING_RATE = 20, 4, 8, 150, 2.0


class Policy:
    """Logits by state, and the number of updates. The learner replaces `current`; actors read it."""

    def __init__(self):
        self.current = (0, np.zeros((NUM_STATES, NUM_ACTIONS), np.float32))


def probabilities(logits):
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def act(client, policy, played, actor):
    """Acts until the server is gone. The correct action in a state is the state's own number."""
    rng = np.random.default_rng(actor)
    try:
        with client.trajectory_writer(num_keep_alive_refs=UNROLL) as writer:
            while True:
                version, logits = policy.current
                states = rng.integers(NUM_STATES, size=UNROLL)
                actions = np.array([rng.choice(NUM_ACTIONS, p=row) for row in probabilities(logits)[states]])
                rewards = (actions == states).astype(np.float32)
                writer.append_sequence({
                    "version": np.full(UNROLL, version),
                    "state": states,
                    "action": actions,
                    "reward": rewards,
                })
                whole = {name: column[-UNROLL:] for name, column in writer.history.items()}
                writer.create_item("unrolls", priority=1.0, trajectory=whole)
                played[actor] += 1
                writer.flush()  # waits while the queue is full
    except relive.ReverbError:
        pass  # the server has stopped, so the actor ends


def improve(policy, data):
    """Takes one step of REINFORCE with the mean reward as the baseline, on a batch [BATCH_SIZE, UNROLL]."""
    version, logits = policy.current
    states, actions = data["state"].ravel(), data["action"].ravel()
    advantages = data["reward"].ravel() - data["reward"].mean()
    gradient = np.zeros_like(logits)
    log_gradient = np.eye(NUM_ACTIONS, dtype=np.float32)[actions] - probabilities(logits)[states]
    np.add.at(gradient, states, advantages[:, None] * log_gradient)
    policy.current = (version + 1, logits + LEARNING_RATE * gradient / len(states))
    return int((version - data["version"]).max())


def main():
    signature = {name: relive.ArraySpec((UNROLL,), np.int64) for name in ("version", "state", "action")}
    signature["reward"] = relive.ArraySpec((UNROLL,), np.float32)
    table = relive.Table.queue("unrolls", max_size=QUEUE_SIZE, signature=signature)
    policy = Policy()
    played, seen, worst_lag = [0] * NUM_ACTORS, set(), 0
    with relive.Server([table]) as server:
        client = server.localhost_client()
        actors = [threading.Thread(target=act, args=(client, policy, played, actor)) for actor in range(NUM_ACTORS)]
        for actor in actors:
            actor.start()
        # prefetch=0: a batch is taken from the queue only when it is requested.
        batches = client.batches("unrolls", BATCH_SIZE, prefetch=0, max_batches=UPDATES)
        for update, (info, data, _) in enumerate(batches, start=1):
            assert seen.isdisjoint(info.key.tolist()), "a queue gives every item once"
            seen.update(info.key.tolist())
            worst_lag = max(worst_lag, improve(policy, data))
            if update % 50 == 0:
                print(f"update {update}: mean reward {data['reward'].mean():.2f}")
    for actor in actors:  # leaving the `with` block has stopped the server, which ended the actors' waits
        actor.join()
    print(f"{sum(played)} unrolls were played and {len(seen)} learnt from, each once")
    print(f"the oldest was played {worst_lag} improvements before it was learnt from")
    assert data["reward"].mean() > 0.8
    assert sum(played) <= len(seen) + QUEUE_SIZE + NUM_ACTORS, "actors wait when the queue is full"


if __name__ == "__main__":
    main()
