"""Recorded episodes, for learning without acting: ``relive.rl.run(agent, env, data=folder, learner_steps=…)``.

>>> import tempfile
>>> from relive import rl
>>> environment, folder = rl.make("catch/0"), tempfile.mkdtemp()
>>> episodes = [recorded.play(environment, lambda observation: 1) for _ in range(3)]
>>> recorded.save(folder, episodes)
>>> [len(episode) for episode in recorded.load(folder)]
[9, 9, 9]

``relive rl record`` and :func:`save` write such a folder: a checkpoint with a table ``episodes`` that contains whole
episodes as items.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import item_selectors, nest, rate_limiters
from relive.checkpointers import DefaultCheckpointer
from relive.rl.gymnasium_adapters import adapted, from_zero
from relive.rl.specs import EnvironmentSpec, as_arrays, make_environment_spec
from relive.server import Server
from relive.tables import Table

__all__ = ["Episode", "from_minari", "load", "play", "save"]

_TABLE = "episodes"
# The table's bound, which is the same for all folders and so large that nothing is ever evicted.
_MAX_EPISODES = 1_000_000_000
# A failed attempt to save leaves this file behind.
_LOCK = "relive.lock"
_COLUMNS = ("action", "discount", "observation", "reward", "start_of_episode")


@dataclasses.dataclass(frozen=True, eq=False)
class Episode:
    """An episode of ``T`` steps."""

    observations: Any
    """``[T + 1, …]``: including the observation after the last step."""
    actions: Any
    """``[T, …]``"""
    rewards: npt.NDArray[np.float32]
    """``[T]``"""
    discounts: npt.NDArray[np.float32]
    """``[T]``: 0 at the end of an episode that terminated, otherwise 1."""

    def __len__(self) -> int:
        return len(self.rewards)


def play(environment: Any, act: Callable[[Any], Any]) -> Episode:
    """Plays an episode in an environment with Gymnasium's or dm_env's interface, taking the actions that ``act``
    returns for the observations.

    ``act`` can be a :class:`relive.rl.Policy`; for a recurrent policy, call ``reset()`` before the episode.
    """
    environment = adapted(environment)
    spec, step = make_environment_spec(environment), environment.reset()
    observations, actions, answers = [_copied(as_arrays(spec.observations, step.observation))], [], []
    while not step.last():
        action = act(step.observation)
        step = environment.step(action)
        actions.append(_copied(as_arrays(spec.actions, action)))
        observations.append(_copied(as_arrays(spec.observations, step.observation)))
        answers.append((step.reward, step.discount))
    rewards, discounts = np.array(answers, np.float32).reshape(-1, 2).T
    return Episode(_stacked(observations), _stacked(actions), rewards, discounts)


def _copied(arrays: Any) -> Any:
    """Returns arrays that environments and policies do not reuse."""
    return nest.map_structure(np.array, arrays)


def save(folder: str | os.PathLike[str], episodes: Iterable[Episode]) -> None:
    """Writes episodes into a folder, which is created if it does not exist.

    Raises:
      ValueError: no episodes, an empty episode, an episode with parts of different lengths, or episodes of several
        environments.
      FileExistsError: the folder already has a recording.
    """
    episodes = list(episodes)
    if not episodes:
        raise ValueError("there are no episodes to save")
    rows = [_rows(episode, number) for number, episode in enumerate(episodes)]
    if os.path.isdir(folder) and set(os.listdir(folder)) - {_LOCK}:
        raise FileExistsError(f"{os.fspath(folder)} is not empty; a recording needs its own folder")
    most_rows = max(len(episode) for episode in episodes) + 1
    with Server([_table()], checkpointer=DefaultCheckpointer(folder), listen=False) as server:
        client = server.localhost_client()
        with client.trajectory_writer(num_keep_alive_refs=most_rows) as writer:
            for episode, of_episode in zip(episodes, rows, strict=True):
                writer.append_sequence(of_episode)
                window = nest.map_structure(lambda column, count=len(episode) + 1: column[-count:], writer.history)
                writer.create_item(_TABLE, 1.0, window)
                writer.end_episode()
        client.checkpoint()


def load(folder: str | os.PathLike[str]) -> list[Episode]:
    """Returns the episodes of a folder in the order in which they were written.

    Raises:
      OSError: the folder has no recording.
      DataLossError: the recording is damaged.
    """
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{os.fspath(folder)} is not a folder")
    with tempfile.TemporaryDirectory() as empty:
        checkpointer = DefaultCheckpointer(empty, fallback_checkpoint_path=folder)
        with Server([_table()], checkpointer=checkpointer, listen=False) as server:
            client = server.localhost_client()
            keys = [item.key for item in client.items(_TABLE)]
            if not keys:
                raise FileNotFoundError(f"{os.fspath(folder)} has no recorded episodes")
            return [_episode(item.data) for item in client.get_items(_TABLE, keys) if item is not None]


def from_minari(dataset: Any, spec: EnvironmentSpec | None = None) -> Iterator[Episode]:
    """Converts the episodes of a Minari dataset (``minari.load_dataset(name)``), or of any object with the same method
    ``iterate_episodes()``.

    Args:
      spec: the spec of the target environment; observations and actions are converted to its data types, and discrete
        actions are counted from 0, regardless of the ``start`` of the data set's action space.
    """
    space = getattr(dataset, "action_space", None)
    for found in dataset.iterate_episodes():
        observations, actions = found.observations, found.actions
        if spec is not None:
            if space is not None:
                actions = from_zero(actions, space)
            observations, actions = as_arrays(spec.observations, observations), as_arrays(spec.actions, actions)
        discounts = 1 - np.asarray(found.terminations, np.float32)
        yield Episode(observations, actions, np.asarray(found.rewards, np.float32), discounts)


def _table() -> Table:
    return Table(_TABLE, item_selectors.Fifo(), item_selectors.Fifo(), _MAX_EPISODES, rate_limiters.MinSize(1))


def _rows(episode: Episode, number: int) -> dict[str, Any]:
    """Converts an episode to rows; the last row contains the last observation, and zeros."""
    count = len(episode)
    if count == 0:
        raise ValueError(f"episode {number} has no steps")
    columns = {"action": episode.actions, "discount": episode.discounts, "reward": episode.rewards}
    lengths = {name: {len(leaf) for leaf in nest.flatten(column)} for name, column in columns.items()}
    lengths["observation"] = {len(leaf) - 1 for leaf in nest.flatten(episode.observations)}
    for name, found in lengths.items():
        if found != {count}:
            raise ValueError(f"episode {number} has {count} rewards, but {sorted(found)} steps of its {name}s")
    starts = np.zeros(count + 1, bool)
    starts[0] = True
    ended = {
        "action": nest.map_structure(_with_zeros, episode.actions),
        "discount": _with_zeros(np.asarray(episode.discounts, np.float32)),
        "reward": _with_zeros(np.asarray(episode.rewards, np.float32)),
    }
    return {**ended, "observation": episode.observations, "start_of_episode": starts}


def _episode(rows: Any) -> Episode:
    columns = rows if isinstance(rows, dict) else dict(zip(_COLUMNS, rows, strict=True))
    cut = nest.map_structure(lambda leaf: leaf[:-1], columns["action"])
    return Episode(columns["observation"], cut, columns["reward"][:-1], columns["discount"][:-1])


def _with_zeros(leaf: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([leaf, np.zeros_like(leaf[:1])])


def _stacked(rows: list[Any]) -> Any:
    leaves = [np.stack(column) for column in zip(*(nest.flatten(row) for row in rows), strict=True)]
    return nest.unflatten_as(rows[0], leaves)
