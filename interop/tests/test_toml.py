"""Relive's own configuration format, as seen by the dm-reverb client."""

from __future__ import annotations

import pytest
import tensorflow as tf

from support import steps
from support.servers import ServerFailed

CONFIG = """
[[table]]
name = "replay"
sampler = { prioritized = 0.6 }
remover = "fifo"
max_size = 3
max_times_sampled = 4
rate_limiter = { samples_per_insert = 2.0, min_size = 2, error_buffer = 10.0 }

[table.signature]
x = { shape = [-1, 3], dtype = "float32" }
y = { shape = [], dtype = "string" }

[[table]]
name = "jobs"
kind = "queue"
max_size = 10
"""


def test_every_setting_reaches_the_table(start_toml):
    info = start_toml(CONFIG).client().server_info(timeout=10)
    assert set(info) == {"replay", "jobs"}
    replay, jobs = info["replay"], info["jobs"]
    assert replay.sampler_options.prioritized.priority_exponent == 0.6
    assert replay.remover_options.fifo
    assert (replay.max_size, replay.max_times_sampled) == (3, 4)
    limiter = replay.rate_limiter_info
    assert (limiter.samples_per_insert, limiter.min_size_to_sample) == (2.0, 2)
    assert (limiter.min_diff, limiter.max_diff) == (-6.0, 14.0)
    flat = tf.nest.flatten(replay.signature)
    assert [(spec.shape.as_list(), spec.dtype) for spec in flat] == [([None, 3], tf.float32), ([], tf.string)]
    assert jobs.sampler_options.fifo and jobs.max_times_sampled == 1
    assert (jobs.rate_limiter_info.min_diff, jobs.rate_limiter_info.max_diff) == (0.0, 10.0)


def test_a_table_of_a_kind_works(start_toml):
    client = start_toml(CONFIG).client()
    steps.write(client, "jobs", 1, 2, 3)
    assert steps.drained(client, "jobs") == [1, 2, 3]


@pytest.mark.parametrize("line, named", [("sampler = \"best\"", "best"), ("max_size = 0", "max_size"),
                                         ("color = 1", "color"), ("name = \"replay\"", "replay")])
def test_configuration_errors_name_their_line(start_toml, line, named):
    with pytest.raises(ServerFailed, match=rf"(?s)server\d+\.toml:\d+.*{named}"):
        start_toml(f'[[table]]\nname = "replay"\n\n[[table]]\n{line}\n' + ("" if "name" in line else 'name = "b"\n'))
