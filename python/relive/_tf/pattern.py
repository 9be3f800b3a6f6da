"""Items cut out of a dataset of steps, as a ``tf.data`` dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from relive import pattern_dataset, replay_sample, structured_writer
from relive._tf import shutdown, specs
from relive.client import Client


class PatternDataset(tf.data.Dataset):
    """The items that a structured writer with ``configs`` would write for the steps of ``input_dataset``.

    The dataset must be created and iterated eagerly, since the steps pass through Python.
    """

    # The class of the client whose writer creates the items.
    _client_class: type[Client] = Client

    def __init__(
        self,
        input_dataset: tf.data.Dataset,
        configs: Sequence[Any],
        respect_episode_boundaries: bool,
        is_end_of_episode: Callable[[Any], Any],
    ) -> None:
        """Creates a dataset of items.

        Args:
          input_dataset: The steps.
          configs: Configurations of the items, created by :func:`relive.structured_writer.create_config`. All
            configurations must have the same structure of patterns and the same table name.
          respect_episode_boundaries: Whether items must not contain steps of two episodes.
          is_end_of_episode: Returns, as a scalar boolean tensor, whether a step is the last one of its episode.

        Raises:
          ValueError: The configurations do not match each other or the steps, or ``is_end_of_episode`` is not boolean.
        """
        self._steps = input_dataset.map(_with_end_of(is_end_of_episode))
        _check_end(self._steps.element_spec[1])
        self._pattern = (configs, respect_episode_boundaries)
        spec = structured_writer.infer_signature(configs, input_dataset.element_spec)
        self._spec = specs.lists_to_tuples(tf.nest.map_structure(_unnamed, spec))
        self._elements = tf.data.Dataset.from_generator(self._items, output_signature=self._spec)
        if input_dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            self._elements = self._elements.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
        super().__init__(self._elements._variant_tensor)

    @property
    def element_spec(self) -> Any:
        return self._spec

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._elements]

    def _items(self) -> Iterator[Any]:
        return shutdown.Elements(self._read())

    def _read(self) -> Iterator[Any]:
        configs, respect_episode_boundaries = self._pattern
        steps = self._steps.as_numpy_iterator()
        items = pattern_dataset.PatternDataset(steps, configs, respect_episode_boundaries, lambda step: step[1])
        items._client_class = self._client_class
        for item in items:
            yield tf.nest.pack_sequence_as(self._spec, tf.nest.flatten(item))


def _with_end_of(is_end_of_episode: Callable[[Any], Any]) -> Callable[..., Any]:
    def with_end(*step: Any) -> Any:
        # tf.data passes the parts of a plain tuple as separate arguments, and anything else unchanged.
        whole = step[0] if len(step) == 1 else step
        return whole, tf.convert_to_tensor(is_end_of_episode(whole))

    return with_end


def _check_end(spec: tf.TensorSpec) -> None:
    if not spec.is_compatible_with(tf.TensorSpec([], tf.bool)):
        raise ValueError(
            "Invalid `is_end_of_episode`. `is_end_of_episode` must return `bool`, but its return type is "
            f"{tf.TensorSpec(spec.shape, spec.dtype)}."
        )


def _unnamed(spec: Any) -> tf.TensorSpec:
    spec = specs.tensor_spec(spec)
    return tf.TensorSpec(spec.shape, spec.dtype)


def pattern_dataset_with_info(
    input_dataset: tf.data.Dataset,
    configs: Sequence[Any],
    respect_episode_boundaries: bool,
    is_end_of_episode: Callable[[Any], Any],
) -> tf.data.Dataset:
    """Like :class:`PatternDataset`, with each item in a ``ReplaySample`` with zeros as information."""
    return _with_info(PatternDataset(input_dataset, configs, respect_episode_boundaries, is_end_of_episode))


def _with_info(dataset: PatternDataset) -> tf.data.Dataset:
    # As in dm-reverb, TensorFlow chooses the types of the zeros: int32 and float32.
    zeros = replay_sample.SampleInfo.zeros()
    return dataset.map(lambda *item: replay_sample.ReplaySample(zeros, item[0] if len(item) == 1 else item))
