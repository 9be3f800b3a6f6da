"""Log messages from the compiled half are passed to Python's logging."""

from __future__ import annotations

import subprocess
import sys

from conftest import PATIENCE_S

PROGRAM = """
import logging
logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
import relive
server = relive.Server(tables=[relive.Table.queue("q", 1)])
client = relive.Client(f"localhost:{server.port}", transport="tcp")
writer = client.trajectory_writer(1)

def write(step):
    writer.append(step)
    writer.create_item("q", 1.0, writer.history[-1:])

write(0)
writer.flush()  # The queue is full, so no later item is ever confirmed.
for step in range(1, 4):
    write(step)
del writer
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return done.stderr


def test_lost_items_are_reported_even_at_exit() -> None:
    (line,) = [line for line in run(PROGRAM).splitlines() if "WARNING" in line]
    assert line.startswith("relive WARNING")
    assert '3 items not confirmed (3 for table "q")' in line and "flush it first" in line


def test_the_program_chooses_the_log_level() -> None:
    quiet = PROGRAM.replace("import relive", "logging.getLogger('relive').setLevel(logging.ERROR); import relive")
    assert run(quiet) == ""
