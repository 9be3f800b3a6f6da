"""Relive's server with one table `t`, from the Python package: `relive_server.py MAX_SIZE`."""

from __future__ import annotations

import sys

import relive

table = relive.Table("t", relive.selectors.Uniform(), relive.selectors.Fifo(), int(sys.argv[1]), relive.rate_limiters.MinSize(1))
server = relive.Server([table])
print(f"listening on localhost:{server.port}", flush=True)
server.wait()
