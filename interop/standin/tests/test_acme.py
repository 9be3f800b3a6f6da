"""Acme's own tests of its adders, and its adders together with its datasets."""

from __future__ import annotations

import dm_env
import numpy as np
import pytest
import reverb
import tensorflow as tf
import tree
from acme import datasets, specs
from acme.adders import reverb as adders
from acme.adders.reverb.episode_test import EpisodeAdderTest  # noqa: F401
from acme.adders.reverb.sequence_test import SequenceAdderTest  # noqa: F401
from acme.adders.reverb.transition_test import NStepTransitionAdderTest  # noqa: F401

_SPEC = specs.EnvironmentSpec(
    observations={"place": specs.Array([2], np.float32), "time": specs.Array([], np.int32)},
    actions=specs.DiscreteArray(5),
    rewards=specs.Array([], np.float32),
    discounts=specs.BoundedArray([], np.float32, 0.0, 1.0),
)
_EPISODES, _STEPS = 3, 6


def _table(signature):
    return reverb.Table(
        adders.DEFAULT_PRIORITY_TABLE,
        sampler=reverb.selectors.Uniform(),
        remover=reverb.selectors.Fifo(),
        max_size=1000,
        rate_limiter=reverb.rate_limiters.MinSize(1),
        signature=signature,
    )


def _observation(episode, time):
    return {"place": np.array([episode, time], np.float32), "time": np.int32(time)}


def _reward(episode, time):
    return np.float32(100 * episode + time)


def _run(adder):
    """Episodes with rewards and observations that identify their origin."""
    for episode in range(_EPISODES):
        adder.add_first(dm_env.restart(_observation(episode, 0)))
        for time in range(1, _STEPS + 1):
            last = time == _STEPS
            kind = dm_env.StepType.LAST if last else dm_env.StepType.MID
            discount = np.float32(0.0 if last else 0.5)
            step = dm_env.TimeStep(kind, _reward(episode, time), discount, _observation(episode, time))
            adder.add(np.int32(time % 5), step)


def _distinct(dataset, wanted, key):
    """Reads elements of a dataset until `wanted` distinct ones were seen."""
    seen = {}
    for sample in dataset:
        data = tree.map_structure(lambda tensor: tensor.numpy(), sample.data)
        seen.setdefault(key(data), data)
        if len(seen) == wanted:
            return seen
    raise AssertionError(f"the dataset ended after {len(seen)} different elements")


def test_n_step_transitions_through_a_dataset(serve):
    n_step, discount = 3, 0.9
    client = serve(_table(adders.NStepTransitionAdder.signature(_SPEC)))
    _run(adders.NStepTransitionAdder(client, n_step, discount))
    dataset = datasets.make_reverb_dataset(client.server_address, num_parallel_calls=3)

    def window(data):
        first, last = data.observation, data.next_observation
        return int(first["place"][0]), int(first["time"]), int(last["time"])

    per_episode = _STEPS + n_step - 1
    seen = _distinct(dataset, _EPISODES * per_episode, window)
    for (episode, start, end), data in seen.items():
        assert 1 <= end - start <= n_step
        wanted_return, factor = 0.0, 1.0
        for time in range(start + 1, end + 1):
            wanted_return += factor * _reward(episode, time)
            factor *= (0.0 if time == _STEPS else 0.5) * discount
        np.testing.assert_allclose(data.reward, wanted_return, rtol=1e-6)
        np.testing.assert_allclose(data.discount, factor / discount, rtol=1e-6)
        assert data.action == (start + 1) % 5
        assert data.extras == ()


