"""Sequences for a recurrent network, each with the network's state at its start (R2D2's stored state).

The network sees a bit at the first step of an episode and must output this bit at the last step, twelve steps later.
Sequences have eight steps, so learning from the second half of an episode is only useful with the state from the first
half.
"""

import numpy as np
import torch
from torch import nn

import relive

EPISODE_STEPS, LENGTH, PERIOD, BATCH_SIZE = 12, 8, 4, 32
EPISODES, UPDATES_PER_EPISODE, HIDDEN = 150, 2, 16


class Memory(nn.Module):
    """An LSTM with a linear output: (logit of each step, state after the last step)."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(2, HIDDEN, batch_first=True)
        self.answer = nn.Linear(HIDDEN, 1)

    def forward(self, observation, state):
        """Observations `[batch, steps, 2]`, states `[batch, 2, HIDDEN]`."""
        hidden, cell = state[:, 0][None].contiguous(), state[:, 1][None].contiguous()
        out, (hidden, cell) = self.lstm(observation, (hidden, cell))
        return self.answer(out)[..., 0], torch.stack([hidden[0], cell[0]], dim=1)


def run_episode(network, writer, rng):
    """Writes an episode step by step, with the state before each step. Every four steps, it creates an item of the last
    eight."""
    bit, state = int(rng.integers(2)), torch.zeros(1, 2, HIDDEN)
    for step in range(EPISODE_STEPS):
        observation = np.array([(2 * bit - 1) * (step == 0), step == EPISODE_STEPS - 1], np.float32)
        writer.append({"observation": observation, "bit": np.float32(bit), "state": state[0].numpy()})
        with torch.no_grad():
            _, state = network(torch.from_numpy(observation)[None, None], state)
        if step + 1 >= LENGTH and (step + 1 - LENGTH) % PERIOD == 0:
            history = writer.history
            writer.create_item("sequences", priority=1.0, trajectory={
                "observation": history["observation"][-LENGTH:],
                "bit": history["bit"][-LENGTH:],
                "state": history["state"][-LENGTH],  # of the first step only
            })
    writer.end_episode()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the network is small
    rng = np.random.default_rng(0)
    network = Memory()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    # Older states were computed by older versions of the network, so the table keeps only a few items.
    table = relive.Table(
        "sequences", relive.selectors.Uniform(), relive.selectors.Fifo(), 200, relive.rate_limiters.MinSize(1), seed=0
    )
    right = []
    with relive.Server([table], listen=False) as server:
        client = server.localhost_client()
        writer = client.trajectory_writer(num_keep_alive_refs=LENGTH)
        with client.batches("sequences", BATCH_SIZE) as batches:
            for _ in range(EPISODES):
                run_episode(network, writer, rng)
                for _, batch in zip(range(UPDATES_PER_EPISODE), batches):
                    data = {name: torch.from_numpy(column) for name, column in batch.data.items()}
                    logits, _ = network(data["observation"], data["state"])
                    loss = nn.functional.binary_cross_entropy_with_logits(logits, data["bit"])
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                is_asked = data["observation"][..., 1] == 1
                right.append(((logits > 0) == (data["bit"] > 0.5))[is_asked].float().mean().item())
        writer.close()
    share = float(np.nanmean(right[-20:]))
    print(f"a batch: observation {tuple(data['observation'].shape)}, state {tuple(data['state'].shape)}")
    print(f"answers at the end of an episode: {np.nanmean(right[:5]):.0%} right at first, {share:.0%} at last")
    assert share > 0.9


if __name__ == "__main__":
    main()
