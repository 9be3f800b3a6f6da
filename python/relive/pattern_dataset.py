"""Items cut out of a sequence of steps, without a table."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from relive import _datasets, _infer_signature, nest, specs, structured_writer
from relive.client import Client
from relive.replay_sample import ReplaySample, SampleInfo
from relive.server import Server
from relive.tables import Table

# Items are removed from the queue after each step. A step creates at most one item per configuration, and one more at
# an episode's end.
_ITEMS_PER_CONFIG = 2


class PatternDataset:
    """Iterates over the items that a structured writer with ``configs`` would create from the steps of
    ``input_dataset``.

    Args:
      input_dataset: the steps: nests of tensors. The dataset can be iterated as often as ``input_dataset``.
      configs: configurations from ``relive.structured.create_config`` with one table and one structure of patterns.
      respect_episode_boundaries: whether items must not contain steps of two episodes.
      is_end_of_episode: a function that returns whether a step is the last one of its episode.

    Raises:
      ValueError: no configurations, or configurations that do not match. While iterating: steps of different
        structures, or an ``is_end_of_episode`` that does not return one boolean.
    """

    # The class of the client whose writer creates the items.
    _client_class: type[Client] = Client

    def __init__(
        self,
        input_dataset: Iterable[Any],
        configs: Sequence[Any],
        respect_episode_boundaries: bool,
        is_end_of_episode: Callable[[Any], Any],
    ) -> None:
        _infer_signature.check_configs(configs)
        self._steps = input_dataset
        self._configs = list(configs)
        self._respect_episode_boundaries = respect_episode_boundaries
        self._is_end_of_episode = is_end_of_episode
        self._structure = _datasets.lists_to_tuples(structured_writer.unpack_pattern(self._configs[0]))

    def __iter__(self) -> Iterator[Any]:
        """Yields the items' data in the structure of the patterns, with lists replaced by tuples."""
        with _Items(self._configs, self._client_class) as items:
            for step in self._steps:
                items.append(step)
                yield from map(self._pack, items.take())
                if _boolean(self._is_end_of_episode(step)):
                    items.end_episode(clear_buffers=self._respect_episode_boundaries)
                    yield from map(self._pack, items.take())

    def as_tf_dataset(self, step_spec: Any = None) -> Any:
        """Returns the same items as a ``tf.data.Dataset``; TensorFlow must be installed.

        Args:
          step_spec: a nest of specs of the steps; the default is the spec of the first step.

        Raises:
          ValueError: no ``step_spec`` was given, and the steps are empty or can only be iterated once.
        """
        import tensorflow as tf

        from relive._tf.specs import tensor_spec

        if step_spec is None:
            step_spec = self._spec_of_first_step()
        signature = _infer_signature.infer_signature(self._configs, step_spec)
        output = nest.map_structure(lambda spec: tensor_spec(spec.with_name(None)), specs.as_spec(signature))
        return tf.data.Dataset.from_generator(lambda: iter(self), output_signature=_datasets.lists_to_tuples(output))

    def _pack(self, columns: list[Any]) -> Any:
        return nest.unflatten_as(self._structure, columns)

    def _spec_of_first_step(self) -> Any:
        steps = iter(self._steps)
        if steps is self._steps:
            raise ValueError("step_spec is required if the steps can be iterated only once")
        first = next(steps, None)
        if first is None:
            raise ValueError("step_spec is required, because there are no steps")
        return specs.as_spec(nest.map_structure(np.asarray, first))


def pattern_dataset_with_info(
    input_dataset: Iterable[Any],
    configs: Sequence[Any],
    respect_episode_boundaries: bool,
    is_end_of_episode: Callable[[Any], Any],
) -> Iterator[ReplaySample]:
    """Yields the items of a ``PatternDataset``, each as a ``ReplaySample`` with zeros as information."""
    return _with_info(PatternDataset(input_dataset, configs, respect_episode_boundaries, is_end_of_episode))


def _with_info(dataset: PatternDataset) -> Iterator[ReplaySample]:
    return (ReplaySample(SampleInfo.zeros(), data) for data in dataset)


class _Items:
    """A structured writer, and a private server's queue that receives its items."""

    def __init__(self, configs: Sequence[Any], client_class: type[Client]) -> None:
        self._name: str = configs[0].table
        self._table = Table.queue(self._name, _ITEMS_PER_CONFIG * len(configs))
        self._taken = 0
        self._stack = contextlib.ExitStack()
        server = self._stack.enter_context(Server([self._table], listen=False))
        client = client_class(server.localhost_client().server_address)
        self._writer = self._stack.enter_context(contextlib.closing(client.structured_writer(configs)))
        self._sampler = self._stack.enter_context(
            contextlib.closing(client._sampler(self._name, max_in_flight_samples_per_worker=1))
        )

    def append(self, step: Any) -> None:
        """Adds a step."""
        self._writer.append(step)

    def end_episode(self, *, clear_buffers: bool) -> None:
        """Ends the episode, which may also create items."""
        self._writer.end_episode(clear_buffers)

    def take(self) -> Iterator[list[Any]]:
        """Yields the columns of the items that were created since the last call, in order."""
        self._writer.flush()
        made = self._table.info.num_inserts
        for _ in range(made - self._taken):
            self._taken += 1
            yield self._sampler.next()[1]

    def __enter__(self) -> _Items:
        return self

    def __exit__(self, *reason: object) -> None:
        self._stack.close()


def _boolean(end: Any) -> bool:
    value = np.asarray(end)
    if value.shape != () or value.dtype != np.bool_:
        raise ValueError(
            f"is_end_of_episode must return one boolean, but returned {value.dtype} of shape {value.shape}"
        )
    return bool(value)
