"""dm-reverb's server with one uniform table `t`: `reverb_server.py MAX_SIZE`."""

from __future__ import annotations

import sys

import portpicker
import reverb

table = reverb.Table(
    name="t", sampler=reverb.selectors.Uniform(), remover=reverb.selectors.Fifo(), max_size=int(sys.argv[1]),
    rate_limiter=reverb.rate_limiters.MinSize(1))
server = reverb.Server([table], port=portpicker.pick_unused_port())
print(f"listening on localhost:{server.port}", flush=True)
server.wait()
