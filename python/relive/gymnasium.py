"""Writes what happens in a Gymnasium environment to a table.

>>> kind = Transitions(n_steps=3, discount=0.99)  # doctest: +SKIP
>>> table = relive.Table("replay", ..., signature=signature(env, kind))  # doctest: +SKIP
>>> env = Recorder(env, client, "replay", kind)  # doctest: +SKIP

and from then on ``env.reset()`` and ``env.step(action)`` as before. Observations are stored once, however many items show
them. Spaces with parts (``Dict``, ``Tuple``) become nests.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium
import numpy as np

from relive import nest, specs
from relive.client import Client
from relive.trajectory_writer import TrajectoryWriter


@dataclasses.dataclass(frozen=True)
class Transitions:
    """An item for every step: what was seen and done, and what came of it within ``n_steps`` steps.

    For step t, with γ the discount and m = ``n_steps``, or the number of steps to the end of the episode if that is less:

    ==================  =========================  =====================================================
    column              shape, type                content
    ==================  =========================  =====================================================
    observation         the space's                o_t
    action              the space's                a_t
    reward              (), float32                sum of γ^k r_{t+k} for k from 0 to m - 1
    discount            (), float32                γ^m; 0 if the episode terminated within these steps
    next_observation    the observation space's    o_{t+m}
    ==================  =========================  =====================================================

    so that ``reward + discount * value(next_observation)`` is the n-step target (Sutton and Barto, Reinforcement Learning,
    2nd ed., equation 7.1). An episode that is merely truncated keeps its bootstrap.

    Args:
      n_steps: the number of steps, at least 1.
      discount: γ, from 0 to 1.
    """

    n_steps: int = 1
    discount: float = 0.99

    def __post_init__(self) -> None:
        if self.n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, but it is {self.n_steps}")
        if not 0 <= self.discount <= 1:
            raise ValueError(f"discount must be from 0 to 1, but it is {self.discount}")


@dataclasses.dataclass(frozen=True)
class Sequences:
    """An item for every ``period`` steps: ``length`` rows, one for each step.

    ==================  =========================  ===============================================================
    column              shape, type                content of row t
    ==================  =========================  ===============================================================
    observation         the space's                o_t
    action              the space's                a_t
    reward              (), float32                r_t, the reward for a_t
    terminated          (), bool                   whether a_t ended the episode
    truncated           (), bool                   whether the episode was cut off after a_t
    mask                (), bool                   whether there was an a_t
    ==================  =========================  ===============================================================

    After the last step comes a row with the last observation, zeros, and a mask that is false; it counts as one of the
    rows. Sequences do not go beyond the end of an episode.

    Args:
      length: the rows of a sequence, at least 1.
      period: the rows from the beginning of a sequence to that of the next one, from 1 to ``length``, which is the
        default.
      pad: whether steps at the end of an episode which no sequence holds yet get one that is filled up with rows of zeros.
        Without it they are dropped.
    """

    length: int
    period: int | None = None
    pad: bool = True

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1, but it is {self.length}")
        if self.period is not None and not 1 <= self.period <= self.length:
            raise ValueError(f"period must be from 1 to length ({self.length}), but it is {self.period}")


@dataclasses.dataclass(frozen=True)
class Episodes:
    """An item for every episode, with the columns of :class:`Sequences` and a row more than there were steps.

    Args:
      max_length: the most steps that an episode may have; by default as many as the environment's specification allows.
    """

    max_length: int | None = None

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, but it is {self.max_length}")


Kind = Transitions | Sequences | Episodes

Priority = float | Callable[[Any], float]


def signature(env: gymnasium.Env[Any, Any], kind: Kind = Transitions()) -> Any:
    """The signature of a table for what a :class:`Recorder` of that kind writes.

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
    """An environment whose steps are written to a table.

    When ``step`` reports the end of an episode, its items are in the table. Items that are complete earlier are sent on
    the way, and :meth:`flush` waits for them. An episode that is abandoned, by ``reset`` or ``close`` before its end,
    leaves the items that are complete by then, and no others.

    Values are converted to the data types of the spaces.

    Args:
      env: one environment. For a vector of them, give each its own recorder:
        ``gymnasium.vector.SyncVectorEnv([lambda: Recorder(make(), client, table)] * 8)``.
      client: the client of the server.
      table: the table.
      kind: what the items are.
      priority: the priority of each item, or a function that gets the item's data, numpy arrays, and returns it.
      timeout: seconds that the server may take to confirm the items at the end of an episode, in ``reset`` and in
        ``close``.
      max_pending_items: items that may wait for the server's confirmation before ``step`` waits.

    Raises:
      TypeError: a vector of environments, or a kind that is none.
      ValueError: a space whose values have no fixed shape and type; no bound for the length of episodes.
      DeadlineExceededError: from ``step``, ``reset``, ``flush`` and ``close``: not confirmed in time. The items are still
        on their way.
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
        self._observation = _Caster(columns["observation"])
        self._action = _Caster(columns["action"])
        writer = client.trajectory_writer(_rows_kept(env, kind), max_pending_items=max_pending_items)
        items = _Items(writer, table, priority, timeout)
        self._items = items
        self._rows: _Rows
        if isinstance(kind, Transitions):
            self._rows = _TransitionRows(items, kind)
        elif isinstance(kind, Sequences):
            self._rows = _SequenceRows(items, columns, kind)
        else:
            self._rows = _EpisodeRows(items, columns, _max_length(env, kind))
        self._in_episode = False
        self._closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, as the environment does."""
        self._in_episode = False
        self._items.end_episode()
        observation, info = self.env.reset(seed=seed, options=options)
        self._rows.begin(self._observation(observation))
        self._in_episode = True
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Takes a step in the environment and writes it down.

        Raises:
          gymnasium.error.ResetNeeded: there is no episode.
        """
        if not self._in_episode:
            raise gymnasium.error.ResetNeeded(
                "the recorder needs reset() before step(); an Autoreset wrapper belongs around the recorder, not inside"
            )
        result = self.env.step(action)
        observation, reward, terminated, truncated, _ = result
        step = _Step(self._action(action), float(reward), bool(terminated), bool(truncated))
        self._rows.step(step, self._observation(observation))
        if step.is_last:
            self._in_episode = False
            self._items.end_episode()
        return result

    def flush(self, timeout: float | None = None) -> None:
        """Waits until the server has confirmed all items.

        Raises:
          DeadlineExceededError: it has not within ``timeout`` seconds, by default those of the recorder.
        """
        self._items.flush(timeout)

    def close(self) -> None:
        """Waits as :meth:`flush` does, and closes the environment. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._in_episode = False
        try:
            self._items.close()
        finally:
            super().close()


