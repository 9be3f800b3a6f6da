"""Tables for Ray programs."""

from __future__ import annotations

import numpy as np
import pytest
import ray

import relive
import relive.errors
import relive.ray


@ray.remote(num_cpus=1)
class Actor:
    def __init__(self, client, number):
        self._client, self._number = client, number

    def act(self, steps):
        with self._client.trajectory_writer(num_keep_alive_refs=1) as writer:
            for step in range(steps):
                writer.append({"actor": np.int32(self._number), "step": np.int32(step)})
                writer.create_item("steps", 1.0, {name: column[-1:] for name, column in writer.history.items()})
        return ray.get_runtime_context().get_node_id()


def test_tasks_and_actors_on_all_nodes_reach_the_tables(cluster):
    tables = [relive.Table.queue("steps", 1000)]
    with relive.ray.replay(tables) as replay:
        actors = [Actor.remote(replay.client, number) for number in range(2)]
        nodes = ray.get([actor.act.remote(50) for actor in actors])
        assert len(set(nodes)) == 2
        # Columns are returned in the order of their names.
        taken = [[int(column) for column in sample[0].data] for sample in replay.client.sample("steps", 100)]
        for number in range(2):
            steps = [step for actor, step in taken if actor == number]
            assert steps == list(range(50)), "the steps of an actor are in order"
        stranger = relive.Client(replay.client.server_address)
        with pytest.raises(relive.errors.PermissionDeniedError):
            stranger.server_info()


def test_a_host_that_is_not_an_address_is_refused(cluster):
    with pytest.raises(ValueError, match="'nowhere' does not appear to be an IPv4 or IPv6 address"):
        relive.ray.replay([relive.Table.queue("steps", 10)], host="nowhere")