def test_batches_of_transitions_have_static_shapes(serve):
    client = serve(_table(adders.NStepTransitionAdder.signature(_SPEC)))
    _run(adders.NStepTransitionAdder(client, 1, 1.0))
    dataset = datasets.make_reverb_dataset(
        client.server_address,
        batch_size=4,
        prefetch_size=2,
        postprocess=lambda sample: sample._replace(data=sample.data._replace(reward=sample.data.reward + 1)),
    )
    data = dataset.element_spec.data
    assert data.observation["place"] == tf.TensorSpec([4, 2], tf.float32)
    assert data.reward == tf.TensorSpec([4], tf.float32)
    assert dataset.element_spec.info.key == tf.TensorSpec([4], tf.uint64)
    sample = next(iter(dataset))
    place, reward = sample.data.next_observation["place"].numpy(), sample.data.reward.numpy()
    np.testing.assert_array_equal(reward, 100 * place[:, 0] + place[:, 1] + 1)
    np.testing.assert_array_equal(sample.info.table_size, [_EPISODES * _STEPS] * 4)
    np.testing.assert_allclose(sample.info.probability, 1 / (_EPISODES * _STEPS))


def test_sequences_through_a_dataset(serve):
    length, period = 4, 2
    client = serve(_table(adders.SequenceAdder.signature(_SPEC, sequence_length=length)))
    _run(adders.SequenceAdder(client, sequence_length=length, period=period))
    dataset = datasets.make_reverb_dataset(client.server_address, num_parallel_calls=2)
    # Seven rows per episode: items after 4 and 6 rows, and a last item that is padded to 8.
    seen = _distinct(dataset, _EPISODES * 3, lambda data: tuple(data.observation["place"][0]))
    assert sorted({start for _, start in seen}) == [0, 2, 4]
    for (episode, start), data in seen.items():
        rows = min(length, _STEPS + 1 - int(start))
        times = np.arange(start, start + rows)
        np.testing.assert_array_equal(data.observation["time"][:rows], times)
        np.testing.assert_array_equal(data.observation["time"][rows:], 0)
        rewards = [_reward(episode, time + 1) if time < _STEPS else 0 for time in times]
        np.testing.assert_array_equal(data.reward[:rows], rewards)
        assert data.start_of_episode[0] == (start == 0)
        assert not data.start_of_episode[1:].any()


def test_episodes_through_a_dataset(serve):
    client = serve(_table(adders.EpisodeAdder.signature(_SPEC, sequence_length=None)))
    _run(adders.EpisodeAdder(client, max_sequence_length=_STEPS + 1))
    dataset = datasets.make_reverb_dataset(client.server_address, num_parallel_calls=2)
    assert dataset.element_spec.data.reward.shape.as_list() == [None]
    for (episode,), data in _distinct(dataset, _EPISODES, lambda data: (data.observation["place"][0, 0],)).items():
        assert data.reward.shape == (_STEPS + 1,)
        np.testing.assert_array_equal(data.reward[:-1], [_reward(episode, time) for time in range(1, _STEPS + 1)])
        np.testing.assert_array_equal(data.observation["place"][:, 1], np.arange(_STEPS + 1))


def test_priorities_of_an_adder_reach_its_table(serve):
    table = _table(adders.NStepTransitionAdder.signature(_SPEC))
    client = serve(table)
    _run(adders.NStepTransitionAdder(
        client, 1, 1.0, priority_fns={adders.DEFAULT_PRIORITY_TABLE: lambda transition: float(transition.reward)}
    ))
    for sample in client.sample(adders.DEFAULT_PRIORITY_TABLE, 20, emit_timesteps=False):
        assert sample.info.priority == sample.data[4 - 1]


def test_an_iterator_with_waiting_workers_can_be_dropped(serve, is_standin):
    if not is_standin:
        pytest.skip("it can, but it takes dm-reverb half a minute")
    queue = reverb.Table.queue(
        adders.DEFAULT_PRIORITY_TABLE, 100, signature=adders.NStepTransitionAdder.signature(_SPEC)
    )
    client = serve(queue)
    dataset = datasets.make_reverb_dataset(client.server_address, batch_size=1, prefetch_size=4)
    iterator = iter(dataset)
    _run(adders.NStepTransitionAdder(client, 1, 1.0))
    for _ in range(_EPISODES * _STEPS):
        next(iterator)
    # The queue is empty now, and each of the twelve workers waits for it in the background.
    del iterator
    assert client.server_info(timeout=5)[adders.DEFAULT_PRIORITY_TABLE].current_size == 0