@dataclasses.dataclass(frozen=True)
class _Step:
    action: Any
    reward: float
    terminated: bool
    truncated: bool

    @property
    def is_last(self) -> bool:
        return self.terminated or self.truncated


class _Items:
    """A writer, and how its items are to be."""

    def __init__(self, writer: TrajectoryWriter, table: str, priority: Priority, timeout: float | None) -> None:
        self._writer = writer
        self._table = table
        self._priority = priority
        self._timeout = timeout

    def append(self, row: dict[str, Any], *, partial: bool = False) -> None:
        self._writer.append(row, partial_step=partial)

    def history(self, column: str) -> Any:
        return self._writer.history[column]

    def create(self, trajectory: dict[str, Any]) -> None:
        if callable(self._priority):
            priority = float(self._priority(nest.map_structure(lambda column: column.numpy(), trajectory)))
        else:
            priority = self._priority
        self._writer.create_item(self._table, priority, trajectory)

    def end_episode(self) -> None:
        self._writer.end_episode(timeout_ms=_milliseconds(self._timeout))

    def flush(self, timeout: float | None) -> None:
        self._writer.flush(timeout_ms=_milliseconds(self._timeout if timeout is None else timeout))

    def close(self) -> None:
        try:
            self.flush(None)
        finally:
            self._writer.close()


class _Rows(abc.ABC):
    """Turns an episode into rows of the writer's history, and items of them.

    The row of an observation is begun when it is seen, before the environment may write over it, and ended by the action.
    """

    @abc.abstractmethod
    def begin(self, observation: Any) -> None:
        """The first observation of an episode."""

    @abc.abstractmethod
    def step(self, step: _Step, observation: Any) -> None:
        """A step, and the observation after it."""


