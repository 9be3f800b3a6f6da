"""dm-reverb's own checkpoint: `checkpoints.py FOLDER ITEMS BYTES` prints the seconds for writing and loading a
checkpoint.

Items have one step of random bytes each, in a separate chunk. Started by the program `checkpoints` of
`benches/src/bin`.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import portpicker
import reverb

FOLDER, ITEMS, BYTES = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def server() -> reverb.Server:
    """Returns a server with the newest checkpoint of the folder, or with empty tables."""
    table = reverb.Table(
        name="t", sampler=reverb.selectors.Uniform(), remover=reverb.selectors.Fifo(), max_size=ITEMS,
        rate_limiter=reverb.rate_limiters.MinSize(1))
    checkpointer = reverb.platform.checkpointers_lib.DefaultCheckpointer(path=FOLDER)
    return reverb.Server([table], port=portpicker.pick_unused_port(), checkpointer=checkpointer)


def fill(client: reverb.Client) -> None:
    random = np.random.default_rng(1)
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        for _ in range(ITEMS):
            writer.append([np.frombuffer(random.bytes(BYTES), np.uint8)])
            writer.create_item("t", 1.0, [writer.history[0][-1]])
        writer.flush()


def main() -> None:
    first = server()
    client = reverb.Client(f"localhost:{first.port}")
    fill(client)
    subprocess.run(["sync"], check=True)
    start = time.perf_counter()
    client.checkpoint()
    print("write", time.perf_counter() - start, flush=True)
    first.stop()
    start = time.perf_counter()
    second = server()
    print("load", time.perf_counter() - start, flush=True)
    size = reverb.Client(f"localhost:{second.port}").server_info()["t"].current_size
    if size != ITEMS:
        raise SystemExit(f"{size} items of {ITEMS} came back")
    second.stop()


if __name__ == "__main__":
    main()
