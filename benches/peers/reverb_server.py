"""dm-reverb's server with one table `t`: `reverb_server.py MAX_SIZE uniform|prioritized`."""

from __future__ import annotations

import sys

import portpicker
import reverb

from servers import PRIORITY_EXPONENT

is_prioritized = sys.argv[2] == "prioritized"
table = reverb.Table(
    name="t",
    sampler=reverb.selectors.Prioritized(PRIORITY_EXPONENT) if is_prioritized else reverb.selectors.Uniform(),
    remover=reverb.selectors.Fifo(),
    max_size=int(sys.argv[1]),
    rate_limiter=reverb.rate_limiters.MinSize(1),
)
server = reverb.Server([table], port=portpicker.pick_unused_port())
print(f"listening on localhost:{server.port}", flush=True)
server.wait()