class _TransitionRows(_Rows):
    """Row t holds o_t and a_t. What came of the windows that are complete after step t lies in row t and, at the end of an
    episode, where that are several, in the rows after it."""

    def __init__(self, items: _Items, kind: Transitions) -> None:
        self._items = items
        self._discount = kind.discount
        self._rewards: collections.deque[float] = collections.deque(maxlen=kind.n_steps)
        self._num_steps = 0

    def begin(self, observation: Any) -> None:
        self._rewards.clear()
        self._num_steps = 0
        self._items.append({"observation": observation}, partial=True)

    def step(self, step: _Step, observation: Any) -> None:
        self._rewards.append(step.reward)
        now = self._num_steps
        self._num_steps += 1
        lengths = self._complete_windows(step.is_last)
        outcomes = [self._outcome(length, step.terminated) for length in lengths]
        at_hand, later = outcomes[:1], outcomes[1:]
        self._items.append({"action": step.action, **_only(at_hand)})
        self._items.append({"observation": observation, **_only(later[:1])}, partial=not step.is_last)
        for outcome in later[1:]:
            self._items.append(outcome)
        for index, length in enumerate(lengths):
            self._create(start=now + 1 - length, end=now + 1, outcome=now + index)

    def _complete_windows(self, is_last: bool) -> list[int]:
        """The lengths of the windows that end now: the full one, and at the end of an episode all shorter ones."""
        if is_last:
            return list(range(len(self._rewards), 0, -1))
        return [len(self._rewards)] if len(self._rewards) == self._rewards.maxlen else []

    def _outcome(self, length: int, terminated: bool) -> dict[str, Any]:
        reward = 0.0
        for earlier in list(self._rewards)[: -length - 1 : -1]:
            reward = earlier + self._discount * reward
        discount = 0.0 if terminated else self._discount**length
        return {"reward": np.float32(reward), "discount": np.float32(discount)}

    def _create(self, *, start: int, end: int, outcome: int) -> None:
        at = {"observation": start, "action": start, "reward": outcome, "discount": outcome}
        trajectory = {column: _cells(self._items.history(column), row) for column, row in at.items()}
        trajectory["next_observation"] = _cells(self._items.history("observation"), end)
        self._items.create(trajectory)


class _StepRows(_Rows):
    """Row t holds all columns of step t; the last one has the last observation only."""

    def __init__(self, items: _Items, columns: dict[str, Any]) -> None:
        self._items = items
        self._columns = columns
        self._blank = nest.map_structure(lambda spec: np.zeros(spec.shape, spec.dtype), columns)
        self._num_rows = 0

    def begin(self, observation: Any) -> None:
        self._num_rows = 0
        self._items.append({"observation": observation}, partial=True)

    def step(self, step: _Step, observation: Any) -> None:
        self._end_row({
            "action": step.action,
            "reward": np.float32(step.reward),
            "terminated": np.bool_(step.terminated),
            "truncated": np.bool_(step.truncated),
            "mask": np.bool_(True),
        })
        if step.is_last:
            self._end_row({**self._blank, "observation": observation})
            self._at_end()
        else:
            self._items.append({"observation": observation}, partial=True)

    def _end_row(self, row: dict[str, Any]) -> None:
        self._items.append(row)
        self._num_rows += 1
        self._after_row()

    def _create(self, start: int, stop: int) -> None:
        rows = slice(start, stop)
        self._items.create({column: _cells(self._items.history(column), rows) for column in self._columns})

    @abc.abstractmethod
    def _after_row(self) -> None:
        """Makes the items that a new row completes."""

    @abc.abstractmethod
    def _at_end(self) -> None:
        """Makes the items that the end of an episode completes."""


class _SequenceRows(_StepRows):
    def __init__(self, items: _Items, columns: dict[str, Any], kind: Sequences) -> None:
        super().__init__(items, columns)
        self._length = kind.length
        self._period = kind.length if kind.period is None else kind.period
        self._pad = kind.pad
        self._next_start = 0

    def begin(self, observation: Any) -> None:
        self._next_start = 0
        super().begin(observation)

    def _after_row(self) -> None:
        if self._num_rows == self._next_start + self._length:
            self._create(self._next_start, self._num_rows)
            self._next_start += self._period

    def _at_end(self) -> None:
        num_steps = self._num_rows - 1
        covered = self._next_start - self._period + self._length if self._next_start else 0
        if self._pad and covered < num_steps:
            for _ in range(self._next_start + self._length - self._num_rows):
                self._end_row(self._blank)


