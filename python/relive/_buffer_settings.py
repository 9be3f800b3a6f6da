"""The settings of a replay buffer, and the file that stores them next to its table's checkpoint."""

from __future__ import annotations

import dataclasses
import json
import os
import zlib
from typing import Any

from relive._numbers import number, whole
from relive.errors import DataLossError, FailedPreconditionError
from relive.tables import _MAX_TABLE_SIZE

_FILE = "replay_buffer.json"


@dataclasses.dataclass(frozen=True)
class BufferSettings:
    """The settings of a buffer; see :class:`relive.ReplayBuffer` for their meaning.

    Raises:
      ValueError: a ``capacity``, ``batch_size`` or ``n_step`` below 1, a ``capacity`` that is too large, an ``n_step``
        above 1 without a ``discount``, a ``discount`` that is not from 0 to 1, or a ``prioritized`` that is negative or
        not finite.
      TypeError: one of these settings is not a number, or not a whole number.
    """

    capacity: int
    batch_size: int
    prioritized: float | None
    n_step: int
    discount: float | None
    table: str

    def __post_init__(self) -> None:
        self._convert()
        if not 1 <= self.capacity <= _MAX_TABLE_SIZE:
            raise ValueError(f"capacity must be from 1 to {_MAX_TABLE_SIZE}, got {self.capacity}")
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {self.batch_size}")
        if self.n_step < 1:
            raise ValueError(f"n_step must be at least 1, got {self.n_step}")
        if self.discount is None and self.n_step > 1:
            raise ValueError(f"n_step={self.n_step} requires a discount, such as discount=0.99")
        if self.discount is not None and not 0 <= self.discount <= 1:
            raise ValueError(f"discount must be from 0 to 1, got {self.discount}")

    def _convert(self) -> None:
        """Replaces numbers of other types, such as numpy's, by Python's."""
        for name in ("capacity", "batch_size", "n_step"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if self.prioritized is not None:
            object.__setattr__(self, "prioritized", number("prioritized", self.prioritized, least=0))
        if self.discount is not None:
            object.__setattr__(self, "discount", number("discount", self.discount))

    def save(self, folder: str, **changing: float) -> None:
        """Writes the settings to ``folder``, together with the numbers that change while the buffer is in use."""
        text = json.dumps({**dataclasses.asdict(self), **changing})
        path = os.path.join(folder, _FILE)
        # If the program is killed while it writes, the previous file remains.
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump({"settings": text, "crc32": zlib.crc32(text.encode())}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)


# The names of all saved settings and numbers.
_SAVED = {*(field.name for field in dataclasses.fields(BufferSettings)), "beta", "highest_priority"}


def load(folder: str) -> dict[str, Any]:
    """Loads the settings and numbers that :meth:`BufferSettings.save` has written.

    Raises:
      OSError: the folder has no saved settings.
      DataLossError: the settings are damaged.
      FailedPreconditionError: a later version of Relive, which has more settings, has saved them.
    """
    path = os.path.join(folder, _FILE)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise type(error)(f"{folder} is not a folder in which a ReplayBuffer was saved: it has no file {_FILE}") from error
    try:
        saved = json.loads(content)
        text: str = saved["settings"]
        is_intact = zlib.crc32(text.encode()) == saved["crc32"]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DataLossError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    if not is_intact:
        raise DataLossError(f"{path} is damaged: its checksum does not match")
    settings: dict[str, Any] = json.loads(text)
    if unknown := sorted(settings.keys() - _SAVED):
        raise FailedPreconditionError(
            f"{path} has the settings {unknown}, which this version of Relive does not have; load the buffer with the version that saved it"
        )
    return settings
