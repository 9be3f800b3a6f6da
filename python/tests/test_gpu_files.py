"""Columns of a store that are kept in files."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

from relive import gpu
from relive.errors import InvalidArgumentError, UnavailableError

COLUMNS = {"frames": (np.uint8, (3,)), "reward": np.float32}


def store_with(files: Any, **options: Any) -> gpu.Store:
    return gpu.Store(COLUMNS, capacity=4, max_steps=2, files=files, **options)


def add(store: gpu.Store, value: int) -> None:
    store.insert({"frames": np.full((2, 3), value, np.uint8), "reward": np.full(2, value, np.float32)})


def frames_of(store: Any) -> list[int]:
    with store.loader(32, {"frames": gpu.Window()}) as batches:
        return sorted(set(next(batches).data["frames"].ravel().tolist()))


def test_a_column_in_a_file_reads_like_one_in_memory(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "frames.column"
    store = store_with({"frames": "frames.column"}, name=f"relive-test-{tmp_path.name}-files")
    # The path is kept as an absolute one, for processes that attach from another folder.
    monkeypatch.chdir("/")
    for value in (1, 2, 3):
        add(store, value)
    assert path.stat().st_size >= 4 * 2 * 3
    assert frames_of(store) == [1, 2, 3]
    with pytest.raises(UnavailableError, match="frames.column.* in use by process"):
        store_with({"frames": path})
    store.close()
    assert not path.exists()


def test_a_loaded_store_keeps_columns_in_files(tmp_path: pathlib.Path) -> None:
    store = store_with(None)
    add(store, 7)
    store.save(tmp_path / "saved")
    store.close()
    path = tmp_path / "frames.column"
    loaded = gpu.Store.load(tmp_path / "saved", files={"frames": path})
    assert path.exists() and frames_of(loaded) == [7]
    loaded.close()
    assert not path.exists()


def test_two_columns_need_two_files(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UnavailableError, match="same.column"):
        store_with({"frames": tmp_path / "same.column", "reward": tmp_path / "same.column"})
    assert not (tmp_path / "same.column").exists()


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ({"depth": "x"}, "depth"),
        ({"frames": 3}, r"files\['frames'\] is 3; give the path of a file"),
        ({"frames": ""}, r"files\['frames'\] is ''; give the path of a file"),
        ({"frames": pathlib.Path("")}, "give the path of a file"),
        ({"frames": b"x"}, "give the path of a file"),
        ({"frames": "a\0b"}, "give the path of a file"),
        ({3: "x"}, "the name of a column in files"),
        ("frames", "files is a str; give a mapping from names of columns to paths"),
    ],
)
def test_wrong_files_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, files: Any, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidArgumentError, match=text):
        store_with(files)
    assert not list(tmp_path.iterdir())


def test_a_loaded_store_refuses_a_file_for_an_unknown_column(tmp_path: pathlib.Path) -> None:
    store = store_with(None)
    store.save(tmp_path / "saved")
    store.close()
    # A NotFoundError would mean that there is no checkpoint.
    with pytest.raises(InvalidArgumentError, match="depth"):
        gpu.Store.load(tmp_path / "saved", files={"depth": tmp_path / "depth.column"})


def test_a_file_that_belongs_to_no_store_is_left_unchanged(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("mine")
    with pytest.raises(UnavailableError, match="mine.txt exists, but is not a store; choose another name"):
        store_with({"frames": path})
    assert path.read_text() == "mine"