class _EpisodeRows(_StepRows):
    def __init__(self, items: _Items, columns: dict[str, Any], max_length: int) -> None:
        super().__init__(items, columns)
        self._max_length = max_length

    def step(self, step: _Step, observation: Any) -> None:
        if self._num_rows == self._max_length:
            raise ValueError(
                f"the episode has more steps than Episodes(max_length={self._max_length}) allows; "
                "gymnasium.wrappers.TimeLimit can cut it off"
            )
        super().step(step, observation)

    def _after_row(self) -> None:
        pass

    def _at_end(self) -> None:
        self._create(0, self._num_rows)


class _Caster:
    """Turns values of a space into arrays of the space's data types."""

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self._leaves = nest.flatten_with_path(spec)

    def __call__(self, value: Any) -> Any:
        if isinstance(self._spec, specs.ArraySpec):
            # Most spaces have no parts, and every step comes by here.
            return np.asarray(value, dtype=self._spec.dtype)
        return nest.unflatten_as(
            self._spec, [np.asarray(_part(value, path), dtype=spec.dtype) for path, spec in self._leaves]
        )


def _part(value: Any, path: nest.Path) -> Any:
    for element in path:
        value = value[element]
    return value


T = TypeVar("T")


def _only(outcomes: list[dict[str, T]]) -> dict[str, T]:
    """The one there is, or nothing."""
    return outcomes[0] if outcomes else {}


def _cells(history: Any, rows: int | slice) -> Any:
    """The steps `rows` of a column, or of each column of a nest."""
    if not nest.is_nested(history):
        return history[rows]
    return nest.map_structure(lambda column: column[rows], history)


def _columns(env: gymnasium.Env[Any, Any], kind: Kind) -> dict[str, Any]:
    """The specs of the columns of a row, without ``next_observation``."""
    spaces = {"observation": _parts(env.observation_space), "action": _parts(env.action_space)}
    columns = nest.map_structure(lambda spec: specs.ArraySpec(spec.shape, spec.dtype), specs.as_spec(spaces))
    columns["reward"] = specs.ArraySpec((), np.float32)
    if isinstance(kind, Transitions):
        return {**columns, "discount": specs.ArraySpec((), np.float32)}
    if isinstance(kind, (Sequences, Episodes)):
        flags = {name: specs.ArraySpec((), np.bool_) for name in ("terminated", "truncated", "mask")}
        return {**columns, **flags}
    raise TypeError(f"kind must be Transitions, Sequences or Episodes, not {kind!r}")


def _parts(space: gymnasium.Space[Any]) -> Any:
    """A space as a nest of spaces that have no parts."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {key: _parts(part) for key, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(_parts(part) for part in space.spaces)
    return space


def _rows_kept(env: gymnasium.Env[Any, Any], kind: Kind) -> int:
    """How many rows back items refer to."""
    if isinstance(kind, Transitions):
        # A window with its next observation, and after an episode's end the rows of the shorter windows.
        return 2 * kind.n_steps + 1
    return (kind.length if isinstance(kind, Sequences) else _max_length(env, kind)) + 1


def _max_length(env: gymnasium.Env[Any, Any], kind: Episodes) -> int:
    known = kind.max_length if kind.max_length is not None else getattr(env.spec, "max_episode_steps", None)
    if known is None:
        raise ValueError("the environment does not bound its episodes; give Episodes a max_length")
    return int(known)


def _check_single(env: Any) -> None:
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise TypeError(
            "a vector of environments cannot be recorded as one; give each environment in it a Recorder of its own: "
            "SyncVectorEnv([lambda: Recorder(make(), client, table)] * n)"
        )
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"env must be a gymnasium.Env, not {env!r}")


def _milliseconds(timeout: float | None) -> int | None:
    return None if timeout is None else max(1, round(timeout * 1000))
