"""Prioritized replay: items with large errors are sampled more often, with correspondingly smaller weights.

The table has a thousand pairs (x, y) with y = w·x, of which ten are rare: their x is on an axis that no other pair
uses. With uniform replay, it takes a long time until the rare pairs have been sampled often enough. With priorities
|error|, they are sampled often; the importance weights (N·P)^-beta of Schaul et al. (2016, section 3.4) keep the fit
unbiased.
"""

import numpy as np

import relive

NUM_ITEMS, NUM_RARE = 1_000, 10
EXPONENT, BETA = 0.6, 0.5
BATCH_SIZE, UPDATES, LEARNING_RATE = 32, 300, 0.3


def make_data(rng):
    """Returns points on two axes, few of them on the second axis; the slopes to find are 1 and -2."""
    x = np.zeros((NUM_ITEMS, 2), np.float32)
    x[:, 0] = 1.0
    x[:NUM_RARE] = (0.0, 1.0)
    return {"x": rng.permutation(x), "slopes": np.array([1.0, -2.0], np.float32)}


def fill(client, data):
    """Writes all pairs at once, with the same high priority: nothing is known about them yet."""
    x = data["x"]
    with client.trajectory_writer(num_keep_alive_refs=NUM_ITEMS) as writer:
        writer.append_sequence({"x": x, "y": x @ data["slopes"]})
        newest_first = -np.arange(1, NUM_ITEMS + 1)
        writer.create_window_items("pairs", np.ones(NUM_ITEMS), newest_first, length=1, squeeze=True)


def fit(client):
    """Performs gradient descent with importance weights, and sets the new errors as priorities.

    Returns the slopes and the share of rare pairs among the sampled ones.
    """
    slopes, rare = np.zeros(2, np.float32), 0
    with client.batches("pairs", BATCH_SIZE, max_batches=UPDATES) as batches:
        for batch in batches:
            info, data, weights = batch.info, batch.data, batch.weights(BETA)
            error = data["y"] - data["x"] @ slopes
            slopes += LEARNING_RATE * (weights * error) @ data["x"] / BATCH_SIZE
            client.update_priorities("pairs", info.key, np.abs(error) + 1e-3)
            rare += int(data["x"][:, 1].sum())
    return slopes, rare / (UPDATES * BATCH_SIZE)


def main():
    table = relive.Table(
        name="pairs",
        sampler=relive.selectors.Prioritized(EXPONENT),
        remover=relive.selectors.Fifo(),
        max_size=NUM_ITEMS,
        rate_limiter=relive.rate_limiters.MinSize(NUM_ITEMS),
        signature={"x": relive.ArraySpec((2,), np.float32), "y": relive.ArraySpec((), np.float32)},
    )
    data = make_data(np.random.default_rng(0))
    with relive.Server([table]) as server:
        client = server.localhost_client()
        fill(client, data)
        slopes, share = fit(client)
    print(f"slopes {slopes.round(2)}, wanted {data['slopes']}")
    print(f"rare pairs: {NUM_RARE / NUM_ITEMS:.1%} of the table, {share:.1%} of what was drawn")
    assert share > 5 * NUM_RARE / NUM_ITEMS, "priorities should have brought the rare pairs up often"
    assert np.abs(slopes - data["slopes"]).max() < 0.2


if __name__ == "__main__":
    main()
