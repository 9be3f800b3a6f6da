"""Checkpoints that several ranks write and load together."""

from __future__ import annotations

import json
import os
import pathlib
import secrets

from relive.errors import DataLossError
from relive.gpu._group import Group, exchange
from relive.gpu._ranks import freeing

# The file in a rank's folder that maps the numbers of the current and the next checkpoint to the saves of all ranks to
# which these checkpoints belong.
_SAVES = "saves.json"


def rank_folder(folder: str | os.PathLike[str], shard: tuple[int, int]) -> str:
    """Returns the folder of a rank's part of a checkpoint."""
    rank, ranks = shard
    return os.fspath(folder if ranks == 1 else pathlib.Path(folder, f"rank-{rank}-of-{ranks}"))


def agree_on_save(group: Group | None, folder: str | os.PathLike[str]) -> None:
    """Waits until all ranks save, and records in this rank's folder that the next checkpoint belongs to this save. A
    rank that has ended thus prevents the save, and the last checkpoint of all ranks remains."""
    if group is None or group.ranks == 1:
        return
    save = exchange(group, lambda: secrets.token_hex(8).encode(), "save")[0].decode()
    own = pathlib.Path(rank_folder(folder, (group.rank, group.ranks)))
    own.mkdir(parents=True, exist_ok=True)
    number = _checkpoint_number(own)
    # The note is written first, and takes effect only once the checkpoint is complete.
    with open(own / f"{_SAVES}.tmp", "w", encoding="ascii") as file:
        json.dump({str(number): _save_of(own, number), str(number + 1): save}, file)
        file.flush()
        os.fsync(file.fileno())
    (own / f"{_SAVES}.tmp").replace(own / _SAVES)


def require_one_save(group: Group | None, folder: str | os.PathLike[str]) -> None:
    """Checks, before the ranks load their checkpoints, that one save of all ranks wrote them.

    Raises:
      DataLossError: the checkpoints are from different saves.
    """
    if group is None or group.ranks == 1:
        return
    own = pathlib.Path(rank_folder(folder, (group.rank, group.ranks)))

    def describe_own() -> bytes:
        number = _checkpoint_number(own)
        return json.dumps([number, _save_of(own, number)]).encode()

    with freeing(group):
        found = [json.loads(answer) for answer in exchange(group, describe_own, "Store.load()")]
        # Without notes, as in older checkpoints, only the numbers can be compared.
        if len({str(save or number) for number, save in found}) > 1:
            each = ", ".join(f"rank {rank} has number {number} (save {save})" for rank, (number, save) in enumerate(found))
            raise DataLossError(
                f"the checkpoints of the ranks in {os.fspath(folder)} are from different saves: {each}; load a checkpoint from another folder"
            )


def _checkpoint_number(folder: pathlib.Path) -> int:
    """Returns the number of the checkpoint in a folder, or 0 if there is none (``docs/gpu-store-format.md``)."""
    try:
        with open(folder / "store.manifest", "rb") as manifest:
            return int.from_bytes(manifest.read(64)[56:], "little")
    except FileNotFoundError:
        return 0


def _save_of(folder: pathlib.Path, number: int) -> str | None:
    """Returns the save that wrote a checkpoint, or ``None`` if the save was not recorded."""
    try:
        save: str | None = json.loads((folder / _SAVES).read_bytes()).get(str(number))
        return save
    except (FileNotFoundError, ValueError):
        return None
