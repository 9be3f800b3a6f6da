"""Data sets in files of other formats, which are loaded into stores and into agents' tables."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from relive import gpu, rl
from relive.rl import recorded

ROWS = 9


def data() -> dict[str, Any]:
    ends = np.zeros(ROWS, bool)
    ends[[2, 8]] = True
    timeouts = np.zeros(ROWS, bool)
    timeouts[5] = True
    return {
        "observations": np.arange(ROWS * 6, dtype=np.float32).reshape(ROWS, 2, 3),
        "actions": np.arange(ROWS),
        "rewards": np.linspace(0, 1, ROWS),
        "terminals": ends,
        "timeouts": timeouts,
    }


def expect_all(found: Any) -> None:
    for name, array in data().items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
        assert found[name].dtype == array.dtype, name


def safetensors(arrays: dict[str, Any], names: dict[str, str]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"made": "by hand"}}
    values = b""
    for name, array in arrays.items():
        begin = len(values)
        values += array.tobytes()
        header[name] = {"dtype": names[str(array.dtype)], "shape": list(array.shape), "data_offsets": [begin, len(values)]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + values


NAMES = {"float32": "F32", "int64": "I64", "float64": "F64", "bool": "BOOL"}


def test_safetensors(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.safetensors"
    path.write_bytes(safetensors(data(), NAMES))
    expect_all(rl.arrays_of(path))
    with gpu.Store.of_dataset(path) as store:
        assert [store.status(index).length for index in range(3)] == [3, 3, 3]


def test_hdf5_files_never_lead_to_other_files(tmp_path: pathlib.Path) -> None:
    h5py = pytest.importorskip("h5py")
    private, path = tmp_path / "private", tmp_path / "data.h5"
    private.write_bytes(bytes(8 * ROWS))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["observations"] = data()["observations"]
    layout = h5py.VirtualLayout((ROWS,), "f8")
    layout[:] = h5py.VirtualSource(tmp_path / "other.h5", "observations", (ROWS,))
    arrays = {name: array for name, array in data().items() if name != "observations"}

    def write(change: Callable[[Any], Any]) -> None:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
            file["infos/secret"] = h5py.ExternalLink("other.h5", "observations")
            change(file)

    def share(file: Any) -> None:
        file["infos/observations"] = data()["observations"]
        file["observations"] = h5py.SoftLink("/infos/observations")
        file["next_observations"] = file["observations"]

    cases: list[tuple[Callable[[Any], Any], str]] = [
        (lambda file: file.create_dataset("observations", (ROWS,), "f8", external=[(private, 0, 8 * ROWS)]), "observations has its values in"),
        (lambda file: file.create_virtual_dataset("observations", layout), "observations has its values in other files"),
        (lambda file: file.update({"observations": h5py.ExternalLink("other.h5", "observations")}), "observations is a link to another file"),
        (lambda file: file.update({"observations/a": h5py.ExternalLink("other.h5", "observations")}), "observations/a is a link to another file"),
        (lambda file: file.update({"observations": h5py.SoftLink("/infos/secret")}), "observations is a link to another file"),
        (lambda file: file.update({"observations/a": file.create_group("observations")}), "observations/a is a link to a group"),
        (lambda file: file.create_group("observations").update({"a": file["/"]}), "observations/a is a link to a group"),
    ]
    for change, text in cases:
        write(change)
        for read in (rl.arrays_of, gpu.Store.of_dataset):
            with pytest.raises(ValueError, match=f"data.h5: the array {text}"):
                read(path)
    # Unwanted arrays are not followed, and other names of an array in the same file are no other file.
    write(share)
    expect_all(rl.arrays_of(path))


def test_safetensors_of_others(tmp_path: pathlib.Path) -> None:
    writer = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "data.safetensors"
    writer.save_file(data(), path)
    expect_all(rl.arrays_of(path))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda whole: b"", "truncated"),
        (lambda whole: whole[:40], "truncated"),
        (lambda whole: (1 << 60).to_bytes(8, "little") + whole[8:], "truncated"),
        (lambda whole: whole[:8] + b"!" + whole[9:], "header is damaged"),
        (lambda whole: whole[:-1], "in the bytes from"),
        (lambda whole: whole.replace(b"F32", b"F99"), "must be one of BOOL"),
        (lambda whole: whole.replace(b'"shape"', b'"shade"'), "an unexpected form"),
        (lambda whole: whole.replace(b"[9, 2, 3]", b"[9,-2,-3]"), "in the bytes from"),
        (lambda whole: whole.replace(b'"rewards"', b'"regards"'), "these arrays are missing: rewards"),
    ],
)
def test_damaged_safetensors(tmp_path: pathlib.Path, change: Any, text: str) -> None:
    path = tmp_path / "data.safetensors"
    path.write_bytes(change(safetensors(data(), NAMES)))
    with pytest.raises(ValueError, match=text):
        rl.arrays_of(path)


def table(by_episode: bool) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    arrays = data()
    if by_episode:
        arrays.pop("timeouts")
    columns = {}
    for name, array in arrays.items():
        rows: Any = array.tolist()
        columns[name] = pyarrow.array([rows[start : start + 3] for start in (0, 3, 6)] if by_episode else rows)
    columns["observations"] = columns["observations"].cast(
        pyarrow.list_(pyarrow.list_(pyarrow.list_(pyarrow.float32()))) if by_episode else pyarrow.list_(pyarrow.list_(pyarrow.float32(), 3), 2)
    )
    return pyarrow.table(columns)


def test_unused_columns_are_not_read(tmp_path: pathlib.Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    named = table(by_episode=False).append_column("episode_id", pyarrow.array([f"episode {row // 3}" for row in range(ROWS)]))
    parquet.write_table(named, tmp_path / "data.parquet")
    for given in (tmp_path / "data.parquet", named):
        found = rl.arrays_of(given)
        expect_all(found)
        assert "episode_id" not in found


@pytest.mark.parametrize("by_episode", [False, True])
def test_tables_of_arrow(tmp_path: pathlib.Path, by_episode: bool) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    made = table(by_episode)
    expect_all(rl.arrays_of(made))
    parquet.write_table(made, tmp_path / "data.parquet", row_group_size=2)
    feather.write_feather(made, tmp_path / "data.feather")
    with pyarrow.OSFile(str(tmp_path / "data.arrow"), "wb") as sink, pyarrow.ipc.new_stream(sink, made.schema) as writer:
        writer.write_table(made, max_chunksize=2)
    for name in ("data.parquet", "data.feather", "data.arrow"):
        expect_all(rl.arrays_of(tmp_path / name))
        with gpu.Store.of_dataset(tmp_path / name) as store:
            assert len(store) == 3


def test_tables_that_are_not_data_sets_are_refused() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    good = table(False)
    for column, values, text in (
        ("observations", [[1.0]] * (ROWS - 1) + [[1.0, 2.0]], "lists of 1 to 2 values"),
        ("rewards", [None, *range(ROWS - 1)], "1 values are missing"),
        ("actions", ["left"] * ROWS, "is not a number type"),
    ):
        place = good.column_names.index(column)
        with pytest.raises(ValueError, match=text):
            rl.arrays_of(good.set_column(place, column, pyarrow.array(values)))
    by_episode = table(True)
    with pytest.raises(ValueError, match="has a different number"):
        rl.arrays_of(by_episode.set_column(1, "actions", pyarrow.array([[1], [2], [3]])))


def test_agents_learn_from_a_parquet_file(tmp_path: pathlib.Path) -> None:
    environment = rl.make("catch/0", seed=1)
    spec = rl.make_environment_spec(environment)
    shape = (12, *spec.observations.shape)
    arrays = {
        "observations": np.zeros(shape, np.float32), "actions": np.ones(12, np.int64), "rewards": np.zeros(12), "terminals": np.arange(12) % 4 == 3,
    }
    path = tmp_path / "data.safetensors"
    path.write_bytes(safetensors(arrays, NAMES))
    assert rl.run(rl.DQN(min_replay_size=4), "catch/0", data=path, learner_steps=3, progress=False).learner_steps == 3


def test_files_of_numpy(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.npz"
    rows = {"observations/eye": np.zeros((4, 2), np.uint8), "observations/arm": np.ones((4, 3)), "actions": np.arange(4)}
    np.savez_compressed(path, **rows, rewards=np.ones(4), terminals=np.arange(4) == 3, infos=np.array([None]))  # type: ignore[arg-type]
    found = rl.arrays_of(path)
    assert found.keys() == {*rows, "rewards", "terminals"}
    for name, array in rows.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)
    rl.save_dataset(tmp_path / "again.npz", path)
    assert rl.arrays_of(tmp_path / "again.npz").keys() == found.keys()
    plain = tmp_path / "plain.npz"
    np.savez(plain, **{name: np.zeros(1000) for name in ("observations", "actions", "rewards", "terminals")})  # type: ignore[arg-type]
    damaged = bytearray(plain.read_bytes())
    damaged[4000] ^= 1
    for content in (b"", path.read_bytes()[:-30], damaged):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="data.npz: not a file of numpy's savez, or damaged"):
            rl.arrays_of(path)
    with open(path, "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match="data.npz: not a file of numpy's savez, or damaged"):
        rl.arrays_of(path)


def test_folders_of_recorded_episodes_as_arrays(tmp_path: pathlib.Path) -> None:
    ends = np.array([1, 1, 0], np.float32), np.ones(2, np.float32)
    episodes = [
        recorded.Episode(np.arange(len(end) + 1.0), np.arange(len(end)), np.ones(len(end), np.float32), end) for end in ends
    ]
    recorded.save(tmp_path / "data", episodes)
    found = {name: array.tolist() for name, array in rl.arrays_of(tmp_path / "data").items()}
    assert found == {
        "observations": [0, 1, 2, 0, 1], "next_observations": [1, 2, 3, 1, 2], "actions": [0, 1, 2, 0, 1], "rewards": [1] * 5,
        "terminals": [False, False, True, False, False], "timeouts": [False] * 4 + [True],
    }


def test_lists_of_numbers_are_arrays() -> None:
    found = rl.arrays_of({"observations": [[0.5, 1], [2, 3]], "actions": [1, 0], "rewards": [np.float32(1), 0], "terminals": [False, True]})
    assert found["observations"].shape == (2, 2) and found["actions"].tolist() == [1, 0] and found["rewards"].tolist() == [1, 0]


def test_other_file_extensions_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no file or folder .*data.csv"):
        rl.arrays_of(tmp_path / "data.csv")
    (tmp_path / "data.csv").touch()
    with pytest.raises(ValueError, match=r"the extension of a data set must be one of .hdf5, .h5, .parquet"):
        rl.arrays_of(tmp_path / "data.csv")
