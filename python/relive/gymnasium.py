"""Writes the steps of a Gymnasium environment to a table.

The kind defines the items: :class:`Transitions`, :class:`Sequences` or :class:`Episodes`.

>>> kind = Transitions(n_steps=3, discount=0.99)  # doctest: +SKIP
>>> table = relive.Table("replay", ..., signature=signature(env, kind))  # doctest: +SKIP
>>> env = Recorder(env, client, "replay", kind)  # doctest: +SKIP

After that, call ``env.reset()`` and ``env.step(action)`` as before. Each observation is stored only once, regardless of
the number of items that contain it. Composite spaces (``Dict``, ``Tuple``) become nests.

Importing this module also registers the native environments with Gymnasium: ``gymnasium.make("relive/catch-0")`` is
``relive.rl.make("catch/0")``, and ``gymnasium.make_vec("relive/CartPole-v1", num_envs=8)`` steps eight at once.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from relive import _gymnasium_ids, nest, specs
from relive._recording import EpisodeRows, Items, Priority, Rows, SequenceRows, Step, TransitionRows
from relive._recording_kinds import Episodes, Kind, Sequences, Transitions
from relive.client import Client

__all__ = ["Episodes", "Kind", "Recorder", "Sequences", "Transitions", "signature"]


def signature(env: gymnasium.Env[Any, Any], kind: Kind = Transitions()) -> Any:
    """Returns the signature of a table for the items that a :class:`Recorder` of that kind writes.

    Raises:
      ValueError: a space whose values have no fixed shape and type; the error names its path.
      TypeError: a vector of environments.
    """
    _check_single(env)
    columns = _columns(env, kind)
    if isinstance(kind, Transitions):
        return {**columns, "next_observation": columns["observation"]}
    rows = kind.length if isinstance(kind, Sequences) else None
    return nest.map_structure(lambda spec: specs.ArraySpec((rows, *spec.shape), spec.dtype), columns)


class Recorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Wraps an environment and writes its steps to a table.

    When ``step`` reports the end of an episode, the episode's items are in the table. Before that, each item is sent
    as soon as it is complete; :meth:`flush` waits until these items are confirmed. If ``reset`` or ``close`` abandons
    an episode, only its complete items are written.

    Values are converted to the data types of the spaces.

    Args:
      env: one environment. For a vector of environments, give each environment its own recorder:
        ``gymnasium.vector.SyncVectorEnv([lambda: Recorder(make(), client, table)] * 8)``.
      client: the client for the server.
      table: the table.
      kind: the kind of the items.
      priority: the priority of each item, or a function that takes the item's data (numpy arrays) and returns the
        priority.
      timeout: the number of seconds to wait for the server to confirm the items at the end of an episode, in ``reset``
        and in ``close``.
      max_pending_items: the number of unconfirmed items at which ``step`` waits.

    Raises:
      TypeError: a vector of environments, or a ``kind`` that is not a kind of item.
      ValueError: a space whose values have no fixed shape and type, or no bound on the length of episodes.
      DeadlineExceededError: from ``step``, ``reset``, ``flush`` and ``close``: the items were not confirmed in time.
        They are still being sent.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        client: Client,
        table: str,
        kind: Kind = Transitions(),
        *,
        priority: Priority = 1.0,
        timeout: float | None = None,
        max_pending_items: int | None = None,
    ) -> None:
        _check_single(env)
        columns = _columns(env, kind)
        super().__init__(env)
        self._observation = _Caster(columns["observation"], copies=False)
        # Recorded after the step, because the environment may change the action during the step.
        self._action = _Caster(columns["action"], copies=True)
        self._state_caster = _Caster(columns["state"], copies=True) if "state" in columns else None
        self._state = None if self._state_caster is None else nest.map_structure(_zeros, columns["state"])
        writer = client.trajectory_writer(_rows_kept(env, kind), max_pending_items=max_pending_items)
        items = Items(writer, table, priority, timeout)
        self._items = items
        self._rows: Rows
        if isinstance(kind, Transitions):
            self._rows = TransitionRows(items, kind)
        elif isinstance(kind, Sequences):
            self._rows = SequenceRows(items, columns, kind)
        else:
            self._rows = EpisodeRows(items, columns, _max_length(env, kind))
        self._in_episode = False
        self._closed = False

    @property
    def agent_state(self) -> Any:
        """For kinds with a ``state``, the state that the agent carries from step to step; it is recorded with the next
        step.

        The state is zero initially and keeps its value until it is set again.

        Raises:
          AttributeError: the kind has no ``state``.
          ValueError: the shape differs from the kind's.
        """
        if self._state_caster is None:
            raise AttributeError("the recorder has no state; give its kind a state spec, as in Sequences(20, state=ArraySpec(...))")
        return self._state

    @agent_state.setter
    def agent_state(self, value: Any) -> None:
        known = self.agent_state
        assert self._state_caster is not None
        # The array must not share memory with a framework's tensor.
        state = self._state_caster(nest.map_structure(_detached, value))
        for path, was, now in ((path, leaf, _part(state, path)) for path, leaf in nest.flatten_with_path(known)):
            if was.shape != now.shape:
                raise ValueError(f"the state at {path} must have the shape {was.shape} of the kind's spec, got {now.shape}")
        self._state = state

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in the environment."""
        self._in_episode = False
        self._items.end_episode()
        observation, info = self.env.reset(seed=seed, options=options)
        self._rows.begin(self._observation(observation))
        self._in_episode = True
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a step in the environment and records it.

        Raises:
          gymnasium.error.ResetNeeded: no episode has started.
        """
        if not self._in_episode:
            raise gymnasium.error.ResetNeeded(
                "call reset() before step(); put an Autoreset wrapper around the recorder, not inside it"
            )
        taken = self._action(action)
        result = self.env.step(action)
        observation, reward, terminated, truncated, _ = result
        step = Step(taken, float(reward), bool(terminated), bool(truncated), self._state)
        self._rows.step(step, self._observation(observation))
        if step.is_last:
            self._in_episode = False
            self._items.end_episode()
        return result

    def flush(self, timeout: float | None = None) -> None:
        """Waits until the server has confirmed all items.

        Raises:
          DeadlineExceededError: the items were not confirmed within ``timeout`` seconds; the default is the recorder's
            timeout.
        """
        self._items.flush(timeout)

    def close(self) -> None:
        """Waits like :meth:`flush` and closes the environment. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._in_episode = False
        try:
            self._items.close()
        finally:
            super().close()


