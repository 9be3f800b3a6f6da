"""The module `reverb` behaves like dm-reverb where this package differs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import PATIENCE_S

STAND_IN = pathlib.Path(__file__).resolve().parents[1] / "relive-as-reverb"

PROGRAM = """
import numpy as np
import relive
import reverb

never = reverb.Table("never", reverb.selectors.Uniform(), reverb.selectors.Fifo(), 10, reverb.rate_limiters.MinSize(100))
table = reverb.Table.queue("table", 2)
assert type(never) is type(table) is type(table.replace()) is reverb.Table
server = reverb.Server([never, table])
client = server.localhost_client()
assert type(client) is reverb.Client and isinstance(client, relive.Client)
# The server listens on every address of the machine.
other = reverb.Client(f"127.0.0.2:{server.port}")
assert other.server_info(timeout=20)["never"].max_size == 10
# A list of numbers is a nest of scalars, and items are dropped with only a warning.
writer = client.trajectory_writer(4, chunk_length=4)
writer.append({"a": [1.0, 2.0]})
assert [column[-1].shape for column in writer.history["a"]] == [(), ()]
writer.create_item("table", 1.0, writer.history["a"][0][-1:])
writer.close()
client.insert({"a": [1.0, 2.0]}, {"table": 1.0})
(sample,) = client.sample("table", emit_timesteps=False)
assert len(sample.data) == 2
writer = client.trajectory_writer(4)
writer.append({"a": np.float32(1)})
try:
    writer.append({"a": np.float64(1)})
except ValueError as error:
    assert "double" in str(error)
else:
    raise AssertionError
# Columns are matched only by order: an item can use other names than the signature.
spec = reverb.ArraySpec([4], np.float32) if hasattr(reverb, "ArraySpec") else relive.ArraySpec([4], np.float32)
signed = reverb.Server([reverb.Table.queue("signed", 9, signature={"obs": spec, "act": spec})])
signed_client = signed.localhost_client()
with signed_client.trajectory_writer(1) as writer:
    writer.append({"obs": np.full(4, 1, np.float32), "act": np.full(4, 2, np.float32)})
    writer.create_item("signed", 1.0, {"a_obs": writer.history["obs"][-1], "b_act": writer.history["act"][-1]})
signed_client.insert({"x": np.zeros(4, np.float32), "y": np.zeros(4, np.float32)}, {"signed": 1.0})
(sample,) = signed_client.sample("signed", emit_timesteps=False, unpack_as_table_signature=True)
assert sample.data["act"][0] == 1 and sample.data["obs"][0] == 2
signed.stop()
# Calls wait for a stopped server.
server.stop()
try:
    next(client.sample("table", timeout=0.2))
except reverb.DeadlineExceededError:
    pass
else:
    raise AssertionError
try:
    reverb.TrajectoryDataset.from_table_signature(client.server_address, "table", 1, get_signature_timeout_secs=0.2)
except reverb.DeadlineExceededError:
    pass
else:
    raise AssertionError
"""

# A condition on a column that is not one integer or bool does not hold.
CONDITION = """
import reverb

steps = [{"reward": number / 2, "number": number} for number in range(4)]
step = reverb.structured.create_reference_step(steps[0])
for name, wanted in (("reward", []), ("number", [1, 2, 3])):
    condition = reverb.structured.Condition.data(steps[0])[name] >= 1
    config = reverb.structured.create_config({"number": step["number"][-1]}, "table", [condition])
    arguments = (steps, [config], True, lambda step: False)
    assert [item["number"].item() for item in reverb.PatternDataset(*arguments)] == wanted
    infos = reverb.pattern_dataset.pattern_dataset_with_info(*arguments)
    assert [item.data["number"].item() for item in infos] == wanted
"""

# Writers do not wait for a full table; a trajectory writer warns.
BACKLOG = """
import logging
import reverb

warnings = []
logging.getLogger("relive").addFilter(lambda record: warnings.append(record.getMessage()))
server = reverb.Server([reverb.Table.queue("table", 2)])
client = server.localhost_client()
writer = client.trajectory_writer(1)
writer.append(0)
for _ in range(20_002):
    writer.create_item("table", 1.0, writer.history[-1:])
writer.flush(block_until_num_items=20_000)
assert writer.pending_items == 20_000
assert [text.split(" items")[0] for text in warnings] == ["10000", "20000"], warnings
pattern = {"number": reverb.structured.create_reference_step({"number": 0})["number"][-1]}
structured = client.structured_writer([reverb.structured.create_config(pattern, "table")])
for number in range(10_102):
    structured.append({"number": number})
# A program can set a limit.
limited = reverb.Client(client.server_address, timeout=0.1).trajectory_writer(1, max_pending_items=1)
limited.append(0)
limited.create_item("table", 1.0, limited.history[-1:])
try:
    limited.create_item("table", 1.0, limited.history[-1:])
except reverb.DeadlineExceededError:
    pass
else:
    raise AssertionError
"""


@pytest.mark.parametrize("program", [PROGRAM, CONDITION, BACKLOG], ids=["differences", "condition", "backlog"])
def test_the_module_reverb_keeps_the_behavior_of_dm_reverb(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={**os.environ, "PYTHONPATH": str(STAND_IN)},
    )
    assert done.returncode == 0, done.stderr
