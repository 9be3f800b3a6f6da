"""N-step returns of many environments at once."""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import nest
from relive._buffer_checks import PLAIN, expect_columns, expect_mask
from relive._numbers import fitted_number

# The fields with which a step reports the end of its episode.
_ENDS = _TERMINATED, _TRUNCATED, _DONE = "terminated", "truncated", "done"

# The column of this name, and columns with the prefix "next_", contain the values after the last step of a window; other
# columns contain the values before the first step.
_NEXT = "next"

# The column of the rewards of a window's steps.
_REWARDS = "rewards"


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The columns of the steps, and the places of their leaves."""

    outline: Any
    fill: Callable[[Sequence[Any]], dict[str, Any]]
    # The data type and the shape of each leaf.
    types: list[tuple[np.dtype[Any], tuple[int, ...]]]
    # Whether a window has the value of its last step, for each leaf.
    is_of_last: list[bool]
    # The leaf of each column that has only one.
    places: dict[str, int]
    # Whether all ends of episodes are bools, so that their values need no checks.
    has_bool_ends: bool

    @classmethod
    def of(cls, step: Mapping[str, Any], leaves: list[npt.NDArray[Any]]) -> _Layout:
        paths = nest.outlined_paths(outline := nest.outline(step))
        _, fill = nest.filler(dict(step))
        return cls(
            outline,
            fill,
            [(leaf.dtype, leaf.shape) for leaf in leaves],
            [_is_next(path[0]) or path[0] in _ENDS for path in paths],
            {path[0]: place for place, path in enumerate(paths) if len(path) == 1},
            all(leaf.dtype.kind == "b" for leaf, path in zip(leaves, paths, strict=True) if path[0] in _ENDS),
        )

    def copied(self, step: Mapping[str, Any]) -> list[npt.NDArray[Any]] | None:
        """Returns copies of the leaves of a step, or ``None`` if it has another layout."""
        leaves = nest.flatten_outlined(self.outline, step)
        if leaves is None:
            return None
        copies = [np.array(leaf) for leaf in leaves]
        return copies if [(leaf.dtype, leaf.shape) for leaf in copies] == self.types else None

    def has_ended(self, leaves: list[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
        flags = [self.flag(leaves, name) for name in _ENDS if name in self.places]
        return functools.reduce(operator.or_, flags)

    def flag(self, leaves: list[npt.NDArray[Any]], name: str) -> npt.NDArray[np.bool_]:
        place = self.places.get(name)
        if place is None:
            return np.zeros(leaves[self.places["reward"]].shape, np.bool_)
        return leaves[place].astype(np.bool_, copy=False)

    def has_terminated(self, leaves: list[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
        if _TERMINATED in self.places:
            return self.flag(leaves, _TERMINATED)
        # If a step has both "done" and "truncated", "done" usually means either terminated or truncated.
        return self.flag(leaves, _DONE) & ~self.flag(leaves, _TRUNCATED)


class NStep:
    """Creates transitions over up to ``n_step`` steps from the parallel steps of many environments.

    A window of m steps that starts at step t has the columns of step t, with these exceptions: ``reward`` is the sum of
    γ^k r_{t+k} for k from 0 to m - 1; ``terminated``, ``truncated``, ``done``, ``next`` and columns that begin with
    ``next_`` come from the window's last step; and ``discount`` is γ^m, or 0 if the last step terminated the episode
    (Sutton and Barto, Reinforcement Learning, 2nd ed., equation 7.1). m is ``n_step``, or less for windows at the end
    of an episode.

    With ``keeps_rewards``, the column ``rewards`` of the shape ``[n_step]`` has the rewards of the window's steps, and
    zeros after them.
    """

    def __init__(self, n_step: int, discount: float, *, keeps_rewards: bool = False) -> None:
        self._n_step = n_step
        self._discount = discount
        self._keeps_rewards = keeps_rewards
        # The leaves of the newest steps.
        self._steps: collections.deque[list[npt.NDArray[Any]]] = collections.deque(maxlen=n_step)
        # The layout of the newest step.
        self._layout: _Layout | None = None
        # The number of these steps that belong to each environment's current episode.
        self._ages: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def restore(self, state: tuple[collections.deque[list[npt.NDArray[Any]]], npt.NDArray[np.int64]]) -> None:
        """Restores a :attr:`state`."""
        self._steps, self._ages = state

    @property
    def state(self) -> tuple[collections.deque[list[npt.NDArray[Any]]], npt.NDArray[np.int64]]:
        """The steps of the current windows."""
        return self._steps.copy(), self._ages.copy()

    def rows_of(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the step of a single environment as rows. Python's numbers get the data types of the newest step; see
        :func:`fitted_number`."""
        leaves = None if self._layout is None else nest.flatten_outlined(self._layout.outline, step)
        if leaves is None:
            rows: dict[str, Any] = nest.map_structure(lambda leaf: np.asarray(leaf)[None], dict(step))
            return rows
        layout = self._known()
        return layout.fill([np.asarray(fitted_number(leaf, dtype))[None] for leaf, (dtype, _) in zip(leaves, layout.types, strict=True)])

    def completed(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the window of one step of a single environment, if windows have one step: it is the step itself, with its
        discount. Returns ``None`` for all steps that need further checks, which :meth:`push` makes: windows have several
        steps, ends of episodes are not bools, or the step has another layout than the steps before or values that
        :func:`readable` must convert."""
        layout = self._layout
        if self._n_step > 1 or layout is None or not layout.has_bool_ends:
            return None
        leaves = nest.flatten_outlined(layout.outline, step)
        if leaves is None or not PLAIN.issuperset(map(type, leaves)):
            return None
        arrays = [np.asarray(fitted_number(leaf, dtype)) for leaf, (dtype, _) in zip(leaves, layout.types, strict=True)]
        if any((array.dtype, array.shape) != (dtype, shape[1:]) for array, (dtype, shape) in zip(arrays, layout.types, strict=True)):
            return None
        window = layout.fill(arrays)
        window["reward"] = np.float32(window["reward"])
        window["discount"] = np.float32(0.0 if layout.has_terminated(arrays) else self._discount)
        return window

    def push(self, step: Mapping[str, Any], is_skipped: npt.NDArray[np.bool_] | None = None) -> tuple[int, dict[str, Any]]:
        """Takes one step of all environments; the leading dimension of each column indexes the environments. Returns
        the number of transitions that this step completes, and their columns.

        The rows of environments with ``is_skipped`` are left out, and the episodes of these environments end before
        this step, as by :meth:`end`.

        Raises:
          ValueError: a column is missing or unexpected, has a different data type or shape than before, or the number
            of environments changed although windows have several steps; the end of an episode is neither a bool nor 0
            or 1; windows of several steps have no column for the observation after them; or ``is_skipped`` has not one
            bool for each environment. Nothing is stored in this case.
          TypeError: a column contains Python objects, or ``reward`` or the end of an episode is not a number.
        """
        # Usually, a step is like the step before, and only its values need to be checked.
        leaves = self._layout.copied(step) if self._steps and self._layout is not None else None
        if leaves is None:
            leaves = self._checked(step)
            self._layout = _Layout.of(step, leaves)
        else:
            _expect_ends(step)
        layout = self._known()
        count = len(leaves[layout.places["reward"]])
        if is_skipped is not None:
            expect_mask(is_skipped, count)
        if not self._steps or self._n_step == 1:
            self._ages = np.zeros(count, np.int64)
        parts = [] if is_skipped is None else self._open(is_skipped)
        self._steps.append(leaves)
        self._ages = np.minimum(self._ages + 1, self._n_step)
        if is_skipped is not None:
            self._ages[is_skipped] = 0
        has_ended = layout.has_ended(leaves)
        is_any_over = has_ended.any()
        for length in range(len(self._steps), 0, -1):
            if length == self._n_step:
                is_complete = self._ages == length
            elif is_any_over:
                is_complete = has_ended & (self._ages >= length)
            else:
                break
            (environments,) = is_complete.nonzero()
            if len(environments):
                parts.append(self._window(length, environments))
        self._ages[has_ended] = 0
        return _joined(parts)

    def _checked(self, step: Mapping[str, Any]) -> list[npt.NDArray[Any]]:
        """Returns copies of the leaves of a step after checking it completely."""
        _check(step)
        if self._n_step > 1 and not any(map(_is_next, step)):
            raise ValueError(
                f"with n_step={self._n_step}, the observation after a step must be in a column whose name begins with next_, such as "
                f"next_observation, since other columns come from a window's first step; the columns of this step are {sorted(step)}"
            )
        rewards = np.asarray(step["reward"])
        if not rewards.ndim:
            raise ValueError("reward must have one number for each environment, but it is a single number; add() is for a single environment")
        # Windows of one step are complete at once, so callers may leave out environments.
        expected = self._ages.shape if self._steps and self._n_step > 1 else rewards.shape[:1]
        if rewards.shape != expected:
            raise ValueError(
                f"reward must have one number for each environment, shape {expected}, but its shape is {rewards.shape}; "
                "a buffer with n_step must always get steps of the same environments: to leave out rows, such as the resets of "
                "Gymnasium's NEXT_STEP vectors, pass add_batch(…, skip=mask); add() is for a single environment"
            )
        for name in _ENDS:
            if name in step and np.shape(step[name]) != rewards.shape:
                raise ValueError(f"{name} must have one value for each environment, shape {rewards.shape}, but its shape is "
                                 f"{np.shape(step[name])}")
        # The caller may overwrite the arrays.
        copied = nest.map_structure(lambda leaf: np.array(leaf), dict(step))
        for name, column in copied.items():
            leaves = nest.flatten(column)
            if any(leaf.dtype.hasobject for leaf in leaves):
                raise TypeError(f"column {name!r} contains Python objects, but it must contain numbers, strings or arrays of them")
            counts = {leaf.shape[:1] for leaf in leaves}
            if counts - {rewards.shape}:
                raise ValueError(f"column {name!r} has the leading dimensions {sorted(counts)}, but reward has {rewards.shape}: one row for each "
                                 "environment")
        if (newest := self.newest) is not None:
            expect_columns(newest.keys(), step)
            _expect_types(newest, copied)
        return nest.flatten(copied)

    def _known(self) -> _Layout:
        assert self._layout is not None
        return self._layout

    @property
    def newest(self) -> Mapping[str, Any] | None:
        """The newest step of all environments, if there is one."""
        return self._known().fill(self._steps[-1]) if self._steps else None

    @property
    def has_open(self) -> bool:
        """Whether a window is waiting for further steps."""
        return self._n_step > 1 and bool(self._ages.any())

    def open(self) -> tuple[int, dict[str, Any]]:
        """Returns the number of windows that are waiting for further steps, and their columns, as if their episodes had
        been truncated after the newest step. They remain open."""
        return _joined(self._open(np.ones(len(self._ages), np.bool_)))

    def end(self, environments: Any = None) -> tuple[int, dict[str, Any]]:
        """Ends the episodes of these environments (numbers, or a bool for each; by default all), and returns their open
        windows as :meth:`open` does.

        Raises:
          IndexError: there are no such environments.
        """
        is_chosen = np.zeros(len(self._ages), np.bool_)
        chosen = np.arange(len(self._ages)) if environments is None else np.asarray(environments)
        is_chosen[chosen if chosen.size else []] = True
        ended = self._open(is_chosen)
        self._ages[is_chosen] = 0
        return _joined(ended)

    def _open(self, is_chosen: npt.NDArray[np.bool_]) -> list[dict[str, Any]]:
        """Returns the open windows of these environments, in groups."""
        parts = []
        for length in range(1, min(len(self._steps) + 1, self._n_step)):
            environments = np.flatnonzero(is_chosen & (self._ages >= length))
            if len(environments):
                parts.append(self._window(length, environments))
        return parts

    def _window(self, length: int, environments: npt.NDArray[np.int64]) -> dict[str, Any]:
        """Returns the transitions over the last ``length`` steps of these environments."""
        layout, steps = self._known(), [self._steps[number] for number in range(-length, 0)]
        first, last, reward = steps[0], steps[-1], layout.places["reward"]
        sources = [last[place] if is_of_last else first[place] for place, is_of_last in enumerate(layout.is_of_last)]
        rewards, has_terminated = [step[reward] for step in steps], layout.has_terminated(last)
        if len(environments) < len(self._ages):
            sources = [leaf[environments] for leaf in sources]
            rewards, has_terminated = [leaf[environments] for leaf in rewards], has_terminated[environments]
        total = np.zeros(len(environments), np.float64)
        for gained in reversed(rewards):
            total = gained + self._discount * total
        window = layout.fill(sources)
        window["reward"] = total.astype(np.float32)
        if self._keeps_rewards:
            kept = np.zeros((len(environments), self._n_step), np.float32)
            for number, gained in enumerate(rewards):
                kept[:, number] = gained
            window[_REWARDS] = kept
        window["discount"] = np.where(has_terminated, 0.0, self._discount**length).astype(np.float32)
        return window


def _joined(parts: list[dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Returns the number and the columns of all windows of several groups."""
    if not parts:
        return 0, {}
    joined = parts[0] if len(parts) == 1 else nest.map_structure(lambda *leaves: np.concatenate(leaves), *parts)
    return len(joined["discount"]), joined


def _is_next(name: str) -> bool:
    return name == _NEXT or name.startswith(f"{_NEXT}_")


def _expect_types(previous: Mapping[str, Any], step: Mapping[str, Any]) -> None:
    """Raises ``ValueError`` if a column's data type, shape or structure differs from the previous step's. Both steps must
    have the same columns."""
    for name, column in step.items():
        # Rewards may be whole numbers in some steps.
        types, before = ([(leaf.dtype, leaf.shape[1:]) for leaf in nest.flatten(of)] for of in (column, previous[name]))
        if types != before and name != "reward":
            raise ValueError(f"column {name!r} has rows of {_described(types)}, but those of the previous step were {_described(before)}")
        outlines = nest.outline(column), nest.outline(previous[name])
        if outlines[0] != outlines[1]:
            raise ValueError(f"column {name!r} is {nest.shown(outlines[0])}, but it was {nest.shown(outlines[1])} in the previous step; "
                             "use the same names")


def _described(types: list[tuple[np.dtype[Any], tuple[int, ...]]]) -> str:
    return ", ".join(f"{dtype} {shape}" if shape else str(dtype) for dtype, shape in types)


def _check(step: Mapping[str, Any]) -> None:
    if "reward" not in step:
        raise ValueError(f"a step of a buffer with discount or n_step needs a reward, but its columns are {sorted(step)}")
    if _TERMINATED not in step and _DONE not in step:
        raise ValueError(
            "a step of a buffer with discount or n_step must have a column terminated or done, for the end of an episode (and truncated, "
            f"if episodes can be cut off); its columns are {sorted(step)}"
        )
    if "discount" in step:
        raise ValueError("the buffer creates the column discount; omit it from the steps, or from the buffer's arguments")
    for name in ("reward", *_ENDS):
        values = np.asarray(step[name]) if name in step else None
        if values is not None and values.dtype.kind not in "biuf":
            raise TypeError(f"column {name!r} must contain numbers, but its data type is {values.dtype}")
    _expect_ends(step)


def _expect_ends(step: Mapping[str, Any]) -> None:
    """Raises ``ValueError`` for ends of episodes that are numbers other than 0 and 1, which numpy would convert to
    ``True``."""
    for name in _ENDS:
        values = np.asarray(step[name]) if name in step else None
        if values is not None and values.dtype.kind != "b" and not (is_flag := (values == 0) | (values == 1)).all():
            raise ValueError(f"column {name!r} must contain bools, or the numbers 0 and 1, but it contains {values[~is_flag][0].item()}")