class _Caster:
    """Converts values of a space to arrays of the space's data types; with ``copies``, to arrays that share no
    memory."""

    def __init__(self, spec: Any, *, copies: bool) -> None:
        self._spec = spec
        self._leaves = nest.flatten_with_path(spec)
        self._array: Any = np.array if copies else np.asarray

    def __call__(self, value: Any) -> Any:
        if isinstance(self._spec, specs.ArraySpec):
            # A fast path: most spaces are not composite, and this runs for every step.
            return self._array(value, dtype=self._spec.dtype)
        return nest.unflatten_as(
            self._spec, [self._array(_part(value, path), dtype=spec.dtype) for path, spec in self._leaves]
        )


def _part(value: Any, path: nest.Path) -> Any:
    for element in path:
        value = value[element]
    return value


def _columns(env: gymnasium.Env[Any, Any], kind: Kind) -> dict[str, Any]:
    """Returns the specs of a row's columns, excluding ``next_observation``."""
    spaces = {"observation": _parts(env.observation_space), "action": _parts(env.action_space)}
    columns = nest.map_structure(lambda spec: specs.ArraySpec(spec.shape, spec.dtype), specs.as_spec(spaces))
    columns["reward"] = specs.ArraySpec((), np.float32)
    if isinstance(kind, Transitions):
        return {**columns, "discount": specs.ArraySpec((), np.float32)}
    if isinstance(kind, (Sequences, Episodes)):
        flags = {name: specs.ArraySpec((), np.bool_) for name in ("terminated", "truncated", "mask")}
        state = {} if kind.state is None else {"state": _arrays(kind.state)}
        return {**columns, **flags, **state}
    raise TypeError(f"kind must be Transitions, Sequences or Episodes, got {kind!r}")


def _arrays(spec: Any) -> Any:
    return nest.map_structure(lambda leaf: specs.ArraySpec(leaf.shape, leaf.dtype), specs.as_spec(spec))


def _zeros(spec: Any) -> Any:
    return np.zeros(spec.shape, spec.dtype)


def _detached(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _parts(space: gymnasium.Space[Any]) -> Any:
    """Returns a space as a nest of spaces that are not composite."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: _parts(part) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_parts(part) for part in space.spaces)
    return space


def _rows_kept(env: gymnasium.Env[Any, Any], kind: Kind) -> int:
    """Returns the number of most recent rows that items can refer to."""
    if isinstance(kind, Transitions):
        # The rows of a window with its next observation and, after the end of an episode, the rows of the shorter
        # windows.
        return 2 * kind.n_steps + 1
    return (kind.length if isinstance(kind, Sequences) else _max_length(env, kind)) + 1


def _max_length(env: gymnasium.Env[Any, Any], kind: Episodes) -> int:
    known = kind.max_length if kind.max_length is not None else getattr(env.spec, "max_episode_steps", None)
    if known is None:
        raise ValueError("the environment does not limit its episodes; give Episodes a max_length")
    return int(known)


def _check_single(env: Any) -> None:
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError(
            "a vector of environments cannot be recorded as one; give each of its environments its own Recorder: "
            "SyncVectorEnv([lambda: Recorder(make(), client, table)] * n)"
        )
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"env must be a gymnasium.Env, got {env!r}")


_gymnasium_ids.register()
