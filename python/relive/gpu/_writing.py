"""Writers, which write trajectories in place; typically, they are environments in separate processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy.typing as npt

from relive import _native
from relive.errors import InvalidArgumentError
from relive.gpu import _columns, _ranks
from relive.gpu._given import real
from relive.gpu._outcomes import Inserted
from relive.gpu._sampling import LARGEST
from relive.gpu._waits import log_long_wait
from relive.specs import ArraySpec

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclasses.dataclass(frozen=True)
class Request:
    """A request from a writer that waits for values from the store's process, such as an action."""

    writer: int
    """The writer's number, from 0."""
    index: int
    """The index of its future trajectory."""
    step: int
    """The current step."""
    generation: int
    """The generation of its future trajectory. If the writer ends, another writer may get its number."""


class Scan(NamedTuple):
    """The results of a scan of the writers."""

    requests: list[Request]
    """The requests that no earlier scan has reported."""
    finished: list[Inserted]
    """The trajectories that became available for drawing."""
    aborted: int
    """Rows with a trajectory that a closed writer or an ended process left unfinished."""
    starved: int
    """The number of writers that are waiting because no row is free. The next scan tries again."""


class Writer:
    """Writes trajectories into a store, step by step and in place; created by :func:`attach_writer`.

    A trajectory can be drawn once it is finished and the store's process has called ``scan``, which also assigns rows
    to writers. If a writer's process ends, at any point, its row returns to the store. Only one thread at a time may
    use a writer.
    """

    def __init__(self, native: _native.GpuWriter) -> None:
        self._native = native
        columns, self._max_steps, self._number = native.schema()
        self._columns = _columns.from_native(columns)
        self._positions = {name: position for position, name in enumerate(self._columns)}
        self._written: set[str] = set()
        # The column of the last `ask`.
        self._asked = ""
        self._has_row = False

    @property
    def number(self) -> int:
        """The number that identifies this writer to the store's process."""
        return self._number

    @property
    def columns(self) -> dict[str, ArraySpec]:
        """The columns of a step, by name."""
        return dict(self._columns)

    @property
    def max_steps(self) -> int:
        """The largest number of steps in a trajectory."""
        return self._max_steps

    @property
    def steps(self) -> int:
        """The number of steps of the current trajectory so far."""
        return self._native.steps()

    def begin(self, *, timeout: float = 60.0) -> None:
        """Waits for a row; returns immediately if one is available. The row starts a trajectory; after :meth:`finish`,
        the next row starts the next trajectory. After 5 seconds, the wait is logged to the logger ``relive``, like
        waits in :meth:`ask` and :meth:`wait`.

        Raises:
          InvalidArgumentError: the current trajectory is unfinished; :meth:`finish` or :meth:`abandon` it first.
          DeadlineExceededError: no row becomes available within ``timeout`` seconds.
          UnavailableError: the store's process has ended.
        """
        if self._written:
            raise InvalidArgumentError(f"writer {self._number} has begun step {self.steps} of a trajectory; finish or abandon() it first")
        with log_long_wait(f"writer {self._number}", lambda: "begin() waits for a row; check that the store's process calls scan(), and that a row is free"):
            self._native.acquire(real("timeout", timeout))
        self._has_row = True

    def write(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Writes some columns of the current step.

        Raises:
          NotFoundError: the column does not exist.
          InvalidArgumentError: a value does not match its column; the writer has no row; or the trajectory has
            ``max_steps`` steps.
        """
        self._expect_row()
        for name, value in values.items():
            position = self._position(name)
            self._native.write(position, _columns.fitted(value, self._columns[name], "the step"))
            self._written.add(name)

    def append(self, values: Mapping[str, npt.ArrayLike]) -> None:
        """Writes the remaining columns of the current step, and proceeds to the next step.

        Raises:
          InvalidArgumentError: as for :meth:`write`; or a column of the step is missing.
        """
        self._expect_row()
        if missing := self._columns.keys() - values.keys() - self._written:
            raise InvalidArgumentError(f"step {self.steps} has no {sorted(missing)}; a step must have all columns")
        self.write(values)
        self._native.advance()
        self._end_step()

    def ask(self, column: str, *, timeout: float = 60.0) -> npt.NDArray[Any]:
        """Lets the store's process fill in columns of the current step with ``Store.answer``, and returns a copy of one
        of these columns.

        Raises:
          NotFoundError: the column does not exist.
          InvalidArgumentError: the writer has no row; or the column is not in the answer and was not written before.
          DeadlineExceededError: no answer arrives within ``timeout`` seconds; :meth:`wait` continues to wait.
          UnavailableError: the store's process has ended.
        """
        self._position(column)
        timeout = real("timeout", timeout)
        self._expect_row()
        self._native.request()
        self._asked = column
        return self.wait(timeout=timeout)

    def wait(self, *, timeout: float = 60.0) -> npt.NDArray[Any]:
        """Continues to wait for the answer to an :meth:`ask` that timed out, and returns the column of that call.

        Raises:
          InvalidArgumentError, DeadlineExceededError, UnavailableError: as for :meth:`ask`.
        """
        self._expect_row()
        if not self._asked:
            raise InvalidArgumentError(f"writer {self._number} waits for nothing; call ask() first")
        with log_long_wait(f"writer {self._number}", lambda: "ask() waits for an answer; check that the store's process calls scan() and answer()"):
            self._native.wait(real("timeout", timeout))
        names = list(self._columns)
        self._written.update(names[position] for position in self._native.answered())
        if self._asked not in self._written:
            raise InvalidArgumentError(
                f"the answer to writer {self._number} has no {self._asked!r}; the store's process must pass this column to answer()"
            )
        return self._native.read(self._position(self._asked))

    def finish(self, weight: float = 1.0) -> None:
        """Finishes the trajectory, with the given weight. The store's process adds it with its next ``scan``; if that
        process ends before that, the trajectory is lost, and the next :meth:`begin` raises UnavailableError.

        Raises:
          InvalidArgumentError: the trajectory has no steps, a step is incomplete, or the weight is invalid.
        """
        self._expect_row()
        if self._written:
            raise InvalidArgumentError(f"step {self.steps} has {sorted(self._written)} only; append its other columns first")
        self._native.finish(real("weight", weight, most=LARGEST))
        self._has_row = False

    def abandon(self) -> None:
        """Discards the trajectory; the next one starts in its place."""
        self._end_step()
        self._native.abandon()

    def close(self) -> None:
        """Closes the writer, and releases the row of an unfinished trajectory."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _end_step(self) -> None:
        self._written.clear()
        self._asked = ""

    def _expect_row(self) -> None:
        if not self._has_row:
            raise InvalidArgumentError(f"writer {self._number} has no trajectory; call begin() first, also after each finish()")

    def _position(self, name: str) -> int:
        return _columns.position(self._positions, name)


def attach_writer(
    name: str, columns: Mapping[str, Any] | None = None, *, max_steps: int | None = None, rank: int | None = None
) -> Writer:
    """Creates a writer for the store with this name, which another process on this machine has created.

    Args:
      name, columns, max_steps, rank: as in :func:`attach`.

    Raises:
      UnavailableError: the store's process has ended, or the store already has its maximum number of writers.
      NotFoundError, InvalidArgumentError, DataLossError: the same as for :func:`attach`.
    """
    return Writer(_native.GpuWriter.attach(_ranks.attached_name(name, rank), _columns.expected(columns, max_steps)))


def as_native(requests: Sequence[Request]) -> list[tuple[int, int, int, int]]:
    """Returns requests in the extension's form."""
    return [(request.writer, request.index, request.step, request.generation) for request in requests]


def answer(
    native: _native.GpuStore, columns: Mapping[str, ArraySpec], requests: Sequence[Request], values: Mapping[str, npt.ArrayLike]
) -> None:
    """Writes values into the current steps of writers, and lets them continue."""
    numbers, positions = as_native(requests), {name: at for at, name in enumerate(columns)}
    for name, value in values.items():
        position = _columns.position(positions, name)
        native.answer(numbers, position, _columns.fitted(value, columns[name], "the answer", rows=len(requests)))
    native.give_back(numbers)
